//! One history: what is done, step by step.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{
    invariants,
    journal::Journal,
    model::{Change, Expected, Model, Queue, Tenant, Waiter},
};
use crate::{
    Capture, Claim, Command, Content, DeadLetter, Dedup, DedupKey, Delivery, Effect, Epoch, Error,
    GroupMode, Limits, Millis, NewMessage, Origin, Output, QueueId, QueueSettings, Receive, Result,
    SeekTo, Seq, Settle, Shard, Stale, TenantId, entry::State,
};

pub(super) struct World {
    pub(super) rng: StdRng,
    pub(super) shard: Shard,
    pub(super) model: Model,
    pub(super) journal: Journal,
    pub(super) now: Millis,
    pub(super) epoch: u32,
    pub(super) limits: Limits,
    /// Every claim ever given out, the last one of a message last.
    pub(super) claims: Vec<Claim>,
    pub(super) issued: BTreeMap<(QueueId, Seq), Vec<Claim>>,
    /// The standings and counts a message ever had.
    pub(super) seen: BTreeMap<(QueueId, Seq), Vec<Seen>>,
    /// The highest sequence number ever used, and the highest queue id.
    pub(super) highest: BTreeMap<QueueId, u64>,
    pub(super) capture: Option<(Capture, usize, Vec<Vec<u8>>)>,
    /// A finished capture, with the position it began at and the group it needs.
    pub(super) captured: Option<(usize, crate::OpNo, Vec<Vec<u8>>)>,
    pub(super) checkpoint: Option<(usize, Vec<Vec<u8>>)>,
    /// A life was begun from a checkpoint.
    pub(super) relies: bool,
    contents: u64,
    trace: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) state: State,
    pub(super) due: Millis,
    pub(super) deliveries: u32,
    pub(super) first: Millis,
}

pub(super) fn play(seed: u64, trace: bool) {
    let mut rng = StdRng::seed_from_u64(seed);
    let limits = Limits {
        messages_per_queue: if rng.random_bool(0.3) { 12 } else { 1000 },
        tombstones: 2,
        ..Limits::UNLIMITED
    };
    let now = Millis(1_800_000_000_000);
    let mut world = World {
        shard: Shard::new(3, Epoch(1), limits, now),
        model: Model {
            max_messages: limits.messages_per_queue,
            now,
            ..Model::default()
        },
        rng,
        journal: Journal::default(),
        now,
        epoch: 1,
        limits,
        claims: vec![],
        issued: BTreeMap::new(),
        seen: BTreeMap::new(),
        highest: BTreeMap::new(),
        capture: None,
        captured: None,
        checkpoint: None,
        relies: false,
        contents: 0,
        trace,
    };
    world.new_tenant();
    for _ in 0..world.rng.random_range(20..200) {
        world.step();
        world.verify();
    }
    world.clear();
}

const SECOND: u64 = 1000;

impl World {
    fn step(&mut self) {
        let kind = self.rng.random_range(0..100);
        if self.trace {
            eprintln!("-- {kind} at {}", self.now.0 - 1_800_000_000_000);
        }
        match kind {
            0..6 => self.create(),
            6..22 => self.send(),
            22..26 => self.publish(),
            26..31 => self.transact(),
            31..45 => self.receive(),
            45..50 => self.register(),
            50..53 => self.grant_or_cancel(),
            53..65 => self.settle(),
            65..67 => self.give_back(),
            67..69 => self.reissue(),
            69..71 => self.receive_deferred(),
            71..73 => self.seek(),
            73..75 => self.move_ready(),
            75 => self.purge(),
            76 => self.delete(),
            77..79 => self.update(),
            79 => self.document(),
            80 if self.rng.random_bool(0.3) => self.new_tenant(),
            80 if self.rng.random_bool(0.2) => self.delete_tenant(),
            80..87 => self.pass_time(),
            87..89 => self.save(),
            89..95 => self.write_and_tell(),
            95..97 => self.capture(),
            97 => self.relocate(),
            _ => self.crash(),
        }
    }

    fn tell_state(&self) {
        for (id, slot) in &self.shard.queue_slots {
            let queue = &self.shard.queues[*slot];
            for (seq, key) in queue.index.from(Seq(0)) {
                let entry = &self.shard.entries[key];
                let group = self.shard.group_name(key);
                eprintln!(
                    "   {id} {} {seq} {:?} due {:?} expires {:?} count {} {group:?}",
                    queue.name, entry.state, entry.due, entry.expires_at, entry.deliveries
                );
            }
        }
    }

    fn any_queue(&mut self) -> Option<QueueId> {
        let count = self.model.queues.len();
        (count > 0).then(|| self.model.queues[self.rng.random_range(0..count)].id)
    }

    fn any_claim(&mut self) -> Option<Claim> {
        let count = self.claims.len();
        if count == 0 {
            return None;
        }
        let recent = self.rng.random_bool(0.7);
        let from = if recent { count.saturating_sub(8) } else { 0 };
        Some(self.claims[self.rng.random_range(from..count)])
    }

    fn new_tenant(&mut self) {
        let name = format!("t{}", self.rng.random_range(0..2));
        let mut tx = self.shard.begin(self.now);
        let (id, _) = tx.create_tenant(&name);
        let output = tx.finish();
        match self.model.tenants.iter().find(|tenant| tenant.name == name) {
            Some(tenant) => assert_eq!(tenant.id, id),
            None => self.model.tenants.push(Tenant {
                id,
                name,
                documents: BTreeMap::new(),
                tombstones: BTreeMap::new(),
            }),
        }
        self.process(output);
    }

    fn delete_tenant(&mut self) {
        if self.model.tenants.is_empty() {
            return;
        }
        let at = self.rng.random_range(0..self.model.tenants.len());
        let id = self.model.tenants.remove(at).id;
        let mut tx = self.shard.begin(self.now);
        assert_eq!(tx.delete_tenant(id), Ok(()));
        let output = tx.finish();
        self.model.queues.retain(|queue| queue.tenant != id);
        self.process(output);
    }

    fn settings(&mut self, name: &str) -> QueueSettings {
        let rng = &mut self.rng;
        let fifo = name.starts_with('f');
        QueueSettings {
            retention: Millis(rng.random_range(1..200) * SECOND),
            delay: Millis(if rng.random_bool(0.1) { 3 * SECOND } else { 0 }),
            groups: fifo.then_some(GroupMode::Fifo),
            dedup: (fifo || rng.random_bool(0.2)).then_some(Dedup {
                window: Millis(20 * SECOND),
            }),
            // One source a target, so that the order of moves is plain.
            dead_letter: match name {
                "a" | "fa" if rng.random_bool(0.7) => Some(format!("{name}-dead")),
                "a-dead" if rng.random_bool(0.3) => Some("a".to_owned()),
                "b" if rng.random_bool(0.3) => Some("b".to_owned()),
                _ => None,
            }
            .map(|queue| DeadLetter {
                queue,
                max_deliveries: rng.random_range(1..3),
                source: format!("arn:{name}"),
                restart_retention: rng.random_bool(0.5),
            }),
            retain_acked: rng.random_bool(0.4).then_some(Millis(60 * SECOND)),
            max_priority: if rng.random_bool(0.3) { 3 } else { 0 },
            max_leased: if rng.random_bool(0.3) { 2 } else { 1000 },
            protocol: vec![7; rng.random_range(0..3)],
            ..QueueSettings::default()
        }
    }

    fn create(&mut self) {
        let Some(tenant) = self.model.tenants.first().map(|tenant| tenant.id) else {
            return;
        };
        let names = ["a", "a-dead", "b", "fa", "fa-dead", "fb"];
        let name = names[self.rng.random_range(0..names.len())];
        let settings = self.settings(name);
        let mut tx = self.shard.begin(self.now);
        let result = tx.create_queue(tenant, name, settings.clone(), Origin::Explicit);
        let output = tx.finish();
        let now = self.model.now;
        let rests = self.model.tenants[0]
            .tombstones
            .get(name)
            .is_some_and(|until| *until > now);
        if self.model.named(tenant, name).is_some() {
            assert_eq!(result, Err(Error::AlreadyExists("name")));
        } else if rests {
            assert_eq!(result, Err(Error::DeletedRecently));
        } else {
            let id = result.expect("it can be made");
            assert!(
                self.highest.keys().all(|known| *known < id),
                "a queue id is used again"
            );
            self.highest.insert(id, 0);
            self.model.tenants[0].tombstones.remove(name);
            self.model.queues.push(Queue {
                id,
                tenant,
                name: name.to_owned(),
                settings,
                next_seq: 1,
                msgs: vec![],
                known: vec![],
                waiters: vec![],
            });
        }
        self.process(output);
    }

    fn message(&mut self) -> (NewMessage, u64) {
        self.contents += 1;
        let content = self.contents;
        let rng = &mut self.rng;
        let key = format!("d{}", rng.random_range(0..20));
        let message = NewMessage {
            content: Bytes::from(content.to_string()),
            id: u128::from(content) << 40,
            charge: rng.random_range(1..50),
            group: rng
                .random_bool(0.8)
                .then(|| Arc::from(format!("g{}", rng.random_range(0..3)))),
            dedup: rng.random_bool(0.4).then(|| DedupKey::new("", &key)),
            delay: rng
                .random_bool(0.1)
                .then(|| Millis(rng.random_range(0..10) * SECOND)),
            ttl: rng
                .random_bool(0.2)
                .then(|| Millis(rng.random_range(1..30) * SECOND)),
            priority: rng.random_range(0..6),
        };
        (message, content)
    }

    /// A message for these queues: only those without groups take a delay of its own.
    fn message_for(&mut self, queues: &[QueueId]) -> (NewMessage, u64) {
        let (mut message, content) = self.message();
        let grouped = |queue: &Queue| queue.settings.groups.is_some() && queues.contains(&queue.id);
        if self.model.queues.iter().any(grouped) {
            message.delay = None;
        }
        (message, content)
    }

    fn send(&mut self) {
        let Some(id) = self.any_queue() else { return };
        let messages: Vec<_> = (0..self.rng.random_range(1..4))
            .map(|_| self.message_for(&[id]))
            .collect();
        let mut tx = self.shard.begin(self.now);
        let results: Vec<_> = messages
            .iter()
            .map(|(message, _)| tx.send(id, message.clone()))
            .collect();
        let output = tx.finish();
        for ((message, content), result) in messages.into_iter().zip(results) {
            let sends = [(id, message.clone())];
            match self.model.check_sends(&sends, &[]) {
                Err(error) => same_error(&result, &error),
                Ok(()) => assert_eq!(result, Ok(self.model.send(id, &message, content, false))),
            }
        }
        self.process(output);
    }

    fn publish(&mut self) {
        let mut queues: Vec<_> = (0..3).filter_map(|_| self.any_queue()).collect();
        queues.sort();
        queues.dedup();
        if let Some(first) = self.model.queues.first().map(|queue| queue.tenant) {
            let model = &self.model;
            queues.retain(|id| {
                model
                    .queues
                    .iter()
                    .any(|queue| queue.id == *id && queue.tenant == first)
            });
        }
        let (message, content) = self.message_for(&queues);
        let mut tx = self.shard.begin(self.now);
        let result = tx.publish(&queues, message.clone());
        let output = tx.finish();
        let sends: Vec<_> = queues.iter().map(|id| (*id, message.clone())).collect();
        match self.model.check_sends(&sends, &[]) {
            Err(error) => same_error(&result, &error),
            Ok(()) => {
                let expected = queues
                    .iter()
                    .map(|id| self.model.send(*id, &message, content, false));
                assert_eq!(result, Ok(expected.collect()));
            }
        }
        self.process(output);
    }

    fn transact(&mut self) {
        // So that it does not matter which of the commands is looked at first.
        self.tick();
        let mut commands = Vec::new();
        let (mut sends, mut moved, mut refused) = (vec![], vec![], None);
        let mut contents = BTreeMap::new();
        for _ in 0..self.rng.random_range(1..4) {
            if self.rng.random_bool(0.5) {
                let Some(id) = self.any_queue() else { continue };
                let (message, content) = self.message_for(&[id]);
                contents.insert(message.id, content);
                sends.push((id, message.clone()));
                commands.push(Command::Send(id, message));
            } else if let Some(claim) = self.any_claim().filter(|claim| self.is_certain(claim)) {
                let twice = |command: &Command| {
                    matches!(command, Command::Settle(other, ..)
                        if (other.queue, other.seq) == (claim.queue, claim.seq))
                };
                if commands.iter().any(twice) {
                    continue;
                }
                let (settle, stale) = self.any_settle();
                let current = self.is_current(&claim);
                let check = self.model.check_settle(claim, settle, stale, current);
                refused = refused.or(check.clone().err());
                if settle == Settle::DeadLetter && check.is_ok() {
                    match self.model.dead_letter_target(claim.queue) {
                        Ok(to) => moved.push(to),
                        Err(error) => refused = refused.or(Some(error)),
                    }
                }
                commands.push(Command::Settle(claim, settle, stale));
            }
        }
        let refused = refused.or(self.model.check_sends(&sends, &moved).err());
        let mut tx = self.shard.begin(self.now);
        let result = tx.transact(commands.clone());
        let output = tx.finish();
        match refused {
            Some(_) => assert!(result.is_err(), "{result:?} in place of {refused:?}"),
            None => {
                let results = result.expect("nothing is in the way");
                for (command, result) in commands.into_iter().zip(results) {
                    match command {
                        Command::Send(id, message) => {
                            let content = contents[&message.id];
                            assert_eq!(result, Some(self.model.send(id, &message, content, true)));
                        }
                        Command::Settle(claim, settle, stale) => {
                            let current = self.is_current(&claim);
                            assert_eq!(self.model.settle(claim, settle, stale, current), Ok(()));
                            self.note_durable(&claim, settle);
                        }
                    }
                }
            }
        }
        self.process(output);
    }

    fn request(&mut self) -> Receive {
        let leases = [
            None,
            Some(Millis(5 * SECOND)),
            Some(Millis(SECOND)),
            Some(Millis::ZERO),
        ];
        Receive {
            max: self.rng.random_range(1..5),
            lease: leases[self.rng.random_range(0..leases.len())],
        }
    }

    fn receive(&mut self) {
        let Some(id) = self.any_queue() else { return };
        let request = self.request();
        let mut tx = self.shard.begin(self.now);
        let result = tx.receive(id, request);
        let output = tx.finish();
        match (result, self.model.take(id, request)) {
            (Ok(got), Ok(expected)) => self.delivered(id, got, &expected),
            (Err(Error::TooMany { .. }), Err(())) => {}
            (got, expected) => panic!("{got:?} in place of {expected:?}"),
        }
        self.process(output);
    }

    fn register(&mut self) {
        let Some(id) = self.any_queue() else { return };
        let Receive { max, lease } = self.request();
        let once = self.rng.random_bool(0.5);
        let credit = if once {
            max
        } else {
            self.rng.random_range(0..4)
        };
        let mut tx = self.shard.begin(self.now);
        let receiver = if once {
            tx.wait(id, Receive { max, lease })
        } else {
            tx.subscribe(id, credit, lease)
        };
        let output = tx.finish();
        let waiter = Waiter {
            id: receiver.expect("there is room"),
            credit,
            lease,
            once,
        };
        self.model
            .queue(id)
            .expect("it is there")
            .waiters
            .push(waiter);
        self.process(output);
    }

    fn grant_or_cancel(&mut self) {
        let waiters: Vec<_> = self
            .model
            .queues
            .iter()
            .flat_map(|q| q.waiters.iter().map(|w| (q.id, *w)))
            .collect();
        if waiters.is_empty() {
            return;
        }
        let (queue, waiter) = waiters[self.rng.random_range(0..waiters.len())];
        let cancel = waiter.once || self.rng.random_bool(0.4);
        let mut tx = self.shard.begin(self.now);
        if cancel {
            assert!(tx.cancel(waiter.id) && !tx.cancel(waiter.id));
        } else {
            assert_eq!(tx.grant(waiter.id, 2), Ok(()));
        }
        let output = tx.finish();
        let waiters = &mut self.model.queue(queue).expect("it is there").waiters;
        if cancel {
            waiters.retain(|other| other.id != waiter.id);
        } else if let Some(known) = waiters.iter_mut().find(|other| other.id == waiter.id) {
            known.credit += 2;
        }
        self.process(output);
    }

    fn any_settle(&mut self) -> (Settle, Stale) {
        let span = Millis(self.rng.random_range(0..8) * SECOND);
        let settle = match self.rng.random_range(0..9) {
            0..4 => Settle::Complete,
            4 => Settle::Lease(span),
            5 | 6 => Settle::Release(span),
            7 => Settle::Defer,
            _ => Settle::DeadLetter,
        };
        (
            settle,
            if self.rng.random_bool(0.5) {
                Stale::Accept
            } else {
                Stale::Refuse
            },
        )
    }

    /// Whether the claim is the last one given out for its message.
    pub(super) fn is_current(&self, claim: &Claim) -> bool {
        let issued = self.issued.get(&(claim.queue, claim.seq));
        issued.and_then(|claims| claims.last()) == Some(claim)
    }

    /// Whether what a claim may do can be told: not if it was superseded in an earlier life, of which the journal kept
    /// nothing, and not if its lease may have been forgotten.
    fn is_certain(&self, claim: &Claim) -> bool {
        let issued = &self.issued[&(claim.queue, claim.seq)];
        claim.epoch.0 == self.epoch || issued.last().is_some_and(|last| last.epoch.0 == self.epoch)
    }

    fn settle(&mut self) {
        let Some(mut claim) = self.any_claim() else {
            return;
        };
        let (settle, stale) = self.any_settle();
        if !self.is_certain(&claim) {
            return self.settle_from_before(claim);
        }
        if self.rng.random_bool(0.05) {
            claim.epoch.0 += 1;
        }
        let current = self.is_current(&claim);
        let mut tx = self.shard.begin(self.now);
        let result = tx.settle(claim, settle, stale);
        let output = tx.finish();
        let expected = self.model.settle(claim, settle, stale, current);
        match &expected {
            Ok(()) => assert_eq!(result, Ok(())),
            Err(error) => same_error(&result, error),
        }
        if expected.is_ok() {
            self.note_durable(&claim, settle);
        }
        self.process(output);
    }

    /// A claim from before a crash settles its message unless that was delivered again.
    fn settle_from_before(&mut self, claim: Claim) {
        let refuse = self.is_current(&claim) && self.rng.random_bool(0.5);
        let stale = if refuse { Stale::Refuse } else { Stale::Accept };
        let mut tx = self.shard.begin(self.now);
        let result = tx.settle(claim, Settle::Complete, stale);
        let output = tx.finish();
        self.model.touch(claim.queue, claim.seq.0);
        let now = self.model.now;
        let msg = self.model.msg(claim.queue, claim.seq.0).cloned();
        let holds = msg.is_some_and(|msg| {
            let forgotten = msg.deliveries < claim.delivery;
            let leased =
                msg.deliveries == claim.delivery && msg.state == State::Leased && msg.due > now;
            !msg.here && (forgotten || leased)
        });
        if refuse && !holds && result == Err(Error::LeaseLost) {
            return self.process(output);
        }
        match self
            .model
            .settle(claim, Settle::Complete, Stale::Accept, true)
        {
            Err(error) => same_error(&result, &error),
            Ok(()) => {
                assert_eq!(result, Ok(()));
                self.note_durable(&claim, Settle::Complete);
            }
        }
        self.process(output);
    }

    /// What the journal was told for certain.
    fn note_durable(&mut self, claim: &Claim, settle: Settle) {
        let from = self.seen.get(&(claim.queue, claim.seq)).map_or(0, Vec::len);
        if let Some(msg) = self.model.msg(claim.queue, claim.seq.0)
            && matches!(msg.state, State::Acked | State::Deferred)
        {
            msg.standing_from = from;
            msg.was_deferred = settle == Settle::Defer;
        }
    }

    fn give_back(&mut self) {
        let Some(claim) = self.any_claim() else {
            return;
        };
        let mut tx = self.shard.begin(self.now);
        tx.give_back(&claim);
        let output = tx.finish();
        self.model.touch(claim.queue, claim.seq.0);
        let current = self.is_current(&claim) && claim.epoch.0 == self.epoch;
        let now = self.model.now;
        if let Some(msg) = self.model.msg(claim.queue, claim.seq.0)
            && current
            && msg.state == State::Leased
        {
            msg.deliveries -= 1;
            if msg.deliveries == 0 {
                msg.first = Millis::ZERO;
            }
            (msg.state, msg.due) = (State::Ready, now);
            self.claims.retain(|other| *other != claim);
            if let Some(issued) = self.issued.get_mut(&(claim.queue, claim.seq)) {
                issued.pop();
            }
        }
        self.process(output);
    }

    fn reissue(&mut self) {
        let mut claims: Vec<Claim> = (0..2).filter_map(|_| self.any_claim()).collect();
        claims.dedup();
        let mut tx = self.shard.begin(self.now);
        let result = tx.reissue(&claims, Some(Millis(4 * SECOND)));
        let output = tx.finish();
        let now = self.model.now;
        // It stops at the first that cannot be.
        let all = claims.iter().all(|claim| {
            self.model.touch(claim.queue, claim.seq.0);
            let current = self.is_current(claim) && claim.epoch.0 == self.epoch;
            self.model.msg(claim.queue, claim.seq.0).is_some_and(|msg| {
                current
                    && msg.state == State::Leased
                    && msg.due > now
                    && !msg.touched
                    && !msg.is_expired(now)
            })
        });
        assert_eq!(result.is_some(), all);
        for delivery in result.into_iter().flatten() {
            let until = now.plus(Millis(4 * SECOND));
            assert_eq!(delivery.leased_until, until);
            self.model
                .msg(delivery.claim.queue, delivery.claim.seq.0)
                .expect("leased")
                .due = until;
        }
        self.process(output);
    }

    fn receive_deferred(&mut self) {
        let Some(id) = self.any_queue() else { return };
        self.tick();
        let now = self.model.now;
        let queue = self.model.queue(id).expect("it is there");
        let seqs: Vec<u64> = queue
            .msgs
            .iter()
            .filter(|msg| msg.state == State::Deferred && !msg.is_expired(now))
            .map(|msg| msg.seq)
            .collect();
        if seqs.is_empty() {
            return;
        }
        let wanted: Vec<Seq> = seqs.iter().map(|seq| Seq(*seq)).collect();
        let mut tx = self.shard.begin(self.now);
        assert!(
            tx.receive_deferred(id, &[wanted[0], wanted[0]], None)
                .is_err()
        );
        let got = tx
            .receive_deferred(id, &wanted, Some(Millis(SECOND)))
            .expect("all are deferred");
        let output = tx.finish();
        let expected: Vec<Expected> = seqs
            .iter()
            .map(|seq| {
                let msg = self.model.msg(id, *seq).expect("it is there");
                msg.was_deferred = true;
                msg.deliver(now, Millis(SECOND))
            })
            .collect();
        self.delivered(id, got, &expected);
        self.process(output);
    }

    fn seek(&mut self) {
        let Some(id) = self.any_queue() else { return };
        let queue = self.model.queue(id).expect("it is there");
        let retains = queue.settings.retain_acked.is_some();
        let seqs: Vec<u64> = queue.msgs.iter().map(|msg| msg.seq).collect();
        let boundary = match seqs.len() {
            0 => 5,
            count => seqs[self.rng.random_range(0..count)] + self.rng.random_range(0..2),
        };
        let mut tx = self.shard.begin(self.now);
        let result = tx.seek(id, SeekTo::Seq(Seq(boundary)));
        let output = tx.finish();
        assert_eq!(result.is_ok(), retains || result == Err(Error::Busy));
        if result.is_ok() {
            self.model.seek(id, boundary);
        }
        self.process(output);
        if self.rng.random_bool(0.5) {
            self.tick();
        }
    }

    fn move_ready(&mut self) {
        let (Some(from), Some(to)) = (self.any_queue(), self.any_queue()) else {
            return;
        };
        self.tick();
        let max = self.rng.random_range(1..4);
        self.contents += 1;
        let id = u128::from(self.contents) << 40;
        let mut tx = self.shard.begin(self.now);
        let result = tx.move_ready(from, max, &mut |_, _| Some((to, id)));
        let output = tx.finish();
        let now = self.model.now;
        let mut moved = 0;
        let mut refused = None;
        for _ in 0..max {
            let Some(seq) = self.model.peek(from) else {
                break;
            };
            if self
                .model
                .msg(from, seq)
                .is_some_and(|msg| msg.is_expired(now))
            {
                self.model.remove(from, seq);
                continue;
            }
            let done = self.model.relocate(from, seq, to, |msg| {
                (msg.deliveries, msg.first, msg.enqueued_at) = (0, Millis::ZERO, now);
                (msg.source, msg.id) = (None, Some(id));
            });
            match done {
                Ok(()) => moved += 1,
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        match refused {
            Some(error) if moved == 0 => assert_eq!(result, Err(error)),
            _ => assert_eq!(result, Ok(moved)),
        }
        self.process(output);
    }

    fn purge(&mut self) {
        let Some(id) = self.any_queue() else { return };
        let mut tx = self.shard.begin(self.now);
        let result = tx.purge(id, Millis::ZERO);
        let output = tx.finish();
        assert_eq!(result, Ok(()));
        let queue = self.model.queue(id).expect("it is there");
        queue.msgs.clear();
        queue.known.clear();
        self.process(output);
    }

    fn delete(&mut self) {
        let Some(id) = self.any_queue() else { return };
        let rest = if self.rng.random_bool(0.5) {
            Millis(5 * SECOND)
        } else {
            Millis::ZERO
        };
        let mut tx = self.shard.begin(self.now);
        let result = tx.delete_queue(id, rest);
        let output = tx.finish();
        assert_eq!(result, Ok(()));
        let at = self
            .model
            .queues
            .iter()
            .position(|queue| queue.id == id)
            .expect("it is there");
        let queue = self.model.queues.remove(at);
        let ended = output
            .effects
            .iter()
            .filter(|effect| matches!(effect, Effect::End { .. }));
        assert_eq!(ended.count(), queue.waiters.len());
        let until = self.model.now.plus(rest);
        if rest > Millis::ZERO
            && let Some(tenant) = self.model.tenants.iter_mut().find(|t| t.id == queue.tenant)
        {
            tenant.tombstones.insert(queue.name, until);
            if tenant.tombstones.len() as u64 > self.limits.tombstones {
                let first = tenant.tombstones.iter().min_by_key(|(_, until)| **until);
                let first = first.map(|(name, _)| name.clone()).expect("not empty");
                tenant.tombstones.remove(&first);
            }
        }
        self.process(output);
    }

    fn update(&mut self) {
        let Some(id) = self.any_queue() else { return };
        let (name, before) = {
            let queue = self.model.queue(id).expect("it is there");
            (queue.name.clone(), queue.settings.clone())
        };
        let settings = QueueSettings {
            delay: before.delay,
            dedup: before.dedup,
            ..self.settings(&name)
        };
        let mut tx = self.shard.begin(self.now);
        let result = tx.update_queue(id, settings.clone());
        let output = tx.finish();
        assert_eq!(result, Ok(()));
        let queue = self.model.queue(id).expect("it is there");
        if before.retention != settings.retention {
            for msg in &mut queue.msgs {
                // One that has not begun is the same as this one.
                msg.pending
                    .retain(|change| !matches!(change, Change::Retime));
                msg.pending.push(Change::Retime);
            }
        }
        queue.settings = settings;
        self.process(output);
        if self.rng.random_bool(0.5) {
            self.tick();
        }
    }

    fn document(&mut self) {
        let Some(tenant) = self.model.tenants.first_mut() else {
            return;
        };
        let key = format!("k{}", self.rng.random_range(0..3));
        let value = self
            .rng
            .random_bool(0.7)
            .then(|| vec![1; self.rng.random_range(0..9)]);
        let mut tx = self.shard.begin(self.now);
        assert_eq!(tx.put_document(tenant.id, &key, value.as_deref()), Ok(()));
        let output = tx.finish();
        match value {
            Some(value) => tenant.documents.insert(key, value),
            None => tenant.documents.remove(&key),
        };
        self.process(output);
    }

    fn pass_time(&mut self) {
        let span = [1, 500, SECOND, 6 * SECOND, 40 * SECOND][self.rng.random_range(0..5)];
        self.now = self.now.plus(Millis(self.rng.random_range(0..=span)));
        self.model.now = self.model.now.max(self.now);
        // Others may come before the timers do.
        if self.rng.random_bool(0.6) {
            self.tick();
        } else {
            let output = self.shard.begin(self.now).finish();
            self.process(output);
        }
    }

    /// Ticks until nothing is put off.
    pub(super) fn tick(&mut self) {
        loop {
            let output = self.shard.tick(self.now);
            self.model.pass_time();
            self.process_one(output);
            if self.shard.sweeping.is_empty() && self.shard.unserved.is_empty() {
                break;
            }
        }
        self.wake_ups_are_complete();
    }

    fn save(&mut self) {
        // Saving makes what is pending first, for those that are unsaved; after a tick nothing is.
        self.tick();
        let output = self.shard.save(self.now);
        assert!(!self.shard.has_unsaved());
        self.note_seen();
        for queue in &mut self.model.queues {
            for msg in &mut queue.msgs {
                let last = self.seen[&(queue.id, Seq(msg.seq))].len() - 1;
                (msg.standing_from, msg.counts_from, msg.was_deferred) = (last, last, false);
            }
        }
        self.process(output);
    }

    fn write_and_tell(&mut self) {
        let waiting = self.journal.waiting();
        let count = if self.rng.random_bool(0.5) {
            waiting
        } else {
            self.rng.random_range(0..=waiting)
        };
        self.journal.cut(count);
        let mut more = self.rng.random_range(0..20);
        while more > 0 && self.tell() {
            more -= 1;
        }
    }

    /// Tells the shard of the next group in the log; whether there was one.
    pub(super) fn tell(&mut self) -> bool {
        let Some((op, bodies)) = self.journal.tell() else {
            return false;
        };
        let output = self.shard.durable(self.now, op, &bodies);
        self.model.release_held(op.0);
        self.process(output);
        if let Some((_, needs, _)) = &self.captured
            && *needs <= op
        {
            self.checkpoint = self.captured.take().map(|(from, _, pieces)| (from, pieces));
        }
        true
    }

    fn capture(&mut self) {
        let told = self.journal.told;
        let (mut capture, from, mut pieces) =
            self.capture
                .take()
                .unwrap_or((Capture::default(), told, vec![]));
        pieces.push(self.shard.capture(&mut capture));
        if capture.is_done() {
            self.captured = Some((from, self.shard.last_op(), pieces));
        } else {
            self.capture = Some((capture, from, pieces));
        }
    }

    fn relocate(&mut self) {
        let (bodies, _) = self.shard.bodies_in(0..u64::MAX, 0);
        let some: Vec<_> = bodies
            .into_iter()
            .filter(|_| self.rng.random_bool(0.3))
            .map(|body| (body, self.journal.stored[&body.at.position].clone()))
            .collect();
        let output = self.shard.relocate(self.now, some);
        self.process(output);
    }

    /// Checks deliveries and notes their claims.
    fn delivered(&mut self, id: QueueId, got: Vec<Delivery>, expected: &[Expected]) {
        let seen: Vec<Expected> = got
            .iter()
            .map(|delivery| Expected {
                seq: delivery.claim.seq.0,
                delivery: delivery.claim.delivery,
                content: self.content(&delivery.content),
                until: delivery.leased_until,
                group: delivery.group.as_ref().map(|group| group.to_string()),
            })
            .collect();
        assert_eq!(seen, expected, "deliveries of queue {id}");
        for delivery in got {
            let claim = delivery.claim;
            assert_eq!((claim.queue, claim.epoch.0), (id, self.epoch));
            self.issued.entry((id, claim.seq)).or_default().push(claim);
            self.claims.push(claim);
        }
    }

    pub(super) fn content(&self, content: &Content) -> u64 {
        let bytes = match content {
            Content::Pinned(bytes) => bytes.clone(),
            Content::Stored(at) => self.journal.stored[&at.position].clone(),
        };
        String::from_utf8_lossy(&bytes).parse().expect("a number")
    }

    /// Follows an output, and the ticks that finish what it put off.
    pub(super) fn process(&mut self, output: Output) {
        self.process_one(output);
        if !self.shard.unserved.is_empty() {
            return self.tick();
        }
        self.wake_ups_are_complete();
    }

    fn process_one(&mut self, output: Output) {
        let now = self.model.now;
        for queue in &mut self.model.queues {
            let slot = self.shard.queue_slots[&queue.id];
            let settings = queue.settings.clone();
            for msg in &mut queue.msgs {
                msg.settle_but(self.shard.sweeps(slot), &settings, now);
            }
        }
        let mut later: VecDeque<QueueId> = output.effects.iter().filter_map(queue_of).collect();
        for effect in output.effects {
            let Effect::Deliver {
                receiver,
                deliveries,
            } = effect
            else {
                continue;
            };
            self.drain(&later);
            later.pop_front();
            let id = deliveries[0].claim.queue;
            let queue = self.model.queue(id).expect("it is there");
            let waiter = *queue
                .waiters
                .iter()
                .find(|w| w.id == receiver)
                .expect("it waits");
            let max = if waiter.once { waiter.credit } else { 1 };
            let expected = self
                .model
                .take(
                    id,
                    Receive {
                        max,
                        lease: waiter.lease,
                    },
                )
                .expect("room");
            let count = deliveries.len() as u32;
            self.delivered(id, deliveries, &expected);
            let queue = self.model.queue(id).expect("it is there");
            queue.waiters.retain_mut(|w| {
                if w.id == receiver {
                    w.credit -= count;
                }
                w.id != receiver || !w.once
            });
        }
        self.drain(&later);
        self.note_seen();
        if let Some(group) = output.group {
            for msg in self
                .model
                .queues
                .iter_mut()
                .flat_map(|queue| &mut queue.msgs)
            {
                if msg.state == State::Held && msg.held_by == 0 {
                    msg.held_by = group.op.0;
                }
            }
            self.journal.submit(group, self.model.clone());
        }
    }

    /// Serving a queue moves what is dead at its front away, though nobody gets anything. Those whose deliveries are yet
    /// to come wait.
    fn drain(&mut self, later: &VecDeque<QueueId>) {
        let ids: Vec<QueueId> = self.model.queues.iter().map(|queue| queue.id).collect();
        for id in ids {
            let waits = |queue: &mut Queue| queue.waiters.iter().any(|waiter| waiter.credit > 0);
            if !later.contains(&id) && self.model.queue(id).is_some_and(waits) {
                self.model.drain(id);
            }
        }
    }

    fn wake_ups_are_complete(&mut self) {
        let ids: Vec<QueueId> = self.model.queues.iter().map(|queue| queue.id).collect();
        for id in ids {
            let waits = |queue: &mut Queue| queue.waiters.iter().any(|waiter| waiter.credit > 0);
            if self.model.queue(id).is_some_and(waits) {
                let mut copy = self.model.clone();
                let more = copy.take(
                    id,
                    Receive {
                        max: 1,
                        lease: None,
                    },
                );
                assert!(
                    more.is_err() || more == Ok(vec![]),
                    "queue {id} has {more:?} for a receiver"
                );
            }
        }
    }

    fn note_seen(&mut self) {
        for queue in &self.model.queues {
            let highest = self.highest.entry(queue.id).or_default();
            *highest = (*highest).max(queue.next_seq - 1);
            for msg in &queue.msgs {
                let seen = self.seen.entry((queue.id, Seq(msg.seq))).or_default();
                let now = Seen {
                    state: msg.state,
                    due: msg.due,
                    deliveries: msg.deliveries,
                    first: msg.first,
                };
                if seen.last() != Some(&now) {
                    seen.push(now);
                }
            }
        }
    }

    fn verify(&mut self) {
        if self.trace {
            self.tell_state();
        }
        invariants::check(&self.shard);
        self.compare();
    }

    /// Takes everything away; nothing may be left.
    fn clear(&mut self) {
        let ids: Vec<TenantId> = self.model.tenants.iter().map(|tenant| tenant.id).collect();
        let mut tx = self.shard.begin(self.now);
        for id in ids {
            assert_eq!(tx.delete_tenant(id), Ok(()));
        }
        let output = tx.finish();
        self.model.tenants.clear();
        self.model.queues.clear();
        self.process(output);
        while !self.shard.graves.is_empty() {
            self.tick();
        }
        self.journal.cut(usize::MAX);
        while self.tell() {}
        self.now = self.now.plus(Millis(1000 * SECOND));
        self.model.now = self.now;
        self.tick();
        invariants::check(&self.shard);
        invariants::check_empty(&self.shard);
    }
}

fn same_error<T: std::fmt::Debug>(result: &Result<T>, error: &Error) {
    let got = result.as_ref().err().map(std::mem::discriminant);
    assert_eq!(
        got,
        Some(std::mem::discriminant(error)),
        "{result:?} in place of {error:?}"
    );
}

fn queue_of(effect: &Effect) -> Option<QueueId> {
    match effect {
        Effect::Deliver { deliveries, .. } => deliveries.first().map(|first| first.claim.queue),
        Effect::End { .. } => None,
    }
}

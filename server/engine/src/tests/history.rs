//! One history: what is done, step by step.

use std::collections::{BTreeMap, VecDeque};

use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{
    invariants,
    journal::Journal,
    model::{Model, Queue},
};
use crate::{
    Capture, Claim, Effect, Epoch, Error, Limits, Millis, Output, QueueId, Receive, Result, Seq,
    Shard, TenantId, entry::State,
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
    pub(super) contents: u64,
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
            picks: Vec::new(),
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

pub(super) const SECOND: u64 = 1000;

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
            89..94 => self.write_and_tell(),
            94..97 => self.capture(),
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

    pub(super) fn any_queue(&mut self) -> Option<QueueId> {
        let count = self.model.queues.len();
        (count > 0).then(|| self.model.queues[self.rng.random_range(0..count)].id)
    }

    pub(super) fn any_claim(&mut self) -> Option<Claim> {
        let count = self.claims.len();
        if count == 0 {
            return None;
        }
        let recent = self.rng.random_bool(0.7);
        let from = if recent { count.saturating_sub(8) } else { 0 };
        Some(self.claims[self.rng.random_range(from..count)])
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
        let unsaved: Vec<(QueueId, Seq)> = self.shard.unsaved.iter().copied().collect();
        let output = self.shard.save(self.now);
        for (id, seq) in &unsaved {
            self.model.touch(*id, seq.0);
        }
        self.note_seen();
        for (id, seq) in &unsaved {
            let last = self.seen.get(&(*id, *seq)).map_or(0, Vec::len);
            if let Some(msg) = self.model.msg(*id, seq.0) {
                (msg.standing_from, msg.counts_from) = (last - 1, last - 1);
                msg.was_deferred = false;
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
        let budget = [1, 3, 10, 500][self.rng.random_range(0..4)];
        pieces.push(self.shard.capture_slice(&mut capture, budget));
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

    /// Follows an output, and the ticks that finish what it put off.
    pub(super) fn process(&mut self, output: Output) {
        self.process_one(output);
        if !self.shard.unserved.is_empty() {
            return self.tick();
        }
        self.wake_ups_are_complete();
    }

    /// Takes over what the shard's groups began their turns with.
    pub(super) fn follow_picks(&mut self) {
        if !self.shard.picks.is_empty() {
            self.model.picks = std::mem::take(&mut self.shard.picks);
        }
    }

    fn process_one(&mut self, output: Output) {
        self.follow_picks();
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

pub(super) fn same_error<T: std::fmt::Debug>(result: &Result<T>, error: &Error) {
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

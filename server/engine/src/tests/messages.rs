//! Steps that send, settle and move messages.

use super::{
    history::{SECOND, World, same_error},
    model::Queue,
};
use crate::{
    Claim, Command, DedupKey, Error, Millis, NewMessage, QueueId, SeekTo, Seq, Settle, Stale,
    entry::State,
};
use bytes::Bytes;
use rand::Rng;
use std::{collections::BTreeMap, sync::Arc};

impl World {
    pub(super) fn message(&mut self) -> (NewMessage, u64) {
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
    pub(super) fn message_for(&mut self, queues: &[QueueId]) -> (NewMessage, u64) {
        let (mut message, content) = self.message();
        let grouped = |queue: &Queue| queue.settings.groups.is_some() && queues.contains(&queue.id);
        if self.model.queues.iter().any(grouped) {
            message.delay = None;
        }
        (message, content)
    }

    pub(super) fn send(&mut self) {
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

    pub(super) fn publish(&mut self) {
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

    pub(super) fn transact(&mut self) {
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

    pub(super) fn any_settle(&mut self) -> (Settle, Stale) {
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
    pub(super) fn is_certain(&self, claim: &Claim) -> bool {
        let issued = &self.issued[&(claim.queue, claim.seq)];
        claim.epoch.0 == self.epoch || issued.last().is_some_and(|last| last.epoch.0 == self.epoch)
    }

    pub(super) fn settle(&mut self) {
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
            if matches!(
                settle,
                Settle::Complete | Settle::Defer | Settle::DeadLetter
            ) {
                let waits = output.group.as_ref().is_some_and(|group| group.durable);
                assert!(waits, "an answer that does not wait for the journal");
            }
            self.note_durable(&claim, settle);
        }
        self.process(output);
    }

    /// A claim from before a crash settles its message unless that was delivered again.
    pub(super) fn settle_from_before(&mut self, claim: Claim) {
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
    pub(super) fn note_durable(&mut self, claim: &Claim, settle: Settle) {
        let from = self.seen.get(&(claim.queue, claim.seq)).map_or(0, Vec::len);
        if let Some(msg) = self.model.msg(claim.queue, claim.seq.0)
            && matches!(msg.state, State::Acked | State::Deferred)
        {
            msg.standing_from = from;
            msg.was_deferred = settle == Settle::Defer;
        }
    }

    pub(super) fn seek(&mut self) {
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

    pub(super) fn move_ready(&mut self) {
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
        self.follow_picks();
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
}

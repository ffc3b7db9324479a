//! Settling deliveries, moving messages, and seek.

use std::sync::Arc;

use crate::{
    entry::{Entry, State},
    error::{Error, Result},
    ids::{Millis, QueueId, Seq},
    message::{Claim, Overlay, Settle, Stale},
    record::Record,
    shard::SLICE,
    tx::{Movable, Tx},
};

/// Where [`Tx::seek`] puts the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekTo {
    /// Messages sent at this time or later are to be delivered again, earlier ones are acknowledged.
    Time(Millis),
    /// The message with this sequence number is the first to be delivered again.
    Seq(Seq),
}

/// Decides for one message of [`Tx::move_ready`] where it goes and under which id; `None` ends the move.
pub type MoveTarget<'a> = dyn FnMut(&Tx<'_>, &Movable) -> Option<(QueueId, u128)> + 'a;

impl Tx<'_> {
    /// Settles one delivery. [`Error::NotFound`] if the message is gone; what a claim may do whose lease is over is
    /// `stale`'s matter.
    pub fn settle(&mut self, claim: Claim, settle: Settle, stale: Stale) -> Result<()> {
        let key = self.check_settle(&claim, settle, stale)?;
        let now = self.now();
        match settle {
            Settle::Complete => self.complete(key),
            Settle::Lease(span) => self.change(key, State::Leased, now.plus(span)),
            Settle::Release(Millis::ZERO) => self.change(key, State::Ready, now),
            Settle::Release(delay) => self.change(key, State::Delayed, now.plus(delay)),
            Settle::Defer => {
                self.shard.set_state(key, State::Deferred, Millis::NEVER);
                self.shard.record(&Record::Deferred {
                    queue: claim.queue,
                    seq: claim.seq,
                });
            }
            Settle::DeadLetter => {
                let slot = self.shard.entries[key].queue;
                let settings = Arc::clone(&self.shard.queues[slot].settings);
                let policy = settings.dead_letter.as_ref().ok_or(NO_DEAD_LETTER)?;
                self.shard.dead_letter(key, policy, true)?;
            }
        }
        Ok(())
    }

    /// The entry that a settlement is about, if it would be accepted.
    pub(crate) fn check_settle(
        &mut self,
        claim: &Claim,
        settle: Settle,
        stale: Stale,
    ) -> Result<u32> {
        let key = self
            .shard
            .find_swept(claim.queue, claim.seq)
            .ok_or(Error::NotFound)?;
        let entry = &self.shard.entries[key];
        if entry.state == State::Acked || entry.is_expired(self.shard.now()) {
            return Err(Error::NotFound);
        }
        match settle {
            Settle::Lease(span) | Settle::Release(span) => self.check_lease(Some(span))?,
            Settle::DeadLetter
                if self.shard.queues[entry.queue]
                    .settings
                    .dead_letter
                    .is_none() =>
            {
                return Err(NO_DEAD_LETTER);
            }
            Settle::DeadLetter | Settle::Complete | Settle::Defer => {}
        }
        if stale == Stale::Accept || self.holds(key, claim) {
            Ok(key)
        } else {
            Err(Error::LeaseLost)
        }
    }

    /// Whether the claim holds the message's lease, or one that a crash made the shard forget.
    fn holds(&self, key: u32, claim: &Claim) -> bool {
        let entry = &self.shard.entries[key];
        let forgotten = claim.delivery > entry.deliveries;
        let leased = entry.state == State::Leased && entry.due > self.shard.now();
        self.shard.is_current(entry, claim) && (leased || forgotten)
    }

    fn complete(&mut self, key: u32) {
        let Entry {
            queue: slot, seq, ..
        } = self.shard.entries[key];
        let queue = &self.shard.queues[slot];
        let id = queue.id;
        match queue.settings.retain_acked {
            None => self.shard.remove_entry(key, true),
            Some(retain) => {
                let until = self.now().plus(retain);
                self.shard.set_state(key, State::Acked, until);
                self.shard.record(&Record::Acked {
                    queue: id,
                    seq,
                    until,
                });
            }
        }
    }

    fn change(&mut self, key: u32, state: State, due: Millis) {
        self.shard.set_state(key, state, due);
        self.shard.entries[key].touched = true;
        self.shard.mark_unsaved(key);
    }

    /// Offers up to `max` ready messages in order; each for which `target` names a queue is moved there as if sent
    /// now, under the id it names. Stops at the first refusal. Returns how many moved.
    pub fn move_ready(
        &mut self,
        queue: QueueId,
        max: usize,
        target: &mut MoveTarget<'_>,
    ) -> Result<usize> {
        let slot = self.shard.use_queue(queue)?;
        let now = self.now();
        let mut moved = 0;
        for _ in 0..max.min(SLICE) {
            let Some(key) = self.shard.queues[slot].first(&self.shard.entries, &self.shard.groups)
            else {
                break;
            };
            #[cfg(test)]
            self.shard.note_pick(key);
            self.shard.sweep_first(key);
            if self.shard.entries[key].is_expired(now) {
                self.shard.remove_entry(key, false);
                continue;
            }
            if self.shard.entries[key].state != State::Ready {
                continue;
            }
            let movable = Movable {
                seq: self.shard.entries[key].seq,
                overlay: self.shard.overlay(key),
            };
            let Some((to, id)) = target(self, &movable) else {
                break;
            };
            let Ok(to) = self.shard.use_queue(to) else {
                break;
            };
            let overlay = Overlay {
                id: Some(id),
                ..Overlay::default()
            };
            let deliveries = std::mem::take(&mut self.shard.entries[key].deliveries);
            let first = std::mem::take(&mut self.shard.entries[key].first_delivered_at);
            if let Err(error) = self.shard.move_entry(key, to, overlay, now, true) {
                self.shard.entries[key].deliveries = deliveries;
                self.shard.entries[key].first_delivered_at = first;
                return if moved == 0 { Err(error) } else { Ok(moved) };
            }
            moved += 1;
        }
        Ok(moved)
    }

    /// Moves the line between what a queue that retains acknowledged messages has delivered and what it has not.
    /// [`Error::Busy`] while too many earlier ones are still under way.
    pub fn seek(&mut self, queue: QueueId, to: SeekTo) -> Result<()> {
        let slot = self.shard.use_queue(queue)?;
        let retain = self.shard.queues[slot].settings.retain_acked;
        let retain = retain.ok_or(Error::NotAllowed(
            "the queue retains no acknowledged messages",
        ))?;
        if self.shard.sweeps(slot) >= MAX_SWEEPS {
            return Err(Error::Busy);
        }
        let boundary = match to {
            SeekTo::Seq(seq) => seq,
            SeekTo::Time(time) => self.first_sent_from(slot, time),
        };
        let acked_until = self.now().plus(retain);
        self.shard.seek(slot, boundary, acked_until);
        Ok(())
    }

    /// The first sequence number whose message was sent at `time` or later, by halving: later ones were sent later.
    fn first_sent_from(&self, slot: u32, time: Millis) -> Seq {
        let queue = &self.shard.queues[slot];
        let (mut low, mut high) = (0, queue.next_seq.0);
        while low < high {
            let middle = low + (high - low) / 2;
            match queue.index.from(Seq(middle)).next() {
                Some((seq, key)) if seq.0 < high && self.shard.entries[key].enqueued_at < time => {
                    low = seq.0 + 1
                }
                _ => high = middle,
            }
        }
        Seq(low)
    }
}

/// How many changes to all messages of a queue may be under way.
const MAX_SWEEPS: usize = 16;

pub(crate) const NO_DEAD_LETTER: Error = Error::NotAllowed("the queue has no dead-letter queue");

//! Deliveries: what is to be had next, leases, and receivers in their turn.

use std::sync::Arc;

use crate::{
    entry::{Entry, State},
    error::{Error, Result},
    ids::{Millis, ReceiverId},
    message::{Claim, Delivery, Receive},
    shard::{Effect, SLICE, Shard},
    slab::NONE,
};

impl Shard {
    /// Leases up to `request.max` messages. Expired ones in the way are removed and over-delivered ones moved, a slice
    /// of them at most.
    pub(crate) fn take(&mut self, slot: u32, request: Receive) -> Result<Vec<Delivery>> {
        let settings = Arc::clone(&self.queues[slot].settings);
        let lease = request.lease.unwrap_or(settings.lease);
        let mut taken = Vec::new();
        let mut steps = SLICE + request.max as usize;
        while taken.len() < request.max as usize && steps > 0 {
            let room = settings
                .max_leased
                .saturating_sub(self.queues[slot].count(State::Leased));
            let Some(first) = self.queues[slot].first(&self.entries, &self.groups) else {
                break;
            };
            if room == 0 {
                let limit = u64::from(settings.max_leased);
                if taken.is_empty() {
                    return Err(Error::TooMany {
                        what: "messages in flight",
                        limit,
                    });
                }
                break;
            }
            #[cfg(test)]
            self.note_pick(first);
            let wanted = (request.max as usize - taken.len()).min(room as usize);
            match settings.groups {
                None => {
                    steps -= 1;
                    taken.extend(self.lease(first, lease));
                }
                Some(_) => self.take_run(first, wanted, lease, &mut steps, &mut taken),
            }
        }
        if lease == Millis::ZERO {
            for delivery in &taken {
                if let Some(key) = self.find(delivery.claim.queue, delivery.claim.seq) {
                    self.set_state(key, State::Ready, self.now);
                }
            }
        }
        Ok(taken)
    }

    #[cfg(test)]
    pub(crate) fn note_pick(&mut self, first: u32) {
        let Entry { queue, seq, .. } = self.entries[first];
        self.picks.push((self.queues[queue].id, seq));
    }

    /// Leases a group's messages from its first up to one that is not ready, passing by acknowledged ones.
    fn take_run(
        &mut self,
        first: u32,
        wanted: usize,
        lease: Millis,
        steps: &mut usize,
        taken: &mut Vec<Delivery>,
    ) {
        let end = taken.len() + wanted;
        let mut key = first;
        while key != NONE && taken.len() < end && *steps > 0 {
            let Entry {
                state, next, queue, ..
            } = self.entries[key];
            *steps -= 1;
            match state {
                State::Ready => taken.extend(self.lease(key, lease)),
                State::Acked => {}
                _ => break,
            }
            // Its dead-letter queue is full: what stays here still goes before what is behind it.
            let stuck = |entry: &Entry| entry.state == State::Delayed && entry.queue == queue;
            if self.entries.get(key).is_some_and(stuck) {
                break;
            }
            key = next;
        }
    }

    /// Leases one ready message, unless its time or its deliveries are over.
    fn lease(&mut self, key: u32, lease: Millis) -> Option<Delivery> {
        let now = self.now;
        self.sweep_first(key);
        if self.entries[key].is_expired(now) {
            self.remove_entry(key, false);
            return None;
        }
        let Entry {
            queue: slot,
            state: State::Ready,
            ..
        } = self.entries[key]
        else {
            return None;
        };
        let settings = Arc::clone(&self.queues[slot].settings);
        if let Some(policy) = &settings.dead_letter
            && self.entries[key].deliveries >= policy.max_deliveries
            && !self.is_unseen_dead_letter(key)
        {
            match self.dead_letter(key, policy, false) {
                Ok(()) => return None,
                // A missing target keeps its messages here, to be had as before; a full one is tried again.
                Err(Error::NotFound) => {}
                Err(_) => {
                    self.set_state(key, State::Delayed, now.plus(Millis(1000)));
                    return None;
                }
            }
        }
        self.set_state(key, State::Leased, now.plus(lease));
        let entry = &mut self.entries[key];
        entry.deliveries = entry.deliveries.saturating_add(1);
        entry.delivered_here = true;
        entry.touched = false;
        if entry.first_delivered_at == Millis::ZERO {
            entry.first_delivered_at = now;
        }
        self.mark_unsaved(key);
        Some(self.delivery(key))
    }

    /// Whether a message was dead-lettered to where it is and not delivered since: it is delivered before it goes
    /// further, so that queues that are each other's dead-letter queue do not pass it on for ever.
    fn is_unseen_dead_letter(&self, key: u32) -> bool {
        !self.entries[key].delivered_here
            && self
                .overlay(key)
                .is_some_and(|overlay| overlay.dead_letter_source.is_some())
    }

    /// The delivery that an entry is in.
    pub(crate) fn delivery(&self, key: u32) -> Delivery {
        let entry = &self.entries[key];
        Delivery {
            claim: Claim {
                queue: self.queues[entry.queue].id,
                seq: entry.seq,
                delivery: entry.deliveries,
                epoch: self.epoch,
            },
            content: self.bodies.content(entry.body),
            enqueued_at: entry.enqueued_at,
            expires_at: entry.expires_at,
            first_delivered_at: entry.first_delivered_at,
            leased_until: entry.due,
            group: self.group_name(key),
            priority: entry.priority,
            overlay: self.overlay(key),
        }
    }

    /// Serves the receivers of the queues that may have something for them, a slice of messages at most.
    pub(crate) fn serve_touched(&mut self) {
        let mut budget = SLICE;
        while budget > 0 {
            // In turn, so that a queue which always has more to do does not hold up those behind it.
            let next = self.unserved.range(self.serve_next..).next();
            let Some(&slot) = next.or(self.unserved.first()) else {
                break;
            };
            self.unserved.remove(&slot);
            self.serve_next = slot + 1;
            if self.serve(slot, &mut budget) {
                self.unserved.insert(slot);
            }
        }
    }

    /// Gives what is ready to the receivers in turn; whether there is more to do.
    fn serve(&mut self, slot: u32, budget: &mut usize) -> bool {
        while *budget > 0 {
            let Some(receiver) = self.queues[slot]
                .rare()
                .and_then(|rare| rare.waiting.front().copied())
            else {
                return false;
            };
            if self.queues[slot]
                .first(&self.entries, &self.groups)
                .is_none()
            {
                return false;
            }
            let Some(&state) = self.receivers.get(&receiver) else {
                self.turn_away(slot);
                continue;
            };
            // A consumer gets one message and goes to the end of the line; a long poll gets what there is.
            let max = if state.once { state.credit } else { 1 };
            match self.take(
                slot,
                Receive {
                    max,
                    lease: state.lease,
                },
            ) {
                Ok(deliveries) if deliveries.is_empty() => {
                    // Nothing but dead messages within a slice: the next turn goes on behind them.
                    *budget = budget.saturating_sub(SLICE);
                }
                Ok(deliveries) => {
                    *budget = budget.saturating_sub(deliveries.len());
                    self.turn_away(slot);
                    self.used_credit(slot, receiver, deliveries.len() as u32);
                    self.effect(Effect::Deliver {
                        receiver,
                        deliveries,
                    });
                }
                // As many leased as may be: the next settlement comes back here.
                Err(_) => return false,
            }
        }
        self.queues[slot]
            .rare()
            .is_some_and(|rare| !rare.waiting.is_empty())
            && self.queues[slot]
                .first(&self.entries, &self.groups)
                .is_some()
    }

    fn turn_away(&mut self, slot: u32) {
        if let Some(rare) = self.queues[slot].rare_mut() {
            rare.waiting.pop_front();
        }
    }

    fn used_credit(&mut self, slot: u32, id: ReceiverId, used: u32) {
        let Some(receiver) = self.receivers.get_mut(&id) else {
            return;
        };
        receiver.credit = receiver.credit.saturating_sub(used);
        if receiver.once {
            self.remove_receiver(id);
        } else if receiver.credit > 0
            && let Some(rare) = self.queues[slot].rare_mut()
        {
            rare.waiting.push_back(id);
        }
    }

    /// Forgets a receiver, wherever it stands.
    pub(crate) fn remove_receiver(&mut self, id: ReceiverId) -> bool {
        let Some(receiver) = self.receivers.remove(&id) else {
            return false;
        };
        if let Some(rare) = self.queues[receiver.queue].rare_mut() {
            rare.receivers.remove(&id);
            // Its place in the line is skipped when its turn comes; a line of the gone is swept now and then.
            if rare.waiting.len() > 2 * rare.receivers.len() + 16 {
                rare.waiting
                    .retain(|waiting| rare.receivers.contains(waiting));
            }
        }
        if let Some(tenant) = self.tenant_mut(receiver.tenant) {
            tenant.receivers = tenant.receivers.saturating_sub(1);
        }
        true
    }

    /// Whether the claim names the entry's present delivery, or one that the journal lost.
    pub(crate) fn is_current(&self, entry: &Entry, claim: &Claim) -> bool {
        if claim.delivery == entry.deliveries {
            !entry.delivered_here || claim.epoch == self.epoch
        } else {
            claim.delivery > entry.deliveries && !entry.delivered_here && claim.epoch < self.epoch
        }
    }
}

//! What happens by itself: leases and lifetimes that end, memories that fade, work that was put off.

use std::sync::Arc;

use crate::{
    entry::{Entry, State},
    ids::{Millis, QueueId, Seq, TenantId},
    queue::{Seek, Sweep},
    record::Record,
    shard::{Alarm, Output, SLICE, Shard},
    wheel::Turn,
};

impl Shard {
    /// Does a slice of what is due. Call again at once while [`next_due`](Self::next_due) says so.
    pub fn tick(&mut self, now: Millis) -> Output {
        self.now = self.now.max(now);
        let mut budget = 2 * SLICE;
        while budget > 0 {
            budget -= 1;
            match self.wheel.turn(self.now.0) {
                Turn::Due(key) => self.change_by_time(key),
                Turn::Moved => {}
                Turn::Idle => break,
            }
        }
        self.ring_alarms();
        if self.clear_some() < SLICE {
            self.sweep_some();
        }
        self.finish()
    }

    /// When [`tick`](Self::tick) has something to do; `None` while nothing ever will by itself.
    pub fn next_due(&self) -> Option<Millis> {
        if self.has_graves() || !self.sweeping.is_empty() || !self.unserved.is_empty() {
            return Some(self.now);
        }
        let alarm = self.alarms.first().map(|(at, _)| *at);
        let timer = self.wheel.next().map(Millis);
        match (alarm, timer) {
            (Some(alarm), Some(timer)) => Some(alarm.min(timer)),
            (alarm, timer) => alarm.or(timer),
        }
    }

    /// Whether leases wait to be journaled by [`save`](Self::save).
    pub fn has_unsaved(&self) -> bool {
        !self.unsaved.is_empty()
    }

    /// Journals a slice of the leases, delays and counts that changed, as they are now.
    pub fn save(&mut self, now: Millis) -> Output {
        self.now = self.now.max(now);
        self.save_some();
        self.finish()
    }

    fn ring_alarms(&mut self) {
        for _ in 0..SLICE {
            match self.alarms.first() {
                Some((at, _)) if *at <= self.now => {}
                _ => return,
            }
            match self.alarms.pop_first() {
                Some((_, Alarm::Dedup(queue))) => {
                    if self.fade(queue) {
                        return;
                    }
                }
                Some((_, Alarm::Tombstone(tenant, name))) => self.forget_tombstone(tenant, &name),
                Some((_, Alarm::Idle(queue))) => self.look_at_idle(queue),
                None => return,
            }
        }
    }

    /// Forgets a slice of the deduplication ids whose window is over; whether there are more.
    fn fade(&mut self, queue: QueueId) -> bool {
        let now = self.now;
        let Ok(slot) = self.queue_slot(queue) else {
            return false;
        };
        let tenant = self.queues[slot].tenant;
        let Some(rare) = self.queues[slot].rare_mut() else {
            return false;
        };
        let freed = rare.dedup.expire(now, SLICE);
        let next = rare.dedup.next_expiry();
        if let Some(at) = next {
            self.alarms.insert((at.max(now), Alarm::Dedup(queue)));
        }
        if let Some(tenant) = self.tenant_mut(tenant) {
            tenant.dedup_bytes -= freed;
        }
        next.is_some_and(|at| at <= now)
    }

    /// Keeps a deleted name from being made again until then.
    pub(crate) fn bury_name(&mut self, tenant: TenantId, name: Arc<str>, until: Millis) {
        let limit = self.limits.tombstones;
        let Some(holder) = self.tenants.get_mut(&tenant) else {
            return;
        };
        if let Some(before) = holder.tombstones.insert(Arc::clone(&name), until) {
            self.alarms
                .remove(&(before, Alarm::Tombstone(tenant, Arc::clone(&name))));
        }
        self.alarms.insert((until, Alarm::Tombstone(tenant, name)));
        if holder.tombstones.len() as u64 > limit
            && let Some(first) = holder
                .tombstones
                .iter()
                .min_by_key(|(_, until)| **until)
                .map(|(name, _)| Arc::clone(name))
            && let Some(until) = holder.tombstones.remove(&first)
        {
            self.alarms
                .remove(&(until, Alarm::Tombstone(tenant, first)));
        }
    }

    fn forget_tombstone(&mut self, tenant: TenantId, name: &str) {
        let now = self.now;
        if let Some(tenant) = self.tenants.get_mut(&tenant)
            && tenant
                .tombstones
                .get(name)
                .is_some_and(|until| *until <= now)
        {
            tenant.tombstones.remove(name);
        }
    }

    /// Begins a change to every message that the queue has now.
    pub(crate) fn start_sweep(&mut self, slot: u32, retime: bool, seek: Option<Seek>) {
        let end = self.queues[slot].next_seq;
        let rare = self.queues[slot].make_rare();
        if retime {
            // One that has not begun would do the same as this one.
            rare.sweeps
                .retain(|sweep| !sweep.retime || sweep.next > Seq(0));
        }
        rare.last_sweep += 1;
        rare.sweeps.push_back(Sweep {
            number: rare.last_sweep,
            next: Seq(0),
            end,
            retime,
            seek,
        });
        self.sweeping.insert(slot);
    }

    /// How many sweeps of a queue are under way.
    pub(crate) fn sweeps(&self, slot: u32) -> usize {
        self.queues[slot].rare().map_or(0, |rare| rare.sweeps.len())
    }

    fn sweep_some(&mut self) {
        let Some(&slot) = self.sweeping.first() else {
            return;
        };
        let Some(sweep) = self.queues[slot]
            .rare()
            .and_then(|rare| rare.sweeps.front().copied())
        else {
            self.sweeping.remove(&slot);
            return;
        };
        let slice: Vec<(Seq, u32)> = self.queues[slot]
            .index
            .from(sweep.next)
            .take_while(|(seq, _)| *seq < sweep.end)
            .take(SLICE)
            .collect();
        for (_, key) in &slice {
            if self.entries[*key].swept < sweep.number {
                self.sweep_entry(slot, *key, &sweep);
            }
        }
        let Some(rare) = self.queues[slot].rare_mut() else {
            return;
        };
        match (slice.last(), rare.sweeps.front_mut()) {
            (Some((seq, _)), Some(sweep)) if slice.len() == SLICE => sweep.next = Seq(seq.0 + 1),
            _ => {
                rare.sweeps.pop_front();
            }
        }
        if rare.sweeps.is_empty() {
            self.sweeping.remove(&slot);
        }
    }

    /// Makes the changes of pending sweeps to a message before anything else happens to it.
    pub(crate) fn sweep_first(&mut self, key: u32) {
        let Entry { queue, seq, .. } = self.entries[key];
        for at in 0..self.sweeps(queue) {
            let sweep = self.queues[queue]
                .rare()
                .and_then(|rare| rare.sweeps.get(at).copied());
            if let Some(sweep) = sweep
                && self.entries[key].swept < sweep.number
                && seq >= sweep.next
                && seq < sweep.end
            {
                self.sweep_entry(queue, key, &sweep);
                self.entries[key].swept = sweep.number;
            }
        }
    }

    /// Applies a sweep to one message. The journal has the sweep, not each of its steps.
    pub(crate) fn sweep_entry(&mut self, slot: u32, key: u32, sweep: &Sweep) {
        if sweep.retime {
            let settings = Arc::clone(&self.queues[slot].settings);
            let entry = &mut self.entries[key];
            if !entry.own_ttl {
                entry.expires_at = entry.enqueued_at.plus(settings.retention);
            }
            // A FIFO queue's delay is retroactive (its messages cannot have their own); a standard queue's is not.
            if settings.groups.is_some() && entry.state == State::Delayed && entry.deliveries == 0 {
                entry.due = entry.enqueued_at.plus(settings.delay);
            }
            let at = entry.next_change();
            self.wheel.set(key, at.0);
        }
        if let Some(seek) = sweep.seek {
            let Entry { seq, state, .. } = self.entries[key];
            match (seq < seek.boundary, state) {
                (true, State::Acked)
                | (false, State::Ready | State::Leased | State::Delayed | State::Held) => {}
                (true, _) => self.set_state(key, State::Acked, seek.acked_until),
                (false, _) => self.set_state(key, State::Ready, self.now),
            }
        }
    }

    /// Moves the line between what a retaining queue has delivered and what it has not.
    pub(crate) fn seek(&mut self, slot: u32, boundary: Seq, acked_until: Millis) {
        let queue = &self.queues[slot];
        let record = Record::Sought {
            queue: queue.id,
            boundary,
            end: queue.next_seq,
            acked_until,
        };
        self.record(&record);
        self.start_sweep(
            slot,
            false,
            Some(Seek {
                boundary,
                acked_until,
            }),
        );
    }
}

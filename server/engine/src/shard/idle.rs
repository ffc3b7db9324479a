//! Queues that use made and nobody uses any more, and how long tenants have been left alone.
//!
//! An implicit queue has one alarm at the earliest time it can be idle. An alarm that finds it used since then is set
//! again, so the cost is one look a queue and idle time, whatever is done to it meanwhile. After a restart every queue
//! begins a new idle time; tenants, whose idle time is long, go on with theirs, counted in serving time.

use crate::{
    error::Result,
    ids::{Millis, QueueId, TenantId},
    record::Record,
    settings::Origin,
    shard::{Alarm, Shard},
};

impl Shard {
    /// The slot of a queue that somebody names, which counts as using it.
    pub(crate) fn use_queue(&self, id: QueueId) -> Result<u32> {
        let slot = self.queue_slot(id)?;
        self.queues[slot].used_at.set(self.now);
        Ok(slot)
    }

    /// Begins to watch a queue, if it is one that use made.
    pub(crate) fn start_idle_clock(&mut self, slot: u32) {
        let queue = &self.queues[slot];
        if queue.origin == Origin::ByUse && self.limits.implicit_idle != Millis::NEVER {
            queue.used_at.set(self.now);
            self.ring_if_idle(queue.id, self.now.plus(self.limits.implicit_idle));
        }
    }

    /// Begins to watch all of them, after a restart.
    pub(crate) fn start_idle_clocks(&mut self) {
        let slots: Vec<u32> = self.queue_slots.values().copied().collect();
        for slot in slots {
            self.start_idle_clock(slot);
        }
    }

    /// Deletes a queue that has been idle for as long as it may, or looks again later.
    pub(crate) fn look_at_idle(&mut self, id: QueueId) {
        let Ok(slot) = self.queue_slot(id) else {
            return;
        };
        let queue = &self.queues[slot];
        if queue.origin != Origin::ByUse {
            return;
        }
        let busy = queue.index.len() > 0
            || queue.rare().is_some_and(|rare| !rare.receivers.is_empty())
            || self.is_dead_letter_target(slot);
        if busy {
            queue.used_at.set(self.now);
        }
        let due = queue.used_at.get().plus(self.limits.implicit_idle);
        if due > self.now {
            return self.ring_if_idle(id, due);
        }
        self.drop_queue(id);
        self.record_lazily(&Record::QueueGone { id });
        self.reaped += 1;
    }

    fn ring_if_idle(&mut self, id: QueueId, at: Millis) {
        self.alarms.insert((at, Alarm::Idle(id)));
    }

    /// Whether another queue of the tenant sends its dead messages there.
    fn is_dead_letter_target(&self, slot: u32) -> bool {
        let queue = &self.queues[slot];
        let Some(tenant) = self.tenants.get(&queue.tenant) else {
            return false;
        };
        tenant.queues.values().any(|id| {
            self.queue_slots
                .get(id)
                .and_then(|slot| self.queues[*slot].settings.dead_letter.as_ref())
                .is_some_and(|policy| policy.queue == *queue.name)
        })
    }

    pub(crate) fn see_tenant(&mut self, id: TenantId, served: Millis) {
        self.served = self.served.max(served);
        if let Some(tenant) = self.tenant_mut(id) {
            tenant.seen = tenant.seen.max(served);
        }
    }
}

//! One queued message in memory: 72 bytes, its body and attributes elsewhere.

use crate::{
    ids::{Millis, Seq},
    slab::NONE,
};

/// Where a message stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// No message: the slot is free.
    #[default]
    Free,
    /// Not to be delivered before its group is durable.
    Held,
    /// Hidden until `due`.
    Delayed,
    /// To be had.
    Ready,
    /// With a receiver until `due`.
    Leased,
    /// Set aside by its receiver.
    Deferred,
    /// Settled, and kept for seek.
    Acked,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) seq: Seq,
    pub(crate) enqueued_at: Millis,
    pub(crate) expires_at: Millis,
    /// The end of the lease or of the delay.
    pub(crate) due: Millis,
    /// Zero before the first delivery.
    pub(crate) first_delivered_at: Millis,
    /// Slot of its queue.
    pub(crate) queue: u32,
    /// Slot of its body.
    pub(crate) body: u32,
    /// Slot of its group, or [`NONE`].
    pub(crate) group: u32,
    /// Neighbours in its group, or among the fresh ready ones of its queue.
    pub(crate) next: u32,
    pub(crate) prev: u32,
    pub(crate) deliveries: u32,
    pub(crate) priority: u8,
    pub(crate) state: State,
    /// Delivered in this life of the shard: only handles of this epoch name the delivery.
    pub(crate) delivered_here: bool,
    /// Its lease differs from what the journal knows.
    pub(crate) unsaved: bool,
    /// In the fresh list, not among the returned.
    pub(crate) fresh: bool,
    /// Its lease was changed since it was delivered.
    pub(crate) touched: bool,
    /// The broker added something: look in the shard's overlays.
    pub(crate) overlaid: bool,
    /// Its lifetime is the sender's, not the queue's.
    pub(crate) own_ttl: bool,
    /// The last of its queue's sweeps whose change was made ahead of time: those up to it pass the message by.
    pub(crate) swept: u32,
}

impl Default for Entry {
    fn default() -> Self {
        Self {
            seq: Seq(0),
            enqueued_at: Millis::ZERO,
            expires_at: Millis::NEVER,
            due: Millis::ZERO,
            first_delivered_at: Millis::ZERO,
            queue: NONE,
            body: NONE,
            group: NONE,
            next: NONE,
            prev: NONE,
            deliveries: 0,
            priority: 0,
            state: State::Free,
            delivered_here: false,
            unsaved: false,
            fresh: false,
            touched: false,
            overlaid: false,
            own_ttl: false,
            swept: 0,
        }
    }
}

impl Entry {
    /// When something happens to it by itself.
    pub(crate) fn next_change(&self) -> Millis {
        match self.state {
            State::Delayed | State::Leased => self.due.min(self.expires_at),
            State::Acked => self.due,
            State::Free => Millis::NEVER,
            State::Held | State::Ready | State::Deferred => self.expires_at,
        }
    }

    pub(crate) fn is_expired(&self, now: Millis) -> bool {
        self.state != State::Acked && self.expires_at <= now
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_entry_is_at_most_80_bytes() {
        assert!(
            size_of::<super::Entry>() <= 80,
            "{}",
            size_of::<super::Entry>()
        );
    }
}

//! What a queue without groups can deliver: a list of fresh messages, in the order they were sent, and an ordered set of
//! those that came back. The smaller sequence number goes first.

use std::collections::BTreeMap;

use crate::{
    entry::Entry,
    ids::Seq,
    slab::{NONE, Slab},
};

#[derive(Debug)]
pub(crate) struct Ready {
    head: u32,
    tail: u32,
    returned: BTreeMap<Seq, u32>,
}

impl Default for Ready {
    fn default() -> Self {
        Self {
            head: NONE,
            tail: NONE,
            returned: BTreeMap::new(),
        }
    }
}

impl Ready {
    pub(crate) fn insert(&mut self, entries: &mut Slab<Entry>, key: u32) {
        let seq = entries[key].seq;
        if self.tail != NONE && entries[self.tail].seq > seq {
            self.returned.insert(seq, key);
            return;
        }
        let entry = &mut entries[key];
        entry.fresh = true;
        entry.prev = self.tail;
        entry.next = NONE;
        match self.tail {
            NONE => self.head = key,
            tail => entries[tail].next = key,
        }
        self.tail = key;
    }

    pub(crate) fn remove(&mut self, entries: &mut Slab<Entry>, key: u32) {
        let Entry {
            seq,
            fresh,
            next,
            prev,
            ..
        } = entries[key];
        if !fresh {
            self.returned.remove(&seq);
            return;
        }
        match prev {
            NONE => self.head = next,
            prev => entries[prev].next = next,
        }
        match next {
            NONE => self.tail = prev,
            next => entries[next].prev = prev,
        }
        let entry = &mut entries[key];
        entry.fresh = false;
        entry.next = NONE;
        entry.prev = NONE;
    }

    /// The message to deliver next.
    pub(crate) fn first(&self, entries: &Slab<Entry>) -> Option<u32> {
        match (self.head, self.returned.first_key_value()) {
            (NONE, returned) => returned.map(|(_, key)| *key),
            (head, Some((seq, key))) if *seq < entries[head].seq => Some(*key),
            (head, _) => Some(head),
        }
    }

    /// Forgets some of a queue that is being cleared; whether anything is left.
    pub(crate) fn forget_some(&mut self, limit: usize) -> bool {
        self.head = NONE;
        self.tail = NONE;
        (0..limit).all(|_| self.returned.pop_first().is_some())
    }
}

#[cfg(test)]
impl Ready {
    /// The fresh list and the returned set, each in its order.
    pub(crate) fn keys(&self, entries: &Slab<Entry>) -> (Vec<u32>, Vec<u32>) {
        let mut fresh = Vec::new();
        let mut key = self.head;
        while key != NONE {
            fresh.push(key);
            key = entries[key].next;
        }
        assert_eq!(fresh.last().copied().unwrap_or(NONE), self.tail);
        (fresh, self.returned.values().copied().collect())
    }
}

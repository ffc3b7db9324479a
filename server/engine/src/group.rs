//! Message groups: the one mechanism under FIFO message groups, sessions and ordering keys.
//!
//! A group holds all its messages in order, whatever their state, linked through the entries. The queue knows the groups
//! whose first message is ready, in the order in which they became so; only those can yield. A group that was received
//! from so goes behind those that were waiting (SQS does the same). Acknowledged messages that are kept for seek hold
//! their place in the order and nothing up.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    entry::{Entry, State},
    slab::{NONE, Slab},
};

#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) name: Arc<str>,
    head: u32,
    tail: u32,
    /// The first that is not acknowledged.
    first: u32,
    /// Its place among the available ones, while it is one of them.
    turn: Option<u64>,
}

impl Default for Group {
    fn default() -> Self {
        Self {
            name: Arc::from(""),
            head: NONE,
            tail: NONE,
            first: NONE,
            turn: None,
        }
    }
}

/// A queue's groups.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    by_name: BTreeMap<Arc<str>, u32>,
    /// Groups that can yield, by turn.
    available: BTreeMap<u64, u32>,
    next_turn: u64,
}

impl Groups {
    /// The first group that can yield.
    pub(crate) fn first_available(&self) -> Option<u32> {
        self.available.first_key_value().map(|(_, group)| *group)
    }

    /// Adds a message; it may arrive out of order (after a restart, or moved back).
    pub(crate) fn insert(
        &mut self,
        groups: &mut Slab<Group>,
        entries: &mut Slab<Entry>,
        key: u32,
        name: &Arc<str>,
    ) {
        let slot = match self.by_name.get(name) {
            Some(&slot) => slot,
            None => {
                let slot = groups.insert(Group {
                    name: Arc::clone(name),
                    ..Group::default()
                });
                self.by_name.insert(Arc::clone(name), slot);
                slot
            }
        };
        let group = &mut groups[slot];
        let seq = entries[key].seq;
        let mut before = group.tail;
        while before != NONE && entries[before].seq > seq {
            before = entries[before].prev;
        }
        let after = match before {
            NONE => std::mem::replace(&mut group.head, key),
            before => std::mem::replace(&mut entries[before].next, key),
        };
        match after {
            NONE => group.tail = key,
            after => entries[after].prev = key,
        }
        let entry = &mut entries[key];
        entry.group = slot;
        entry.prev = before;
        entry.next = after;
        self.refresh(groups, entries, key);
    }

    /// Takes a message out of its group; an empty group is forgotten.
    pub(crate) fn remove(&mut self, groups: &mut Slab<Group>, entries: &mut Slab<Entry>, key: u32) {
        let Entry {
            group: slot,
            next,
            prev,
            ..
        } = entries[key];
        let group = &mut groups[slot];
        match prev {
            NONE => group.head = next,
            prev => entries[prev].next = next,
        }
        match next {
            NONE => group.tail = prev,
            next => entries[next].prev = prev,
        }
        if group.first == key {
            group.first = next;
        }
        let entry = &mut entries[key];
        entry.next = NONE;
        entry.prev = NONE;
        self.settle_first(groups, entries, slot);
        if groups[slot].head == NONE {
            let group = groups.remove(slot);
            self.by_name.remove(&group.name);
        }
    }

    /// Keeps the availability true after a message of the group changed its state.
    pub(crate) fn refresh(&mut self, groups: &mut Slab<Group>, entries: &Slab<Entry>, key: u32) {
        let Entry {
            group: slot,
            seq,
            state,
            ..
        } = entries[key];
        let group = &mut groups[slot];
        let counts = !matches!(state, State::Acked | State::Free);
        if counts && (group.first == NONE || seq < entries[group.first].seq) {
            group.first = key;
        }
        self.settle_first(groups, entries, slot);
    }

    fn settle_first(&mut self, groups: &mut Slab<Group>, entries: &Slab<Entry>, slot: u32) {
        let group = &mut groups[slot];
        while group.first != NONE && entries[group.first].state == State::Acked {
            group.first = entries[group.first].next;
        }
        let yields = group.first != NONE && entries[group.first].state == State::Ready;
        match (group.turn, yields) {
            (None, true) => {
                group.turn = Some(self.next_turn);
                self.available.insert(self.next_turn, slot);
                self.next_turn += 1;
            }
            (Some(turn), false) => {
                group.turn = None;
                self.available.remove(&turn);
            }
            (None, false) | (Some(_), true) => {}
        }
    }

    /// Forgets some groups of a queue that is being cleared; whether any are left.
    pub(crate) fn forget_some(&mut self, groups: &mut Slab<Group>, limit: usize) -> bool {
        for _ in 0..limit {
            let Some((_, slot)) = self.by_name.pop_first() else {
                self.available.clear();
                return false;
            };
            if let Some(turn) = groups.remove(slot).turn {
                self.available.remove(&turn);
            }
        }
        true
    }
}

impl Group {
    pub(crate) fn first(&self) -> u32 {
        self.first
    }
}

#[cfg(test)]
impl Groups {
    pub(crate) fn slots(&self) -> std::collections::BTreeSet<u32> {
        self.by_name.values().copied().collect()
    }

    /// The groups that can yield; each must know its turn.
    pub(crate) fn listed(&self, groups: &Slab<Group>) -> std::collections::BTreeSet<u32> {
        for (turn, slot) in &self.available {
            assert_eq!(groups[*slot].turn, Some(*turn));
        }
        self.available.values().copied().collect()
    }
}

#[cfg(test)]
impl Group {
    pub(crate) fn members(&self, entries: &Slab<Entry>) -> Vec<u32> {
        let (mut members, mut key) = (Vec::new(), self.head);
        while key != NONE {
            assert_eq!(entries[key].prev, members.last().copied().unwrap_or(NONE));
            members.push(key);
            key = entries[key].next;
        }
        assert_eq!(members.last().copied().unwrap_or(NONE), self.tail);
        members
    }
}

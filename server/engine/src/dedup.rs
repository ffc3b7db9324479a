//! A queue's memory of the deduplication ids it was sent.

use std::collections::{BTreeMap, VecDeque};

use crate::ids::{Millis, OpNo, Seq};

/// What is remembered of a first send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remembered {
    pub(crate) id: u128,
    pub(crate) seq: Seq,
    pub(crate) expires_at: Millis,
    pub(crate) charge: u32,
    /// The group that makes it durable; a duplicate is answered no sooner.
    pub(crate) op: OpNo,
}

#[derive(Debug, Default)]
pub(crate) struct DedupMemory {
    ids: BTreeMap<u128, Remembered>,
    /// In the order they were sent. After the window was shortened an earlier one can outlive a later one in here,
    /// never in what it answers.
    order: VecDeque<(Millis, u128)>,
    /// How many were taken off the front of `order`.
    taken: u64,
    charge: u64,
}

impl DedupMemory {
    pub(crate) fn get(&self, hash: u128, now: Millis) -> Option<&Remembered> {
        self.ids
            .get(&hash)
            .filter(|remembered| remembered.expires_at > now)
    }

    /// Remembers; gives back what an expired memory of the same id was charged.
    pub(crate) fn insert(&mut self, hash: u128, remembered: Remembered) -> u64 {
        self.order.push_back((remembered.expires_at, hash));
        self.charge += u64::from(remembered.charge);
        let before = self
            .ids
            .insert(hash, remembered)
            .map_or(0, |before| u64::from(before.charge));
        self.charge -= before;
        before
    }

    /// Forgets at most `limit` expired ids; returns what they were charged.
    pub(crate) fn expire(&mut self, now: Millis, limit: usize) -> u64 {
        let mut freed = 0;
        for _ in 0..limit {
            match self.order.front() {
                Some(&(expires_at, hash)) if expires_at <= now => {
                    self.order.pop_front();
                    self.taken += 1;
                    if self
                        .ids
                        .get(&hash)
                        .is_some_and(|remembered| remembered.expires_at <= now)
                    {
                        freed += self
                            .ids
                            .remove(&hash)
                            .map_or(0, |remembered| u64::from(remembered.charge));
                    }
                }
                _ => break,
            }
        }
        self.charge -= freed;
        freed
    }

    /// When the next id can be forgotten.
    pub(crate) fn next_expiry(&self) -> Option<Millis> {
        self.order.front().map(|(expires_at, _)| *expires_at)
    }

    pub(crate) fn charge(&self) -> u64 {
        self.charge
    }

    /// Up to `limit` memories from the `from`-th on, and the number to go on with.
    pub(crate) fn slice(
        &self,
        from: u64,
        limit: usize,
    ) -> (impl Iterator<Item = (u128, &Remembered)>, Option<u64>) {
        let start = usize::try_from(from.saturating_sub(self.taken))
            .unwrap_or(usize::MAX)
            .min(self.order.len());
        let end = (start + limit).min(self.order.len());
        let slice = self
            .order
            .range(start..end)
            .filter_map(|(expires_at, hash)| {
                self.ids
                    .get(hash)
                    .filter(|remembered| remembered.expires_at == *expires_at)
                    .map(|remembered| (*hash, remembered))
            });
        (
            slice,
            (end < self.order.len()).then_some(self.taken + end as u64),
        )
    }

    /// Drops some memory of a queue that is being cleared; whether any is left.
    pub(crate) fn forget_some(&mut self, limit: usize) -> bool {
        for _ in 0..limit {
            if self.ids.pop_first().is_none() {
                return false;
            }
            self.order.pop_front();
        }
        true
    }
}

#[cfg(test)]
impl DedupMemory {
    pub(crate) fn check(&self) {
        let charge: u64 = self.ids.values().map(|known| u64::from(known.charge)).sum();
        assert_eq!(self.charge, charge);
        for (hash, known) in &self.ids {
            assert!(self.order.contains(&(known.expires_at, *hash)));
        }
    }

    pub(crate) fn all(&self) -> &BTreeMap<u128, Remembered> {
        &self.ids
    }
}

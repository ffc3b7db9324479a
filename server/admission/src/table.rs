//! A bounded map from addresses to times, in parts that are locked by themselves.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use governor::nanos::Nanos;
use governor::state::StateStore;
use parking_lot::Mutex;

/// Into how many parts a table is split: a sweep holds one at a time.
const PARTS: usize = 16;

/// Where a limiter keeps, for each key, the time at which its budget is whole again.
///
/// At most `most` keys; past that, new keys are not remembered, and [`Table::takes`] says so.
#[derive(Clone, Debug)]
pub(crate) struct Table(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    parts: Vec<Mutex<HashMap<u64, Nanos>>>,
    hasher: RandomState,
    most_in_part: usize,
}

impl Table {
    pub(crate) fn new(most: usize) -> Self {
        let parts = (0..PARTS).map(|_| Mutex::default()).collect();
        Self(Arc::new(Inner {
            parts,
            hasher: RandomState::new(),
            most_in_part: most.div_ceil(PARTS),
        }))
    }

    fn part(&self, key: u64) -> &Mutex<HashMap<u64, Nanos>> {
        let hash = self.0.hasher.hash_one(key);
        &self.0.parts[hash as usize % PARTS]
    }

    /// Whether the key is remembered, or there is room for it.
    pub(crate) fn takes(&self, key: u64) -> bool {
        let part = self.part(key).lock();
        part.len() < self.0.most_in_part || part.contains_key(&key)
    }

    pub(crate) fn get(&self, key: u64) -> Option<Nanos> {
        self.part(key).lock().get(&key).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.parts.iter().map(|part| part.lock().len()).sum()
    }

    /// Forgets whose budget is whole again at `now`, and gives memory back.
    pub(crate) fn sweep(&self, now: Nanos) {
        for part in &self.0.parts {
            let mut part = part.lock();
            part.retain(|_, whole_at| *whole_at > now);
            if part.capacity() > 64 + 4 * part.len() {
                let len = part.len();
                part.shrink_to(2 * len);
            }
        }
    }
}

impl StateStore for Table {
    type Key = u64;

    fn measure_and_replace<T, F, E>(&self, key: &u64, f: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let mut part = self.part(*key).lock();
        let full = part.len() >= self.0.most_in_part;
        match part.entry(*key) {
            Entry::Occupied(mut known) => {
                let (outcome, next) = f(Some(*known.get()))?;
                known.insert(next);
                Ok(outcome)
            }
            Entry::Vacant(new) => {
                let (outcome, next) = f(None)?;
                if !full {
                    new.insert(next);
                }
                Ok(outcome)
            }
        }
    }
}

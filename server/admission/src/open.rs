//! How many of something an address has open at once.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::address::Keys;
use crate::budget::{NETWORK_WIDTHS, Width};

/// Counts of what is open, by address and by the networks around it. An entry lives as long as something of it is open,
/// so there are never more than what is open itself.
#[derive(Clone, Debug)]
pub(crate) struct Open(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    most: u32,
    network_factors: [u32; 2],
    counts: Mutex<HashMap<(Width, u64), u32>>,
}

/// One open thing; it counts until this is dropped.
#[derive(Debug, Default)]
#[must_use = "it counts as closed when dropped"]
pub struct Slot(Option<(Open, Keys)>);

impl Open {
    pub(crate) fn new(most: u32, network_factors: [u32; 2]) -> Self {
        Self(Arc::new(Inner {
            most,
            network_factors,
            counts: Mutex::default(),
        }))
    }

    /// One more, or the key that has too many.
    pub(crate) fn take(&self, keys: Keys) -> Result<Slot, (Width, u64)> {
        let mut counts = self.0.counts.lock();
        for (of, most) in self.shares(keys) {
            if counts.get(&of).copied().unwrap_or(0) >= most {
                return Err(of);
            }
        }
        for (of, _) in self.shares(keys) {
            *counts.entry(of).or_insert(0) += 1;
        }
        Ok(Slot(Some((self.clone(), keys))))
    }

    /// How many an address has open.
    pub(crate) fn of(&self, keys: Keys) -> u32 {
        let counts = self.0.counts.lock();
        counts
            .get(&(Width::Address, keys.fine))
            .copied()
            .unwrap_or(0)
    }

    pub(crate) fn most(&self) -> u32 {
        self.0.most
    }

    /// How many addresses and networks have something open.
    pub(crate) fn keys(&self) -> usize {
        self.0.counts.lock().len()
    }

    fn shares(&self, keys: Keys) -> impl Iterator<Item = ((Width, u64), u32)> + use<> {
        let (most, factors) = (self.0.most, self.0.network_factors);
        let networks = keys.networks.map(|keys| {
            [0, 1].map(|i| {
                (
                    (NETWORK_WIDTHS[i], keys[i]),
                    most.saturating_mul(factors[i]),
                )
            })
        });
        std::iter::once(((Width::Address, keys.fine), most)).chain(networks.into_iter().flatten())
    }

    fn close(&self, keys: Keys) {
        let mut counts = self.0.counts.lock();
        for (of, _) in self.shares(keys) {
            if let Some(count) = counts.get_mut(&of) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(&of);
                }
            }
        }
        if counts.capacity() > 1024 + 8 * counts.len() {
            let len = counts.len();
            counts.shrink_to(2 * len);
        }
    }
}

impl Slot {
    /// One that is not counted.
    pub(crate) const FREE: Self = Self(None);
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some((open, keys)) = self.0.take() {
            open.close(keys);
        }
    }
}

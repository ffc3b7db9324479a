//! Recent bodies in memory, by their place in the log. The oldest place goes first, settled ones at once.

use std::collections::BTreeMap;

use bytes::Bytes;
use parking_lot::Mutex;
use powerqueue_engine::BodyAt;

#[derive(Debug)]
pub(crate) struct Cache {
    capacity: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    bodies: BTreeMap<u64, Bytes>,
    bytes: usize,
}

/// What keeping a body costs beside its bytes.
const OVERHEAD: usize = 96;

impl Cache {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            held: Mutex::default(),
        }
    }

    pub(crate) fn insert(&self, bodies: impl IntoIterator<Item = (u64, Bytes)>) {
        let mut held = self.held.lock();
        for (position, bytes) in bodies {
            held.bytes += bytes.len() + OVERHEAD;
            if let Some(before) = held.bodies.insert(position, bytes) {
                held.bytes -= before.len() + OVERHEAD;
            }
        }
        while held.bytes > self.capacity {
            let Some((_, oldest)) = held.bodies.pop_first() else {
                break;
            };
            held.bytes -= oldest.len() + OVERHEAD;
        }
    }

    pub(crate) fn remove(&self, bodies: &[BodyAt]) {
        if bodies.is_empty() {
            return;
        }
        let mut held = self.held.lock();
        for at in bodies {
            if let Some(body) = held.bodies.remove(&at.position) {
                held.bytes -= body.len() + OVERHEAD;
            }
        }
    }

    pub(crate) fn get(&self, at: BodyAt) -> Option<Bytes> {
        self.held.lock().bodies.get(&at.position).cloned()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.held.lock().bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_newest_within_its_bound() {
        let cache = Cache::new(10 * (100 + OVERHEAD));
        cache.insert((0..25).map(|n| (n * 100, Bytes::from(vec![n as u8; 100]))));
        assert!(
            cache
                .get(BodyAt {
                    position: 1400,
                    len: 100
                })
                .is_none()
        );
        assert!(
            cache
                .get(BodyAt {
                    position: 1500,
                    len: 100
                })
                .is_some()
        );
        cache.remove(&[BodyAt {
            position: 1500,
            len: 100,
        }]);
        assert_eq!(cache.bytes(), 9 * (100 + OVERHEAD));
    }
}

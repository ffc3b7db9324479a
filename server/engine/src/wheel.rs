//! A hierarchical timing wheel over entry keys: six levels of 64 slots, one millisecond to two years.
//!
//! Setting and cancelling are constant time and need no memory but a node a key. Time moves in single turns, so that
//! the caller bounds how much happens under the lock however many timers fall due together.

use crate::slab::NONE;

const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
const LEVELS: usize = 6;
/// The list of keys whose slot has been reached and which wait for their turn.
const REACHED: u32 = (LEVELS * SLOTS) as u32;
/// Marks a `prev` that is a list's head and not a key.
const HEAD: u32 = 1 << 31;

#[derive(Clone, Copy, Debug)]
struct Node {
    at: u64,
    next: u32,
    /// The key before, `HEAD | list` for a list's first, [`NONE`] for a key that is not set.
    prev: u32,
}

const UNSET: Node = Node {
    at: 0,
    next: NONE,
    prev: NONE,
};

const CHUNK: usize = 1024;

/// What one turn of the wheel did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// This key's time has come; it is no longer set.
    Due(u32),
    /// A key moved to a finer level; nothing is due yet.
    Moved,
    /// Nothing is left to do at this time.
    Idle,
}

#[derive(Debug)]
pub(crate) struct Wheel {
    now: u64,
    heads: [u32; LEVELS * SLOTS + 1],
    occupied: [u64; LEVELS],
    nodes: Vec<Vec<Node>>,
    /// How many keys of each chunk are set: one without any gives its memory back.
    set: Vec<u32>,
}

impl Wheel {
    pub(crate) fn new(now: u64) -> Self {
        Self {
            now,
            heads: [NONE; LEVELS * SLOTS + 1],
            occupied: [0; LEVELS],
            nodes: Vec::new(),
            set: Vec::new(),
        }
    }

    /// Calls for `key` at `at`, instead of any time set before.
    pub(crate) fn set(&mut self, key: u32, at: u64) {
        self.cancel(key);
        if at != u64::MAX {
            self.link(key, at);
        }
    }

    pub(crate) fn cancel(&mut self, key: u32) {
        let Some(&node) = self
            .nodes
            .get(key as usize / CHUNK)
            .and_then(|chunk| chunk.get(key as usize % CHUNK))
        else {
            return;
        };
        if node.prev == NONE {
            return;
        }
        if node.prev & HEAD != 0 {
            let list = node.prev & !HEAD;
            self.heads[list as usize] = node.next;
            if node.next == NONE && list != REACHED {
                self.occupied[list as usize / SLOTS] &= !(1 << (list as usize % SLOTS));
            }
        } else {
            self.node(node.prev).next = node.next;
        }
        if node.next != NONE {
            self.node(node.next).prev = node.prev;
        }
        *self.node(key) = UNSET;
        let chunk = key as usize / CHUNK;
        self.set[chunk] -= 1;
        if self.set[chunk] == 0 {
            self.nodes[chunk] = Vec::new();
        }
    }

    /// No key is due before this; [`None`] if none is set.
    pub(crate) fn next(&self) -> Option<u64> {
        if self.heads[REACHED as usize] != NONE {
            return Some(self.now);
        }
        self.next_slot().map(|(_, at)| at)
    }

    /// Does one step towards `now`.
    pub(crate) fn turn(&mut self, now: u64) -> Turn {
        loop {
            let key = self.heads[REACHED as usize];
            if key != NONE {
                let at = self.node(key).at;
                self.cancel(key);
                if at <= self.now {
                    return Turn::Due(key);
                }
                self.link(key, at);
                return Turn::Moved;
            }
            match self.next_slot() {
                Some((list, at)) if at <= now => self.reach(list, at),
                _ => {
                    self.now = self.now.max(now);
                    return Turn::Idle;
                }
            }
        }
    }

    /// Moves a slot's whole list to the reached one, and the time to the slot's.
    fn reach(&mut self, list: u32, at: u64) {
        self.now = at;
        let first = std::mem::replace(&mut self.heads[list as usize], NONE);
        self.occupied[list as usize / SLOTS] &= !(1 << (list as usize % SLOTS));
        self.heads[REACHED as usize] = first;
        self.node(first).prev = HEAD | REACHED;
    }

    fn link(&mut self, key: u32, at: u64) {
        let list = if at <= self.now {
            REACHED
        } else {
            let level = self.level(at);
            let slot = (at >> (BITS * level as u32)) as usize % SLOTS;
            self.occupied[level] |= 1 << slot;
            (level * SLOTS + slot) as u32
        };
        let next = std::mem::replace(&mut self.heads[list as usize], key);
        if next != NONE {
            self.node(next).prev = key;
        }
        *self.node(key) = Node {
            at,
            next,
            prev: HEAD | list,
        };
        self.set[key as usize / CHUNK] += 1;
    }

    /// The level at which `at` first differs from now; what is further away than the wheel is wide waits at the
    /// last level and is looked at again each time its slot comes round.
    fn level(&self, at: u64) -> usize {
        let differing = (self.now ^ at) | (SLOTS as u64 - 1);
        let highest = 63 - differing.leading_zeros();
        ((highest / BITS) as usize).min(LEVELS - 1)
    }

    /// The occupied slot that comes next, and its time.
    fn next_slot(&self) -> Option<(u32, u64)> {
        (0..LEVELS).find_map(|level| {
            if self.occupied[level] == 0 {
                return None;
            }
            let shift = BITS * level as u32;
            let here = ((self.now >> shift) % SLOTS as u64) as u32;
            // A last-level key can share the current slot and mean the next round.
            let from = if level == LEVELS - 1 { here + 1 } else { here };
            let ahead = self.occupied[level]
                .rotate_right(from % SLOTS as u32)
                .trailing_zeros();
            let slot = (from + ahead) % SLOTS as u32;
            let round = 1u64 << (shift + BITS);
            let mut at = (self.now & !(round - 1)) + (u64::from(slot) << shift);
            if at <= self.now {
                at += round;
            }
            Some(((level * SLOTS) as u32 + slot, at))
        })
    }

    fn node(&mut self, key: u32) -> &mut Node {
        let chunk = key as usize / CHUNK;
        while self.nodes.len() <= chunk {
            self.nodes.push(Vec::new());
            self.set.push(0);
        }
        let chunk = &mut self.nodes[chunk];
        let offset = key as usize % CHUNK;
        if chunk.len() <= offset {
            chunk.resize(offset + 1, UNSET);
        }
        &mut chunk[offset]
    }
}

#[cfg(test)]
impl Wheel {
    /// When `key` is set for.
    pub(crate) fn at(&self, key: u32) -> Option<u64> {
        let node = self
            .nodes
            .get(key as usize / CHUNK)?
            .get(key as usize % CHUNK)?;
        (node.prev != NONE).then_some(node.at)
    }

    /// How many nodes it holds memory for.
    pub(crate) fn memory(&self) -> usize {
        self.nodes.iter().map(Vec::capacity).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    fn due(wheel: &mut Wheel, now: u64) -> Vec<u32> {
        let mut keys = Vec::new();
        loop {
            match wheel.turn(now) {
                Turn::Due(key) => keys.push(key),
                Turn::Moved => {}
                Turn::Idle => return keys,
            }
        }
    }

    #[test]
    fn fires_at_its_time_and_not_before() {
        let start = 1_800_000_000_000;
        let mut wheel = Wheel::new(start);
        wheel.set(7, start + 90_061_001);
        assert!(due(&mut wheel, start + 90_061_000).is_empty());
        assert_eq!(due(&mut wheel, start + 90_061_001), [7]);
        assert_eq!(wheel.next(), None);
    }

    #[test]
    fn a_timer_beyond_the_wheel_is_not_lost() {
        let mut wheel = Wheel::new(1_800_000_000_000);
        let far = 1_800_000_000_000 + (5 << 36);
        wheel.set(1, far);
        assert!(due(&mut wheel, far - 1).is_empty());
        assert_eq!(due(&mut wheel, far), [1]);
    }

    #[test]
    fn agrees_with_a_sorted_map_over_random_histories() {
        for seed in 0..200 {
            let mut rng = StdRng::seed_from_u64(seed);
            let mut now = rng.random_range(0..1u64 << 41);
            let mut wheel = Wheel::new(now);
            let mut model: BTreeMap<u32, u64> = BTreeMap::new();
            for _ in 0..400 {
                match rng.random_range(0..10) {
                    0..5 => {
                        let key = rng.random_range(0..40);
                        let width = rng.random_range(0..40);
                        let at = now + rng.random_range(0..1u64 << width);
                        wheel.set(key, at);
                        model.insert(key, at);
                    }
                    5..7 => {
                        let key = rng.random_range(0..40);
                        wheel.cancel(key);
                        model.remove(&key);
                    }
                    _ => {
                        let width = rng.random_range(0..38);
                        now += rng.random_range(0..1u64 << width);
                        let mut fired = due(&mut wheel, now);
                        fired.sort_unstable();
                        let expected: Vec<u32> = model
                            .iter()
                            .filter(|(_, at)| **at <= now)
                            .map(|(key, _)| *key)
                            .collect();
                        assert_eq!(fired, expected, "seed {seed}");
                        model.retain(|_, at| *at > now);
                    }
                }
                let earliest = model.values().min().copied();
                assert!(
                    wheel.next().unwrap_or(u64::MAX) <= earliest.unwrap_or(u64::MAX),
                    "seed {seed}"
                );
            }
        }
    }
}

//! A chunked slab: stable `u32` keys, no reallocation of what is there, and memory given back chunk by chunk.
//!
//! A `Vec` would double, and copy a million entries under the shard's lock while it does.

use std::{
    collections::BTreeSet,
    ops::{Index, IndexMut},
};

/// No key.
pub(crate) const NONE: u32 = u32::MAX;

const CHUNK: usize = 256;

#[derive(Debug)]
struct Chunk<T> {
    items: Vec<T>,
    free: Vec<u8>,
}

impl<T> Chunk<T> {
    fn live(&self) -> usize {
        self.items.len() - self.free.len()
    }

    fn is_full(&self) -> bool {
        self.live() == CHUNK
    }
}

/// The slab. A removed item leaves `T::default()` behind.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    chunks: Vec<Chunk<T>>,
    /// Chunks with room, lowest first, so that the high ones drain and are given back.
    roomy: BTreeSet<u32>,
    len: usize,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            roomy: BTreeSet::new(),
            len: 0,
        }
    }
}

impl<T: Default> Slab<T> {
    pub(crate) fn insert(&mut self, item: T) -> u32 {
        let at = match self.roomy.first() {
            Some(&at) => at,
            None => {
                let at = u32::try_from(self.chunks.len()).unwrap_or(NONE);
                self.chunks.push(Chunk {
                    items: Vec::new(),
                    free: Vec::new(),
                });
                self.roomy.insert(at);
                at
            }
        };
        let chunk = &mut self.chunks[at as usize];
        let offset = match chunk.free.pop() {
            Some(offset) => {
                chunk.items[usize::from(offset)] = item;
                u32::from(offset)
            }
            None => {
                if chunk.items.capacity() == 0 {
                    chunk.items.reserve_exact(CHUNK);
                }
                chunk.items.push(item);
                chunk.items.len() as u32 - 1
            }
        };
        if chunk.is_full() {
            self.roomy.remove(&at);
        }
        self.len += 1;
        at * CHUNK as u32 + offset
    }

    pub(crate) fn remove(&mut self, key: u32) -> T {
        let at = key / CHUNK as u32;
        let offset = key % CHUNK as u32;
        let chunk = &mut self.chunks[at as usize];
        let item = std::mem::take(&mut chunk.items[offset as usize]);
        chunk.free.push(offset as u8);
        self.len -= 1;
        self.roomy.insert(at);
        if chunk.live() == 0 {
            *chunk = Chunk {
                items: Vec::new(),
                free: Vec::new(),
            };
        }
        item
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// What `key` holds, be it only the default; `None` where nothing was ever.
    pub(crate) fn get(&self, key: u32) -> Option<&T> {
        self.chunks
            .get(key as usize / CHUNK)?
            .items
            .get(key as usize % CHUNK)
    }

    /// No key from here on is in use.
    pub(crate) fn end(&self) -> u32 {
        (self.chunks.len() * CHUNK) as u32
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, key: u32) -> &T {
        &self.chunks[key as usize / CHUNK].items[key as usize % CHUNK]
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, key: u32) -> &mut T {
        &mut self.chunks[key as usize / CHUNK].items[key as usize % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stay_valid_while_others_come_and_go() {
        let mut slab = Slab::default();
        let keys: Vec<u32> = (0..2000u64).map(|n| slab.insert(n)).collect();
        for key in keys.iter().step_by(2) {
            slab.remove(*key);
        }
        for (n, key) in keys.iter().enumerate().skip(1).step_by(2) {
            assert_eq!(slab[*key], n as u64);
        }
        assert_eq!(slab.len(), 1000);
    }

    #[test]
    fn an_emptied_chunk_gives_its_memory_back() {
        let mut slab = Slab::default();
        let keys: Vec<u32> = (0..CHUNK as u64 * 3).map(|n| slab.insert(n)).collect();
        for key in keys {
            slab.remove(key);
        }
        assert!(slab.chunks.iter().all(|chunk| chunk.items.capacity() == 0));
    }
}

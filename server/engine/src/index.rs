//! A queue's messages by sequence number: an ordered map in pages of 16, some six bytes a message when dense.

use std::collections::BTreeMap;

use crate::{ids::Seq, slab::NONE};

const BITS: u32 = 4;
const PAGE: usize = 1 << BITS;

type Page = [u32; PAGE];

/// Sequence numbers to entry keys.
#[derive(Debug, Default)]
pub(crate) struct Index {
    pages: BTreeMap<u64, Box<Page>>,
    len: usize,
}

impl Index {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, seq: Seq) -> Option<u32> {
        let key = self.pages.get(&(seq.0 >> BITS))?[seq.0 as usize % PAGE];
        (key != NONE).then_some(key)
    }

    pub(crate) fn insert(&mut self, seq: Seq, key: u32) {
        let page = self
            .pages
            .entry(seq.0 >> BITS)
            .or_insert_with(|| Box::new([NONE; PAGE]));
        let place = &mut page[seq.0 as usize % PAGE];
        if *place == NONE {
            self.len += 1;
        }
        *place = key;
    }

    pub(crate) fn remove(&mut self, seq: Seq) -> Option<u32> {
        let page = self.pages.get_mut(&(seq.0 >> BITS))?;
        let key = std::mem::replace(&mut page[seq.0 as usize % PAGE], NONE);
        if key == NONE {
            return None;
        }
        self.len -= 1;
        if page.iter().all(|key| *key == NONE) {
            self.pages.remove(&(seq.0 >> BITS));
        }
        Some(key)
    }

    /// Takes out the messages of the lowest page, at most 16.
    pub(crate) fn take_first_page(&mut self) -> impl Iterator<Item = u32> + use<> {
        let page = self
            .pages
            .pop_first()
            .map(|(_, page)| *page)
            .unwrap_or([NONE; PAGE]);
        self.len -= page.iter().filter(|key| **key != NONE).count();
        page.into_iter().filter(|key| *key != NONE)
    }

    /// Sequence numbers and keys from `from` on, in order.
    pub(crate) fn from(&self, from: Seq) -> impl Iterator<Item = (Seq, u32)> + '_ {
        self.pages
            .range(from.0 >> BITS..)
            .flat_map(move |(number, page)| {
                page.iter().enumerate().filter_map(move |(offset, key)| {
                    let seq = Seq((number << BITS) + offset as u64);
                    (*key != NONE && seq >= from).then_some((seq, *key))
                })
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_inserted_and_walks_in_order() {
        let mut index = Index::default();
        for seq in [900, 3, 17, 16, 4] {
            index.insert(Seq(seq), seq as u32);
        }
        assert_eq!(index.get(Seq(17)), Some(17));
        assert_eq!(index.get(Seq(18)), None);
        assert_eq!(index.remove(Seq(3)), Some(3));
        assert_eq!(index.remove(Seq(3)), None);
        let walked: Vec<u64> = index.from(Seq(5)).map(|(seq, _)| seq.0).collect();
        assert_eq!(walked, [16, 17, 900]);
        assert_eq!(index.len(), 4);
        assert_eq!(index.take_first_page().collect::<Vec<_>>(), [4]);
        assert_eq!(index.len(), 3);
    }
}

//! The bodies of a shard: what is stored once and may be referred to by several entries.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::{
    ids::{BodyAt, BodyId},
    message::Content,
    slab::Slab,
};

const PINNED: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, Default)]
struct Body {
    id: u64,
    /// The store's position, or [`PINNED`].
    position: u64,
    len: u32,
    refs: u32,
    charge: u32,
}

/// What became of a body that nothing refers to any more.
pub(crate) enum Freed {
    /// Not yet known to be written: the store must be told, so that it can leave it out.
    Pinned(BodyId),
    /// Written here.
    Stored(BodyAt),
    /// Something still refers to it.
    Not,
}

#[derive(Debug, Default)]
pub(crate) struct Bodies {
    slots: Slab<Body>,
    pinned: BTreeMap<u32, Bytes>,
    next_id: u64,
}

impl Bodies {
    /// Takes in a new body, to which nothing refers yet.
    pub(crate) fn pin(&mut self, bytes: Bytes, charge: u32) -> (u32, BodyId) {
        let id = self.next_id;
        self.next_id += 1;
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let slot = self.slots.insert(Body {
            id,
            position: PINNED,
            len,
            refs: 0,
            charge,
        });
        self.pinned.insert(slot, bytes);
        (slot, BodyId(id))
    }

    /// Takes in a body that the journal has, to which nothing refers yet.
    pub(crate) fn stored(&mut self, id: BodyId, at: BodyAt, charge: u32) -> u32 {
        self.next_id = self.next_id.max(id.0 + 1);
        self.slots.insert(Body {
            id: id.0,
            position: at.position,
            len: at.len,
            refs: 0,
            charge,
        })
    }

    pub(crate) fn add_ref(&mut self, slot: u32) {
        self.slots[slot].refs += 1;
    }

    pub(crate) fn drop_ref(&mut self, slot: u32) -> Freed {
        let body = &mut self.slots[slot];
        body.refs -= 1;
        if body.refs > 0 {
            return Freed::Not;
        }
        let body = self.slots.remove(slot);
        if body.position == PINNED {
            self.pinned.remove(&slot);
            Freed::Pinned(BodyId(body.id))
        } else {
            Freed::Stored(BodyAt {
                position: body.position,
                len: body.len,
            })
        }
    }

    /// The journal has written it; where it lay before, if it did.
    pub(crate) fn written(&mut self, slot: u32, at: BodyAt) -> Option<BodyAt> {
        let before = self.at(slot);
        self.slots[slot].position = at.position;
        self.slots[slot].len = at.len;
        self.pinned.remove(&slot);
        before
    }

    /// Whether `slot` still holds the body `id`.
    pub(crate) fn is(&self, slot: u32, id: BodyId) -> bool {
        self.slots
            .get(slot)
            .is_some_and(|body| body.refs > 0 && body.id == id.0)
    }

    /// Where the body in `slot` lies, if there is one and it is written.
    pub(crate) fn live_at(&self, slot: u32) -> Option<BodyAt> {
        let body = self.slots.get(slot)?;
        (body.refs > 0 && body.position != PINNED).then_some(BodyAt {
            position: body.position,
            len: body.len,
        })
    }

    /// No slot from here on is in use.
    pub(crate) fn end(&self) -> u32 {
        self.slots.end()
    }

    pub(crate) fn id(&self, slot: u32) -> BodyId {
        BodyId(self.slots[slot].id)
    }

    pub(crate) fn charge(&self, slot: u32) -> u32 {
        self.slots[slot].charge
    }

    /// Where it lies, once written.
    pub(crate) fn at(&self, slot: u32) -> Option<BodyAt> {
        let body = &self.slots[slot];
        (body.position != PINNED).then_some(BodyAt {
            position: body.position,
            len: body.len,
        })
    }

    pub(crate) fn content(&self, slot: u32) -> Content {
        match (self.at(slot), self.pinned.get(&slot)) {
            (None, Some(bytes)) => Content::Pinned(bytes.clone()),
            (at, _) => Content::Stored(at.unwrap_or(BodyAt {
                position: PINNED,
                len: 0,
            })),
        }
    }

    pub(crate) fn next_id(&self) -> BodyId {
        BodyId(self.next_id)
    }

    /// No id below this is given again.
    pub(crate) fn skip_to(&mut self, id: BodyId) {
        self.next_id = self.next_id.max(id.0);
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Bytes held because the disk does not have them yet.
    pub(crate) fn pinned_bytes(&self) -> usize {
        self.pinned.values().map(Bytes::len).sum()
    }
}

#[cfg(test)]
impl Bodies {
    pub(crate) fn refs(&self, slot: u32) -> u32 {
        self.slots[slot].refs
    }
}

//! What the engine hands to the journal: groups of records, and the bodies that travel with them.
//!
//! The store knows bytes, not messages. A group's records are opaque; its bodies are named, once written, by
//! their [`BodyRef`] in the log's own numbering.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

/// A shard's number: the unit that is claimed, journaled in order, and checkpointed by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u16);

/// A place in the log: bytes since its first record, over all segments. Never reused, never renumbered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

/// Where a written body lies. Opaque to everyone but the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BodyRef {
    /// The body's first byte in the log's numbering.
    pub position: Position,
    /// Its length in bytes.
    pub len: u32,
}

/// A body on its way to the disk. Clones are the same body.
///
/// The engine keeps one while the body is not yet known to be durable, the journal keeps one until it is written.
#[derive(Clone, Debug)]
pub struct PendingBody(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    bytes: Bytes,
    /// Set once, by the journal, when the body has been given its place in a group.
    written: OnceLock<BodyRef>,
}

impl PendingBody {
    /// A body that no journal has seen yet.
    pub fn new(bytes: Bytes) -> Self {
        Self(Arc::new(Inner {
            bytes,
            written: OnceLock::new(),
        }))
    }

    /// The bytes themselves.
    pub fn bytes(&self) -> &Bytes {
        &self.0.bytes
    }

    /// Whether both are the same body (not merely equal bytes).
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// How soon a group must reach the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Somebody waits for the answer: written and synced with the next group.
    Durable,
    /// Deliveries, lease changes and counts: written when the committer is idle, synced within a second.
    Lazy,
}

/// One atomic, ordered contribution of one shard to the log.
///
/// After a crash either all of its records are replayed or none.
#[derive(Debug)]
pub struct Group {
    /// Whose group it is.
    pub shard: ShardId,
    /// The shard's own number for this group, increasing; given back in [`Committed`].
    pub op: u64,
    /// The engine's records, opaque here. May be empty: the ticket is then a barrier behind everything before it.
    pub records: Bytes,
    /// Bodies born with this group, in the order the records count them.
    pub bodies: Vec<PendingBody>,
    /// Bodies to which no entry refers after this group, not yet known to be written. One that is still
    /// unwritten when the group is cut is left out of the log (elision).
    pub dead: Vec<PendingBody>,
    /// Written bodies to which no entry refers after this group.
    pub released: Vec<BodyRef>,
    /// How soon it must reach the disk.
    pub class: Class,
}

/// A group that is on the disk.
#[derive(Clone, Debug)]
pub struct Committed {
    /// Whose group.
    pub shard: ShardId,
    /// Its number, as submitted.
    pub op: u64,
    /// The end of the commit that carried it: replay after this position does not show it again.
    pub position: Position,
    /// For each body of the group, in order, where it lies; `None` for an elided one.
    pub bodies: Vec<Option<BodyRef>>,
}

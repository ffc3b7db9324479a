//! What the engine hands to the journal: groups of records, and the bodies that travel with them.
//!
//! The store knows bytes, not messages. A group's records are opaque; its bodies are named, once written, by
//! their [`BodyRef`] in the log's own numbering.
//!
//! # Elision: the rule between engine and store
//!
//! A body is left out of the log iff, when its group is cut, a group of the same or an earlier cut says that no entry
//! refers to it any more. The engine says so by listing the body in [`Group::dead`] of the group that removed the last
//! reference. Marking and queueing are one step, so a replay that shows a body as `None` also shows the group that
//! killed it — with one exception:
//!
//! A group with [`Group::settles_only`] whose `dead` bodies are all still unwritten is not written at all, and its
//! ticket resolves at once. So **replay must read a send without its body as a message that is already settled**.
//! Nothing else may hang on such a group: it must not settle anything that was ever written — neither a message that a
//! commit has shown with its body, nor one whose body was appended anew and whose old place a crash would bring back —
//! and no record that is
//! needed without the body (deduplication, retained or snapshot references, transactions, moves) may count on it; the
//! engine keeps a body that such a record needs out of `dead`.
//!
//! A record that appends a body anew and comes back without it is read in the same way: the message's end, or the next
//! place of its body, follows in the same replay.
//!
//! A body belongs to one shard: it is born in and killed by groups of the same shard.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU8, AtomicU64, Ordering},
};

use bytes::Bytes;

/// A shard's number: the unit that is claimed, journaled in order, and checkpointed by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u16);

/// The number of a claim of a shard. A later claim has a larger one, across restarts too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u32);

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
    /// A [`Fate`]. Changed only under the mutex of the store's queue; atomic because clones are shared.
    fate: AtomicU8,
    /// The submission that killed it, meaningful while the fate is `Condemned`.
    killer: AtomicU64,
}

/// What has become of a body on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// No group with it has been submitted.
    New,
    /// Its group waits.
    Waiting,
    /// Its group waits, and so does (or did) the group that makes it useless.
    Condemned,
    /// Its group was cut with it.
    Kept,
    /// Its group was cut without it.
    Elided,
}

impl PendingBody {
    /// A body that no journal has seen yet.
    pub fn new(bytes: Bytes) -> Self {
        Self(Arc::new(Inner {
            bytes,
            written: OnceLock::new(),
            fate: AtomicU8::new(Fate::New as u8),
            killer: AtomicU64::new(0),
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

    /// Where it lies, once its group is committed; never set for an elided one.
    pub fn written(&self) -> Option<BodyRef> {
        self.0.written.get().copied()
    }

    pub(crate) fn set_written(&self, at: BodyRef) {
        // A body submitted twice keeps its first place.
        let _ = self.0.written.set(at);
    }

    pub(crate) fn fate(&self) -> Fate {
        match self.0.fate.load(Ordering::Relaxed) {
            0 => Fate::New,
            1 => Fate::Waiting,
            2 => Fate::Condemned,
            3 => Fate::Kept,
            _ => Fate::Elided,
        }
    }

    pub(crate) fn set_fate(&self, fate: Fate) {
        self.0.fate.store(fate as u8, Ordering::Relaxed);
    }

    /// Condemns a waiting body on behalf of submission `killer`; the earliest killer counts.
    pub(crate) fn condemn(&self, killer: u64) {
        if self.fate() == Fate::Waiting {
            self.0.killer.store(killer, Ordering::Relaxed);
            self.set_fate(Fate::Condemned);
        }
    }

    pub(crate) fn killer(&self) -> u64 {
        self.0.killer.load(Ordering::Relaxed)
    }
}

/// How soon a group must reach the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Somebody waits for the answer: written and synced with the next commit.
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
    /// The claim under which the shard is served. A group of an earlier claim is refused with
    /// [`SubmitError::Fenced`](crate::SubmitError::Fenced).
    pub epoch: Epoch,
    /// The shard's own number for this group, increasing; given back in [`Committed`].
    pub op: u64,
    /// The engine's records, opaque here. May be empty, without bodies: the ticket is then a barrier behind everything
    /// before it, and nothing is written.
    pub records: Bytes,
    /// Bodies born with this group, in the order the records count them.
    pub bodies: Vec<PendingBody>,
    /// Bodies to which no entry refers after this group, not yet known to be written. One that is still
    /// unwritten when the group is cut is left out of the log (elision).
    pub dead: Vec<PendingBody>,
    /// Written bodies to which no entry refers after this group.
    pub released: Vec<BodyRef>,
    /// The group does nothing but settle the messages whose bodies are in `dead`. If all of those are unwritten, it is
    /// not written at all (see the module's text).
    pub settles_only: bool,
    /// At least the largest sequence number or id that this group issues: an opaque hint whose maximum every commit
    /// carries, so that none is issued twice after a crash.
    pub high_water: u64,
    /// How soon it must reach the disk.
    pub class: Class,
}

impl Group {
    /// A group that waits for everything before it and writes nothing.
    pub fn barrier(shard: ShardId, epoch: Epoch, op: u64) -> Self {
        Self {
            shard,
            epoch,
            op,
            records: Bytes::new(),
            bodies: Vec::new(),
            dead: Vec::new(),
            released: Vec::new(),
            settles_only: false,
            high_water: 0,
            class: Class::Durable,
        }
    }
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

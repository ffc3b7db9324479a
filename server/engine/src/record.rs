//! The journal's records: what changed, in a form that can be applied again.
//!
//! Every record states a fact about things named by ids that are never reused, so applying one twice, or to a state
//! that already shows it, changes nothing. Checkpoints are made of the same records; that is what lets them be taken in
//! slices while the shard works (see ARCHITECTURE.md, "Checkpoints").
//!
//! A record is never changed once released: a new kind gets a new tag.

mod codec;

use crate::{
    ids::{BodyAt, BodyId, Millis, QueueId, Seq, TenantId},
    settings::Origin,
};

/// Why bytes are not records: the journal's checksums held, so this is a fault of ours or a newer format's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a journal record cannot be read: {0}")]
pub struct BadRecord(pub(crate) &'static str);

/// One fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    Tenant {
        id: TenantId,
        account: u64,
        name: &'a str,
        at: Millis,
    },
    TenantGone {
        id: TenantId,
    },
    /// The tenant was in use then, in serving time.
    Seen {
        tenant: TenantId,
        served: Millis,
    },
    /// How long the node has served, over all its lives.
    Served {
        served: Millis,
    },
    Queue {
        id: QueueId,
        tenant: TenantId,
        name: &'a str,
        created_at: Millis,
        modified_at: Millis,
        origin: Origin,
        settings: &'a [u8],
    },
    QueueGone {
        id: QueueId,
    },
    Tombstone {
        tenant: TenantId,
        name: &'a str,
        until: Millis,
    },
    Purged {
        queue: QueueId,
        below: Seq,
        at: Millis,
    },
    /// Messages that share one body, the group's `index`-th.
    Sent {
        body: BodyId,
        index: u32,
        charge: u32,
        at: Millis,
        copies: Vec<Copied<'a>>,
    },
    Gone {
        queue: QueueId,
        seq: Seq,
    },
    Lease {
        queue: QueueId,
        seq: Seq,
        standing: Standing,
        due: Millis,
        deliveries: u32,
        first_delivered_at: Millis,
    },
    Acked {
        queue: QueueId,
        seq: Seq,
        until: Millis,
    },
    Deferred {
        queue: QueueId,
        seq: Seq,
    },
    Moved {
        queue: QueueId,
        seq: Seq,
        to: Image<'a>,
    },
    Sought {
        queue: QueueId,
        boundary: Seq,
        end: Seq,
        acked_until: Millis,
    },
    Document {
        tenant: TenantId,
        key: &'a str,
        value: Option<&'a [u8]>,
    },
    /// The body lies where the group's `index`-th one does, now.
    Relocated {
        body: BodyId,
        index: u32,
    },
    /// Checkpoints only: what a queue knows beyond its settings.
    Progress {
        queue: QueueId,
        next_seq: Seq,
        purged_at: Millis,
    },
    /// Checkpoints only.
    Remembered {
        queue: QueueId,
        hash: u128,
        id: u128,
        seq: Seq,
        expires_at: Millis,
        charge: u32,
    },
    /// Checkpoints only.
    Entry(Image<'a>),
    /// Checkpoints only: ids from here on were never given.
    Counters {
        queue: u64,
        tenant: u64,
        account: u64,
        body: u64,
        now: Millis,
    },
}

/// One queue's copy of a sent message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Copied<'a> {
    pub(crate) queue: QueueId,
    pub(crate) seq: Seq,
    pub(crate) due: Millis,
    pub(crate) expires_at: Millis,
    pub(crate) own_ttl: bool,
    pub(crate) priority: u8,
    pub(crate) group: Option<&'a str>,
    pub(crate) dedup: Option<Deduplicated>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deduplicated {
    pub(crate) hash: u128,
    pub(crate) id: u128,
    pub(crate) expires_at: Millis,
    pub(crate) charge: u32,
}

/// A whole message as memory holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Image<'a> {
    pub(crate) queue: QueueId,
    pub(crate) seq: Seq,
    pub(crate) body: BodyId,
    /// `None` while unwritten: its own record comes later in the log than the checkpoint's position.
    pub(crate) at: Option<BodyAt>,
    pub(crate) charge: u32,
    pub(crate) enqueued_at: Millis,
    pub(crate) expires_at: Millis,
    pub(crate) due: Millis,
    pub(crate) first_delivered_at: Millis,
    pub(crate) deliveries: u32,
    pub(crate) priority: u8,
    pub(crate) own_ttl: bool,
    pub(crate) standing: Standing,
    pub(crate) group: Option<&'a str>,
    pub(crate) dead_letter_source: Option<&'a str>,
    pub(crate) id: Option<u128>,
}

/// A message's state as the journal tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Ready at `due`.
    Waiting,
    /// Leased until `due`.
    Leased,
    Deferred,
    /// Kept until `due`.
    Acked,
}

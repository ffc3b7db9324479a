//! Messages on their way in and out of the engine.

use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::ids::{BodyAt, Epoch, Millis, QueueId, Seq};

/// A message to send.
#[derive(Clone, Debug)]
pub struct NewMessage {
    /// The sender's message exactly as it came, body and attributes, in the canonical encoding.
    pub content: Bytes,
    /// The id the sender is told; a deduplicated send answers with the first one's.
    pub id: u128,
    /// What the message counts against size and byte caps: body and attributes as the protocol counts them.
    pub charge: u32,
    /// Its group, for a queue with [`GroupMode`](crate::GroupMode).
    pub group: Option<Arc<str>>,
    /// Its deduplication id, hashed, for a queue with [`Dedup`](crate::Dedup).
    pub dedup: Option<DedupKey>,
    /// How long to hide it; `None` for the queue's delay.
    pub delay: Option<Millis>,
    /// How long it lives; `None` for the queue's retention.
    pub ttl: Option<Millis>,
    /// Its priority, cut to the queue's highest.
    pub priority: u8,
}

/// A deduplication id within its scope, hashed so that every id costs the same few bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DedupKey {
    /// The first 16 bytes of SHA-256 over scope and id.
    pub hash: u128,
    /// What it counts against the tenant's budget: the id's length plus 192.
    pub charge: u32,
}

impl DedupKey {
    /// Hashes `id` within `scope` (the group, where each group deduplicates by itself; empty for the whole queue).
    pub fn new(scope: &str, id: &str) -> Self {
        let mut sha = Sha256::new();
        sha.update((scope.len() as u64).to_le_bytes());
        sha.update(scope);
        sha.update(id);
        let digest = sha.finalize();
        let mut first = [0; 16];
        first.copy_from_slice(&digest[..16]);
        Self {
            hash: u128::from_le_bytes(first),
            charge: 192 + u32::try_from(id.len()).unwrap_or(u32::MAX - 192),
        }
    }
}

/// The answer to a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The message's id: the given one, or the first one's if this send was a duplicate.
    pub id: u128,
    /// Its sequence number, likewise.
    pub seq: Seq,
    /// Whether it was a duplicate and nothing was stored.
    pub duplicate: bool,
}

/// A delivered message: what the receiver needs, and what names this delivery when it is settled.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Which message and which of its deliveries.
    pub claim: Claim,
    /// The message itself, or where it lies.
    pub content: Content,
    /// When it was sent.
    pub enqueued_at: Millis,
    /// When it expires; [`Millis::NEVER`] if it does not.
    pub expires_at: Millis,
    /// When it was first delivered.
    pub first_delivered_at: Millis,
    /// When this delivery's lease ends.
    pub leased_until: Millis,
    /// Its group.
    pub group: Option<Arc<str>>,
    /// Its priority.
    pub priority: u8,
    /// What the broker added since it was sent.
    pub overlay: Option<Arc<Overlay>>,
}

/// A message's content: still in memory because the disk does not have it yet, or on the disk.
#[derive(Clone, Debug)]
pub enum Content {
    /// Not yet known to be written.
    Pinned(Bytes),
    /// Written; to be had from the store or its cache.
    Stored(BodyAt),
}

/// What the broker adds to a message. Never an edit of the sender's record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overlay {
    /// Where the message was before it was dead-lettered ([`DeadLetter::source`](crate::DeadLetter::source)).
    pub dead_letter_source: Option<Arc<str>>,
    /// The id the message has now, if it is not the sender's (SQS: a message moved back out of a dead-letter queue).
    pub id: Option<u128>,
}

/// Names one delivery of one message. Handles are claims with a MAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    /// The queue.
    pub queue: QueueId,
    /// The message.
    pub seq: Seq,
    /// Which delivery, from 1.
    pub delivery: u32,
    /// The shard's life that made it.
    pub epoch: Epoch,
}

/// What a claim may still do after its lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stale {
    /// SQS standard: settle the message, or change its lease, all the same, whoever has it now.
    Accept,
    /// Refuse once the lease is over, with [`Error::LeaseLost`](crate::Error::LeaseLost) (SQS FIFO, Azure, Service Bus).
    Refuse,
}

/// What to do with a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settle {
    /// Done: the message goes, or is kept as acknowledged where the queue retains such.
    Complete,
    /// Lease it for this long from now.
    Lease(Millis),
    /// Give it back to its place in the queue, after this delay.
    Release(Millis),
    /// Set it aside; only [`receive_deferred`](crate::Tx::receive_deferred) gets it.
    Defer,
    /// Move it to the dead-letter queue now.
    DeadLetter,
}

/// A request for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receive {
    /// At most this many.
    pub max: u32,
    /// Leased for this long; `None` for the queue's.
    pub lease: Option<Millis>,
}

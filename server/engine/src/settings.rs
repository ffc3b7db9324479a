//! What a queue is told when it is made, and the caps that bound it.
//!
//! Settings common to protocols are typed fields; what only one protocol knows is in that protocol's own
//! serialised block, which the engine keeps, counts and never reads.

use serde::{Deserialize, Serialize};

use crate::ids::Millis;

/// A queue's settings.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct QueueSettings {
    /// How long a delivery is leased unless the receiver says otherwise (SQS `VisibilityTimeout`).
    pub lease: Millis,
    /// How long a message is hidden after it was sent, unless the sender says otherwise.
    pub delay: Millis,
    /// How long a message lives after it was sent, unless the sender says otherwise; [`Millis::NEVER`] for ever.
    pub retention: Millis,
    /// How long a receive waits for a message unless the receiver says otherwise.
    pub receive_wait: Millis,
    /// The largest message taken, in bytes as the sending protocol counts them.
    pub max_message_bytes: u32,
    /// Whether messages are ordered within groups, and how.
    pub groups: Option<GroupMode>,
    /// Whether and how sends are deduplicated.
    pub dedup: Option<Dedup>,
    /// Where messages go that were delivered too often or died.
    pub dead_letter: Option<DeadLetter>,
    /// How long acknowledged messages are kept for [`seek`](crate::Tx::seek); `None` drops them at once.
    pub retain_acked: Option<Millis>,
    /// The highest priority; 0 means no priorities.
    pub max_priority: u8,
    /// How many deliveries may be leased at once.
    pub max_leased: u32,
    /// The block of the protocol that made the queue (tags, policies, metadata), serialised by it.
    pub protocol: Vec<u8>,
}

impl Default for QueueSettings {
    /// SQS's defaults, which are also what a queue made by use gets.
    fn default() -> Self {
        Self {
            lease: Millis::from_secs(30),
            delay: Millis::ZERO,
            retention: Millis::from_secs(345_600),
            receive_wait: Millis::ZERO,
            max_message_bytes: 1_048_576,
            groups: None,
            dedup: None,
            dead_letter: None,
            retain_acked: None,
            max_priority: 0,
            max_leased: 120_000,
            protocol: Vec::new(),
        }
    }
}

/// Who made a queue: an implicit one is reaped when idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A create request.
    Explicit,
    /// The use of a name that did not exist.
    ByUse,
}

/// How messages with a group are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum GroupMode {
    /// SQS FIFO: a group yields its messages from the head up to the first one that is not ready, so that nothing
    /// overtakes a leased message of its group.
    Fifo,
}

/// A queue's memory of what it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Dedup {
    /// How long an id is remembered, from the first send with it.
    pub window: Millis,
}

/// Where dead messages go.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeadLetter {
    /// The target queue's name in the same tenant. A missing target leaves the message where it is.
    pub queue: String,
    /// How many deliveries a message gets before it is moved in place of the next one.
    pub max_deliveries: u32,
    /// What a reader of the moved message is told of where it came from (SQS: the source queue's ARN).
    pub source: String,
    /// Whether the retention clock starts anew in the target (SQS: FIFO yes, standard no).
    pub restart_retention: bool,
}

/// What one tenant may hold. [`Limits::UNLIMITED`] turns every cap off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Queues, topics, exchanges and subscriptions.
    pub entities: u64,
    /// Messages in one queue, leased ones included.
    pub messages_per_queue: u64,
    /// Message bytes over all queues, leased ones included.
    pub message_bytes: u64,
    /// Remembered deduplication ids, each counted as its length plus 192.
    pub dedup_bytes: u64,
    /// Settings, tags, policies and metadata over all entities.
    pub settings_bytes: u64,
    /// Names remembered as deleted recently.
    pub tombstones: u64,
    /// Receivers waiting at once.
    pub receivers: u64,
    /// The longest lifetime, delay and lease.
    pub lifetime: Millis,
    /// How long a queue made by use is kept while it is empty and nobody uses it; [`Millis::NEVER`] for ever.
    pub implicit_idle: Millis,
}

impl Limits {
    /// No caps: a developer's machine.
    pub const UNLIMITED: Self = Self {
        entities: u64::MAX,
        messages_per_queue: u64::MAX,
        message_bytes: u64::MAX,
        dedup_bytes: u64::MAX,
        settings_bytes: u64::MAX,
        tombstones: u64::MAX,
        receivers: u64::MAX,
        lifetime: Millis::NEVER,
        implicit_idle: Millis::NEVER,
    };
}

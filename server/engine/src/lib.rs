//! PowerQueue's queue engine: a deterministic state machine.
//!
//! It knows tenants, queues, messages, leases, groups, timers and caps, and nothing of clocks, sockets or files. Every
//! entrance takes the time it is, and leaves an [`Output`] for the driver: records for the journal, and receivers to wake.
//! Equal calls give equal results, which is what the model tests and the crash tests stand on.

mod body;
mod dedup;
mod entry;
mod error;
mod group;
mod handle;
mod ids;
mod index;
mod message;
mod queue;
mod ready;
mod record;
mod settings;
mod shard;
mod slab;
mod tenant;
#[cfg(test)]
mod tests;
mod tx;
mod wheel;

pub use error::{Error, Result};
pub use handle::{HANDLE_BYTES, HandleKey};
pub use ids::{BodyAt, BodyId, Epoch, Millis, OpNo, QueueId, ReceiverId, Seq, TenantId};
pub use message::{
    Claim, Content, DedupKey, Delivery, NewMessage, Overlay, Receive, Sent, Settle, Stale,
};
pub use record::BadRecord;
pub use settings::{DeadLetter, Dedup, GroupMode, Limits, Origin, QueueSettings};
pub use shard::{Capture, Effect, GroupOut, Output, Recovery, Shard, Stats, StoredBody};
pub use tenant::Usage;
pub use tx::{Command, Movable, MoveTarget, QueueView, SeekTo, Tx};

//! PowerQueue's queue engine.
mod error;
mod ids;
mod message;
mod settings;
pub use error::{Error, Result};
pub use ids::{BodyAt, BodyId, Epoch, Millis, OpNo, QueueId, ReceiverId, Seq, TenantId};
pub use message::*;
pub use settings::{DeadLetter, Dedup, GroupMode, Limits, QueueSettings};
mod handle;
mod tx;
pub use handle::HandleKey;
pub use tx::{Movable, Origin, QueueView, Tx};

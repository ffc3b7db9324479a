//! The engine's shards over a store: what front ends talk to.
//!
//! A [`Node`] is the running broker without its sockets. It keeps each shard behind a lock, hands what the engine
//! journals to the store under that same lock (so that submission order is apply order), gives the answers once they
//! are durable, wakes waiting receivers, and does in the background what nobody asks for: timers, lazy records,
//! checkpoints, reclaiming.
//!
//! Lock order: catalog, then one shard, then the store's queue. No lock is held across an await.

mod background;
mod cache;
mod catalog;
mod cell;
mod clock;
mod node;
mod open;
mod reaper;
mod receive;
mod traffic;

use powerqueue_engine::{Error as EngineError, TenantId};

pub use crate::{
    node::{Node, NodeStats, Room},
    open::{HANDLE_SECRET, Options, open},
    reaper::Connected,
    receive::Subscription,
    traffic::{Outcome, Traffic},
};

/// A tenant, found or made by [`Node::tenant`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// Its id in the engine.
    pub id: TenantId,
    /// Its 12-digit account number, allocated once.
    pub account: u64,
    /// The shard it lives in.
    pub shard: u16,
}

/// Why the node could not do it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The engine refused.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The store has no room for growth.
    #[error("the disk has no room for more messages")]
    Full,
    /// The request is larger than one group of the journal may be.
    #[error("the request is too large")]
    TooLarge,
    /// The operation may or may not have happened: the store failed or the node is stopping. Try again.
    #[error("the outcome is unknown; try again")]
    Unavailable,
    /// A stored message cannot be read.
    #[error("the message cannot be read")]
    Unreadable,
}

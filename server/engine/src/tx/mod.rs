//! A transaction: any number of engine commands under one hold of the shard's lock, journaled as one atomic group.
//!
//! Each command takes effect whole or returns an error and changes nothing.

mod entities;
mod receive;
mod send;
mod settle;

use std::sync::Arc;

pub use settle::{MoveTarget, SeekTo};

use crate::{
    error::{Error, Result},
    ids::{Millis, QueueId, Seq, TenantId},
    message::{Claim, NewMessage, Overlay, Settle, Stale},
    settings::{Origin, QueueSettings},
    shard::{Output, Shard},
};

/// Commands on one shard at one moment.
///
/// [`finish`](Self::finish) gives the driver what to journal and whom to wake. Should a transaction be dropped without it
/// (a panic in between), what took effect goes out with the shard's next output.
#[derive(Debug)]
pub struct Tx<'a> {
    pub(crate) shard: &'a mut Shard,
}

/// A queue as it stands.
#[derive(Clone, Debug)]
pub struct QueueView {
    /// Its id.
    pub id: QueueId,
    /// Its name.
    pub name: Arc<str>,
    /// Its settings.
    pub settings: Arc<QueueSettings>,
    /// When it was made.
    pub created_at: Millis,
    /// When its settings last changed.
    pub modified_at: Millis,
    /// Who made it.
    pub origin: Origin,
    /// Messages that are to be had, now or once their group is free.
    pub ready: u64,
    /// Messages that are leased.
    pub leased: u64,
    /// Messages that are delayed.
    pub delayed: u64,
}

/// A message that [`Tx::move_ready`] offers to move.
#[derive(Clone, Debug)]
pub struct Movable {
    /// Its place in the queue it would leave.
    pub seq: Seq,
    /// What the broker added.
    pub overlay: Option<Arc<Overlay>>,
}

/// One command of [`Tx::transact`].
#[derive(Clone, Debug)]
pub enum Command {
    /// Send a message.
    Send(QueueId, NewMessage),
    /// Settle a delivery.
    Settle(Claim, Settle, Stale),
}

impl<'a> Tx<'a> {
    pub(crate) fn new(shard: &'a mut Shard) -> Self {
        Self { shard }
    }

    /// The transaction's time.
    pub fn now(&self) -> Millis {
        self.shard.now()
    }

    /// Ends the transaction: the receivers it has something for are served.
    pub fn finish(self) -> Output {
        self.shard.finish()
    }

    /// The queue as it stands. [`Error::NotFound`] if there is none, or another tenant's.
    pub fn queue(&self, tenant: TenantId, id: QueueId) -> Result<QueueView> {
        use crate::entry::State;
        let queue = &self.shard.queues[self.shard.use_queue(id)?];
        if queue.tenant != tenant {
            return Err(Error::NotFound);
        }
        Ok(QueueView {
            id,
            name: Arc::clone(&queue.name),
            settings: Arc::clone(&queue.settings),
            created_at: queue.created_at,
            modified_at: queue.modified_at,
            origin: queue.origin,
            ready: u64::from(queue.count(State::Ready) + queue.count(State::Held)),
            leased: u64::from(queue.count(State::Leased)),
            delayed: u64::from(queue.count(State::Delayed)),
        })
    }
}

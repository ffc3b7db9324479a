//! A transaction: any number of engine commands under one hold of the shard's lock, journaled as one atomic group.
use std::sync::Arc;

use crate::*;

/// Commands on one shard at one moment. Each command either takes effect whole or returns an error and changes
/// nothing; the driver journals everything that took effect as one group.
pub struct Tx<'a> {
    _shard: &'a mut (),
}

/// Who made a queue: an implicit one is reaped when idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A create request.
    Explicit,
    /// The use of a name that did not exist.
    ByUse,
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
    /// Messages that a receive would get now.
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

impl Tx<'_> {
    /// The transaction's time.
    pub fn now(&self) -> Millis {
        todo!()
    }
    /// The queue with that exact name.
    pub fn find_queue(&self, tenant: TenantId, name: &str) -> Option<QueueId> {
        todo!()
    }
    /// The queue as it stands. [`Error::NotFound`] if there is none, or another tenant's.
    pub fn queue(&self, tenant: TenantId, id: QueueId) -> Result<QueueView> {
        todo!()
    }
    /// Up to `limit` names in byte order that start with `prefix` and come after `after`.
    pub fn queue_names(
        &self,
        tenant: TenantId,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Vec<Arc<str>> {
        todo!()
    }
    /// Makes a queue. [`Error::AlreadyExists`] for a name in use, [`Error::DeletedRecently`] during a tombstone.
    pub fn create_queue(
        &mut self,
        tenant: TenantId,
        name: &str,
        settings: QueueSettings,
        origin: Origin,
    ) -> Result<QueueId> {
        todo!()
    }
    /// Makes an implicit queue explicit (a create request for a queue that use had made).
    pub fn adopt_queue(&mut self, id: QueueId) -> Result<()> {
        todo!()
    }
    /// Replaces the settings.
    pub fn update_queue(&mut self, id: QueueId, settings: QueueSettings) -> Result<()> {
        todo!()
    }
    /// Deletes the queue with everything in it; for `tombstone` the name cannot be made again.
    pub fn delete_queue(&mut self, id: QueueId, tombstone: Millis) -> Result<()> {
        todo!()
    }
    /// Empties the queue, leased and delayed messages and the deduplication memory included.
    /// [`Error::Busy`] within `cooldown` of the last purge.
    pub fn purge(&mut self, id: QueueId, cooldown: Millis) -> Result<()> {
        todo!()
    }
    /// Sends one message.
    pub fn send(&mut self, queue: QueueId, message: NewMessage) -> Result<Sent> {
        todo!()
    }
    /// Sends one message to several queues, to all or to none; its body is stored once.
    pub fn publish(&mut self, queues: &[QueueId], message: NewMessage) -> Result<Vec<Sent>> {
        todo!()
    }
    /// Leases what is ready, now. An empty answer is not an error.
    pub fn receive(&mut self, queue: QueueId, request: Receive) -> Result<Vec<Delivery>> {
        todo!()
    }
    /// Settles one delivery. [`Error::NotFound`] if the message is gone, [`Error::LeaseLost`] or
    /// [`Error::NotLeased`] as `stale` says.
    pub fn settle(&mut self, claim: Claim, settle: Settle, stale: Stale) -> Result<()> {
        todo!()
    }
    /// Answers a receive again: the same deliveries with fresh leases, or `None` if any of them was settled,
    /// changed or has expired since (SQS `ReceiveRequestAttemptId`).
    pub fn reissue(&mut self, claims: &[Claim], lease: Option<Millis>) -> Option<Vec<Delivery>> {
        todo!()
    }
    /// Offers up to `max` ready messages in order; each for which `target` names a queue and a new id is moved
    /// there as if sent now. Stops at the first refusal. Returns how many moved.
    pub fn move_ready(
        &mut self,
        queue: QueueId,
        max: usize,
        target: &mut dyn FnMut(&Movable) -> Option<(QueueId, u128)>,
    ) -> Result<usize> {
        todo!()
    }
    /// A small durable document of the tenant's, for state that only one protocol knows (move tasks, topics).
    /// Counts to the tenant's settings bytes.
    pub fn document(&self, tenant: TenantId, key: &str) -> Option<Arc<[u8]>> {
        todo!()
    }
    /// The documents whose keys start with `prefix`, in byte order of their keys.
    pub fn documents(&self, tenant: TenantId, prefix: &str) -> Vec<(Arc<str>, Arc<[u8]>)> {
        todo!()
    }
    /// Writes a document, or removes it with `None`.
    pub fn put_document(
        &mut self,
        tenant: TenantId,
        key: &str,
        value: Option<&[u8]>,
    ) -> Result<()> {
        todo!()
    }
}

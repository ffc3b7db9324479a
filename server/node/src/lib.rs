//! The engine's shards over a store: what front ends talk to.
#![allow(unused)]
use bytes::Bytes;
use powerqueue_engine::{
    Delivery, Error as EngineError, HandleKey, Limits, Millis, QueueId, Receive, TenantId, Tx,
};

/// The running broker without its sockets. Cheap to clone.
#[derive(Clone)]
pub struct Node(());

/// A tenant, found or made by [`Node::tenant`].
#[derive(Clone, Debug)]
pub struct Tenant {
    /// Its id in the engine.
    pub id: TenantId,
    /// Its 12-digit account number, allocated once.
    pub account: u64,
    /// The shard it lives in.
    pub shard: u16,
}

/// How much room an operation needs, asked for before the engine is called.
#[derive(Clone, Copy, Debug)]
pub enum Room {
    /// It makes the store grow by about this many bytes; refused when the disk runs short.
    Growth(usize),
    /// It makes room (settlements, deletes); served from the reserve.
    Settlement,
}

/// Why the node could not do it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The engine refused.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The store has no room for growth.
    #[error("the disk is full")]
    Full,
    /// The operation may or may not have happened: the store failed or the node is stopping. Try again.
    #[error("the outcome is unknown; try again")]
    Unavailable,
    /// A stored message cannot be read.
    #[error("the message cannot be read")]
    Unreadable,
}

impl Node {
    /// The time by which everything is judged.
    pub fn now(&self) -> Millis {
        todo!()
    }
    /// The secret for handles.
    pub fn handle_key(&self) -> &HandleKey {
        todo!()
    }
    /// Whether the node drains: long polls must end and no new one may start.
    pub fn draining(&self) -> bool {
        todo!()
    }
    /// The tenant's caps.
    pub fn limits(&self) -> &Limits {
        todo!()
    }
    /// Finds a tenant or makes it.
    pub fn tenant(&self, name: &str) -> Result<Tenant, Error> {
        todo!()
    }
    /// Runs engine commands under the shard's lock (never await, never long), then waits until what they changed is
    /// durable. Everything that took effect in `f` is one atomic group, whatever `f` returns.
    pub async fn run<T>(
        &self,
        tenant: &Tenant,
        room: Room,
        f: impl FnOnce(&mut Tx<'_>) -> T,
    ) -> Result<T, Error> {
        todo!()
    }
    /// Looks without changing anything: no waiting for the disk.
    pub fn view<T>(&self, tenant: &Tenant, f: impl FnOnce(&Tx<'_>) -> T) -> T {
        todo!()
    }
    /// Receives, waiting up to `wait` for the first message. Dropping the future gives back what it was about to return.
    pub async fn receive(
        &self,
        tenant: &Tenant,
        queue: QueueId,
        request: Receive,
        wait: Millis,
    ) -> Result<Vec<Delivery>, Error> {
        todo!()
    }
    /// The messages' contents, in order.
    pub async fn contents(&self, deliveries: &[Delivery]) -> Vec<Result<Bytes, Error>> {
        todo!()
    }
}

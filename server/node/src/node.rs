//! The node: tenants to shards, commands to the engine, answers once they are durable.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use powerqueue_engine::{
    BodyAt, Content, Delivery, Error as EngineError, HandleKey, Limits, Millis, Stats, Tx,
};
use powerqueue_store::{
    BodyRef, Committed, Permit, RoomError, RoomKind, Store, StoreFailure, Ticket,
};
use tokio::sync::watch;

use crate::{
    Error, Tenant,
    cache::Cache,
    catalog::Catalog,
    cell::{Cell, body_ref},
    clock::{Clock, Serving},
    open::Options,
};

/// The largest content in bytes that is copied from the system's cache on a thread that serves requests.
const COPIED_AT_ONCE: u32 = 64 * 1024;

/// The running broker without its sockets. Cheap to clone.
#[derive(Clone)]
pub struct Node(pub(crate) Arc<Inner>);

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Node")
    }
}

pub(crate) struct Inner {
    pub(crate) store: Store,
    pub(crate) cells: Vec<Arc<Cell>>,
    pub(crate) catalog: RwLock<Catalog>,
    pub(crate) cache: Cache,
    pub(crate) clock: Clock,
    pub(crate) serving: Serving,
    /// Tenants whose use the journal does not know yet.
    pub(crate) touched: Mutex<Vec<Arc<str>>>,
    /// Tenants made, reaped because they were idle, and reaped to make room, since the start.
    pub(crate) made: AtomicU64,
    pub(crate) reaped_idle: AtomicU64,
    pub(crate) reaped_bare: AtomicU64,
    pub(crate) options: Options,
    pub(crate) handle_key: HandleKey,
    pub(crate) draining: watch::Sender<bool>,
    pub(crate) failed: AtomicBool,
    /// Memory is short: growth is refused.
    pub(crate) crowded: AtomicBool,
}

/// How much room an operation needs, asked for before the engine is called.
#[derive(Clone, Copy, Debug)]
pub enum Room {
    /// It makes the store grow by about this many bytes; refused when the disk runs short.
    Growth(usize),
    /// It makes room, or changes what is there (settlements, deletes, moves); served from the reserve.
    Settlement,
}

/// What the whole node holds.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeStats {
    /// The shards' sums.
    pub shards: Stats,
    /// What they take in memory, by a generous estimate.
    pub memory_bytes: u64,
    /// Whether that is too much: growth is refused.
    pub memory_short: bool,
    /// Bytes of recent bodies in memory.
    pub cache_bytes: u64,
    /// Tenants made since the start.
    pub tenants_made: u64,
    /// Tenants deleted since the start because nobody used them.
    pub tenants_reaped_idle: u64,
    /// Tenants deleted since the start because they held nothing and others needed their place.
    pub tenants_reaped_bare: u64,
}

impl Node {
    /// The time by which everything is judged.
    pub fn now(&self) -> Millis {
        self.0.clock.now()
    }

    /// The secret for handles.
    pub fn handle_key(&self) -> &HandleKey {
        &self.0.handle_key
    }

    /// Whether the node drains: long polls end and no new one starts.
    pub fn draining(&self) -> bool {
        *self.0.draining.borrow()
    }

    /// The caps each tenant is under.
    pub fn limits(&self) -> &Limits {
        &self.0.options.limits
    }

    /// The store beneath, for its state and for what is local to the node.
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// Whether the store failed: nothing is accepted any more, and the process should end.
    pub fn has_failed(&self) -> bool {
        self.0.failed.load(Ordering::Relaxed)
    }

    /// Resolves once the store has failed.
    pub async fn failed(&self) {
        let mut draining = self.0.draining.subscribe();
        while !self.has_failed() {
            if draining.changed().await.is_err() {
                return;
            }
        }
    }

    /// What the node holds.
    pub fn stats(&self) -> NodeStats {
        self.0.stats()
    }

    /// The tenant of that name, if there is one. Naming it counts as using it.
    pub fn find_tenant(&self, name: &str) -> Option<Tenant> {
        let catalog = self.0.catalog.read();
        let known = catalog.get(name)?;
        self.0.see(name, &known.activity);
        Some(known.tenant)
    }

    /// All tenants.
    pub fn tenants(&self) -> Vec<(Arc<str>, Tenant)> {
        self.0
            .catalog
            .read()
            .iter()
            .map(|(name, known)| (Arc::clone(name), known.tenant))
            .collect()
    }

    /// Finds a tenant or makes it, in the shard that has the fewest. It is durable with the first operation on it.
    pub fn tenant(&self, name: &str) -> Result<Tenant, Error> {
        if let Some(tenant) = self.find_tenant(name) {
            return Ok(tenant);
        }
        let inner = &*self.0;
        let mut catalog = inner.catalog.write();
        if let Some(known) = catalog.get(name) {
            return Ok(known.tenant);
        }
        inner.make_room(&mut catalog);
        if catalog.len() as u64 >= inner.options.max_tenants {
            return Err(EngineError::NodeFull("it holds its maximum of tenants").into());
        }
        let (lightest, served) = (catalog.lightest(), inner.served());
        let ((id, account), _) = inner.apply(&inner.cells[lightest], None, |tx| {
            let made = tx.create_tenant(name);
            tx.see_tenant(made.0, served);
            made
        });
        let tenant = Tenant {
            id,
            account,
            shard: lightest as u16,
        };
        catalog.add(Arc::from(name), tenant, served);
        inner.made.fetch_add(1, Ordering::Relaxed);
        Ok(tenant)
    }

    /// Runs engine commands under the shard's lock (never long), then waits until what they changed is durable.
    /// Everything that took effect in `f` is one atomic group, whatever `f` returns.
    pub async fn run<T>(
        &self,
        tenant: &Tenant,
        room: Room,
        f: impl FnOnce(&mut Tx<'_>) -> T,
    ) -> Result<T, Error> {
        let permit = self.0.room(room).await?;
        let (result, ticket) = {
            let cell = self.0.cell(tenant)?;
            self.0.apply(cell, Some(permit), f)
        };
        if let Some(ticket) = ticket {
            ticket.await.map_err(|_| Error::Unavailable)?;
        }
        Ok(result)
    }

    /// Looks without changing anything: no waiting for the disk.
    pub fn view<T>(&self, tenant: &Tenant, f: impl FnOnce(&Tx<'_>) -> T) -> T {
        let cell = &self.0.cells[usize::from(tenant.shard) % self.0.cells.len()];
        let (result, _) = self.0.apply(cell, None, |tx| f(tx));
        result
    }

    /// The messages' contents, in order.
    pub async fn contents(&self, deliveries: &[Delivery]) -> Vec<Result<Bytes, Error>> {
        let mut contents = Vec::with_capacity(deliveries.len());
        let mut missing: Vec<(usize, BodyRef)> = Vec::new();
        for (index, delivery) in deliveries.iter().enumerate() {
            contents.push(match &delivery.content {
                Content::Pinned(bytes) => Ok(bytes.clone()),
                Content::Stored(at) => self.0.at_once(*at).ok_or_else(|| {
                    missing.push((index, body_ref(*at)));
                    Error::Unreadable
                }),
            });
        }
        if missing.is_empty() {
            return contents;
        }
        let inner = Arc::clone(&self.0);
        let read = tokio::task::spawn_blocking(move || {
            let refs: Vec<BodyRef> = missing.iter().map(|(_, body)| *body).collect();
            let bodies = inner.store.read(&refs);
            missing.into_iter().zip(bodies).collect::<Vec<_>>()
        });
        for ((index, body), bytes) in read.await.unwrap_or_default() {
            match bytes {
                Ok(bytes) => contents[index] = Ok(bytes),
                Err(error) => {
                    tracing::error!(position = body.position.0, %error, "a message cannot be read")
                }
            }
        }
        contents
    }

    /// Ends long polls and takes no new ones. Everything else goes on.
    pub fn drain(&self) {
        self.0.draining.send_replace(true);
    }
}

impl Inner {
    /// A content that is in memory: in the cache, or in the system's. A hop to a thread that may block costs more than
    /// copying a small one.
    fn at_once(&self, at: BodyAt) -> Option<Bytes> {
        let cached = self.cache.get(at);
        cached.or_else(|| {
            (at.len <= COPIED_AT_ONCE)
                .then(|| self.store.read_cached(body_ref(at)))
                .flatten()
        })
    }

    fn stats(&self) -> NodeStats {
        let mut sums = Stats::default();
        for cell in &self.cells {
            let stats = cell.lock().shard.stats();
            sums.tenants += stats.tenants;
            sums.queues += stats.queues;
            sums.entries += stats.entries;
            sums.bodies += stats.bodies;
            sums.pinned_bytes += stats.pinned_bytes;
            sums.receivers += stats.receivers;
            sums.reaped += stats.reaped;
        }
        NodeStats {
            shards: sums,
            memory_bytes: sums.entries * ENTRY_BYTES
                + (sums.queues + sums.tenants + sums.receivers) * ENTITY_BYTES
                + sums.pinned_bytes,
            memory_short: self.crowded.load(Ordering::Relaxed),
            cache_bytes: self.cache.bytes() as u64,
            tenants_made: self.made.load(Ordering::Relaxed),
            tenants_reaped_idle: self.reaped_idle.load(Ordering::Relaxed),
            tenants_reaped_bare: self.reaped_bare.load(Ordering::Relaxed),
        }
    }

    /// Looks whether memory is short.
    pub(crate) fn look_at_memory(&self) {
        let used = self.stats().memory_bytes;
        let crowded = used > self.options.memory_bytes;
        if self.crowded.swap(crowded, Ordering::Relaxed) != crowded {
            tracing::warn!(used, short = crowded, "memory for messages");
        }
    }

    /// Asks for room on the way to the disk.
    pub(crate) async fn room(&self, room: Room) -> Result<Permit, Error> {
        if matches!(room, Room::Growth(_)) && self.crowded.load(Ordering::Relaxed) {
            return Err(EngineError::NodeFull("its memory is short").into());
        }
        let (bytes, kind) = match room {
            Room::Growth(bytes) => (bytes + RECORD_BYTES, RoomKind::Growth),
            Room::Settlement => (RECORD_BYTES, RoomKind::Settlement),
        };
        self.store
            .room(bytes, kind)
            .await
            .map_err(|error| match error {
                RoomError::TooLarge => Error::TooLarge,
                RoomError::Full => Error::Full,
                RoomError::Stopped => Error::Unavailable,
            })
    }

    pub(crate) fn cell(&self, tenant: &Tenant) -> Result<&Cell, Error> {
        self.cells
            .get(usize::from(tenant.shard))
            .map(Arc::as_ref)
            .ok_or(Error::Engine(EngineError::NotFound))
    }

    /// One transaction on a shard; the ticket to wait for before its result is told.
    pub(crate) fn apply<T>(
        &self,
        cell: &Cell,
        permit: Option<Permit>,
        f: impl FnOnce(&mut Tx<'_>) -> T,
    ) -> (T, Option<Ticket>) {
        let now = self.clock.now();
        let mut state = cell.lock();
        let mut tx = state.shard.begin(now);
        let result = f(&mut tx);
        let output = tx.finish();
        let ticket = cell.dispatch(&mut state, output, &self.store, &self.cache, permit);
        (result, ticket)
    }

    /// What the committer calls after each sync, before it resolves the tickets.
    pub(crate) fn committed(&self, groups: &[Committed]) {
        let now = self.clock.now();
        let mut by_shard: BTreeMap<u16, Vec<&Committed>> = BTreeMap::new();
        for group in groups {
            by_shard.entry(group.shard.0).or_default().push(group);
        }
        for (shard, groups) in by_shard {
            if let Some(cell) = self.cells.get(usize::from(shard)) {
                cell.committed(&groups, now, &self.store, &self.cache);
            }
        }
    }

    pub(crate) fn failed(&self, failure: &StoreFailure) {
        tracing::error!(%failure, "the store failed; nothing is accepted any more");
        self.failed.store(true, Ordering::Relaxed);
        self.draining.send_replace(true);
    }
}

/// What a message takes in memory beside its body.
const ENTRY_BYTES: u64 = 128;
/// What a queue, a tenant or a receiver takes.
const ENTITY_BYTES: u64 = 512;
/// What the records of one operation take at most beside its bodies, roughly.
const RECORD_BYTES: usize = 1024;

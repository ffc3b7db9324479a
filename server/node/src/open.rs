//! Opening: the store, its checkpoints, the journal after them, and the shards that come out.

use std::{sync::Arc, time::Duration};

use parking_lot::{Mutex, RwLock};
use powerqueue_engine::{BadRecord, Epoch, HandleKey, Limits, Millis, Recovery, Shard};
use powerqueue_store::{CheckpointError, ReplayError, ShardId, Store, StoreFailure};
use tokio::sync::watch;

use crate::{
    Node, background,
    cache::Cache,
    catalog::Catalog,
    cell::{Cell, body_at, body_ref},
    clock::{Clock, Serving, wall},
    node::Inner,
};

/// How a node behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// Shards of a new data directory; an existing one keeps at least those it has.
    pub shards: u16,
    /// The caps each tenant is under.
    pub limits: Limits,
    /// How many tenants there may be.
    pub max_tenants: u64,
    /// How long a tenant is kept that nobody uses, in serving time; [`Millis::NEVER`] for ever.
    pub tenant_idle: Millis,
    /// Memory for messages and queues; growth is refused beyond it.
    pub memory_bytes: u64,
    /// Bytes of recent bodies kept in memory.
    pub cache_bytes: usize,
    /// Journal bytes after which the shards are checkpointed.
    pub checkpoint_bytes: u64,
    /// How long leases and counts may lie unsaved.
    pub save_every: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            shards: 16,
            limits: Limits::UNLIMITED,
            max_tenants: u64::MAX,
            tenant_idle: Millis::NEVER,
            memory_bytes: u64::MAX,
            cache_bytes: 256 << 20,
            checkpoint_bytes: 256 << 20,
            save_every: Duration::from_millis(250),
        }
    }
}

/// Why a node cannot start on a store.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The checkpoint cannot be read.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The journal cannot be read.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// What the journal holds is not understood.
    #[error(transparent)]
    Record(#[from] BadRecord),
    /// The disk fails.
    #[error(transparent)]
    Store(#[from] StoreFailure),
    /// No secret could be made.
    #[error("the system gives no random bytes: {0}")]
    Random(getrandom::Error),
}

/// Key of the number of shards, among what is local to the node.
const SHARDS: &str = "node.shards";
/// Key of the secret for handles, among what is local to the node. A copy of the store must not have it: there, a handle of
/// the original could name another message.
pub const HANDLE_SECRET: &str = "node.handle_secret";

/// Brings the shards back and starts the store. Needs a tokio runtime for what runs in the background.
pub fn open(store: Store, options: Options) -> Result<Node, OpenError> {
    let count = shard_count(&store, options.shards)?;
    let secret = handle_secret(&store)?;
    let ids: Vec<ShardId> = (0..count).map(ShardId).collect();
    let clean = store.was_clean();
    let epochs = store.claim_all(&ids)?;
    let mut recoveries: Vec<Recovery> = epochs
        .iter()
        .enumerate()
        .map(|(number, epoch)| Recovery::new(number as u8, Epoch(epoch.0), options.limits, wall()))
        .collect();
    for (id, recovery) in ids.iter().zip(&mut recoveries) {
        load(&store, *id, recovery)?;
    }
    let mut bad = None;
    let summary = store.replay(&|shard| store.applied(shard), &mut |replayed| {
        let Some(recovery) = recoveries.get_mut(usize::from(replayed.shard.0)) else {
            return;
        };
        let bodies: Vec<_> = replayed
            .bodies
            .iter()
            .map(|body| body.map(body_at))
            .collect();
        if bad.is_none() {
            bad = recovery.apply(replayed.records, &bodies).err();
        }
    })?;
    if let Some(error) = bad {
        return Err(error.into());
    }
    for damage in &summary.damage {
        tracing::error!(
            shard = damage.shard.0,
            from = damage.from.0,
            to = damage.to.0,
            file = damage.file,
            "a part of the journal cannot be read; its shard answers nothing until `powerqueue repair`"
        );
    }
    let shards: Vec<Shard> = recoveries
        .into_iter()
        .map(|recovery| recovery.finish(wall(), clean))
        .collect();
    for shard in &shards {
        retain(&store, shard);
    }
    let last = shards.iter().map(Shard::now).max().unwrap_or_default();
    let end = store.synced();
    let served = shards.iter().map(Shard::served).max().unwrap_or_default();
    let catalog = Catalog::of(&shards, served);
    let cells = shards
        .into_iter()
        .zip(ids)
        .zip(epochs)
        .map(|((shard, id), epoch)| Arc::new(Cell::new(id, shard, epoch, end)))
        .collect();
    let inner = Arc::new(Inner {
        store,
        cells,
        catalog: RwLock::new(catalog),
        cache: Cache::new(options.cache_bytes),
        clock: Clock::starting_at(last),
        serving: Serving::starting_at(served),
        touched: Mutex::default(),
        made: 0.into(),
        reaped_idle: 0.into(),
        reaped_bare: 0.into(),
        options,
        handle_key: HandleKey::new(secret),
        draining: watch::Sender::new(false),
        failed: false.into(),
        crowded: false.into(),
    });
    let (committed, failed) = (Arc::downgrade(&inner), Arc::downgrade(&inner));
    inner.store.start(
        Box::new(move |groups| {
            if let Some(inner) = committed.upgrade() {
                inner.committed(groups);
            }
        }),
        Box::new(move |failure| {
            if let Some(inner) = failed.upgrade() {
                inner.failed(&failure);
            }
        }),
    )?;
    let node = Node(inner);
    background::start(&node);
    Ok(node)
}

fn shard_count(store: &Store, wanted: u16) -> Result<u16, CheckpointError> {
    let known = store
        .get_local(SHARDS)?
        .and_then(|bytes| Some(u16::from_be_bytes(bytes.as_ref().try_into().ok()?)));
    let count = wanted.clamp(1, 256).max(known.unwrap_or(0));
    if known != Some(count) {
        store.put_local(SHARDS, Some(&count.to_be_bytes()))?;
    }
    Ok(count)
}

fn handle_secret(store: &Store) -> Result<[u8; 32], OpenError> {
    if let Some(secret) = store
        .get_local(HANDLE_SECRET)?
        .and_then(|bytes| bytes.as_ref().try_into().ok())
    {
        return Ok(secret);
    }
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(OpenError::Random)?;
    store.put_local(HANDLE_SECRET, Some(&secret))?;
    Ok(secret)
}

/// Applies a shard's checkpoint, piece by piece.
fn load(store: &Store, id: ShardId, recovery: &mut Recovery) -> Result<(), OpenError> {
    let prefix = pieces(generation(store, id)?);
    let mut after: Option<Vec<u8>> = None;
    loop {
        let rows = store.scan(id, &prefix, after.as_deref(), 16)?;
        let Some((last, _)) = rows.last() else {
            return Ok(());
        };
        after = Some(last.to_vec());
        for (_, piece) in &rows {
            recovery.apply(piece, &[])?;
        }
    }
}

/// The number of a shard's checkpoint in force; 0 before the first, which has no pieces.
pub(crate) fn generation(store: &Store, id: ShardId) -> Result<u64, CheckpointError> {
    let known = store.get(id, GENERATION)?;
    Ok(known
        .and_then(|bytes| Some(u64::from_be_bytes(bytes.as_ref().try_into().ok()?)))
        .unwrap_or(0))
}

/// What the keys of a checkpoint's pieces start with.
pub(crate) fn pieces(generation: u64) -> Vec<u8> {
    [b"p".as_slice(), &generation.to_be_bytes()].concat()
}

/// Key of the number of the checkpoint in force.
pub(crate) const GENERATION: &[u8] = b"generation";

fn retain(store: &Store, shard: &Shard) {
    let mut cursor = Some(0);
    while let Some(from) = cursor {
        let (bodies, next) = shard.bodies_in(0..u64::MAX, from);
        let refs: Vec<_> = bodies.iter().map(|body| body_ref(body.at)).collect();
        store.retain(&refs);
        cursor = next;
    }
}

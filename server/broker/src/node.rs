//! Opens what the front ends talk to, and closes it again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use powerqueue_engine::{Limits, Millis};
use powerqueue_node::{Node, Options};
use powerqueue_store::{DiskFs, OpenError, Store, Sync};

use crate::config::{Cap, Config, Span, SyncPolicy};
use crate::data_dir::DataDir;
use crate::failure::Failure;

/// The store's folder in the data directory.
pub const STORE: &str = "store";

/// The broker without its sockets.
#[derive(Debug)]
pub struct RunningNode {
    node: Node,
}

/// Opens the store and replays it. Clients wait in the kernel's backlog meanwhile.
///
/// # Errors
/// [`Failure`] for what the operator has to change.
pub async fn open_node(config: &Config, data: &DataDir) -> anyhow::Result<RunningNode> {
    let store_options = store_options(config);
    let options = node_options(config);
    let path = data.path();
    // Replay may take a while; the runtime goes on answering for health.
    let opening = tokio::task::spawn_blocking(move || -> anyhow::Result<Node> {
        let disk = open_disk(&path)?;
        let store = Store::open(disk, store_options).map_err(|error| refusal(path, error))?;
        powerqueue_node::open(store, options).context("cannot bring the queues back")
    });
    Ok(RunningNode {
        node: opening.await??,
    })
}

/// The store's folder, made if it is missing.
pub fn open_disk(data: &Path) -> Result<Arc<DiskFs>, Failure> {
    let folder = data.join(STORE);
    let disk = std::fs::create_dir_all(&folder).and_then(|()| DiskFs::new(&folder));
    disk.map(Arc::new).map_err(|reason| Failure::Unwritable {
        path: data.to_owned(),
        reason,
    })
}

/// What keeps the store from opening, as the operator should hear it.
pub fn refusal(path: PathBuf, error: OpenError) -> anyhow::Error {
    match error {
        OpenError::Unwritable(reason) => Failure::Unwritable { path, reason }.into(),
        OpenError::Locked => Failure::Locked { path }.into(),
        OpenError::NewerFormat { found, known } => {
            Failure::NewerFormat { path, found, known }.into()
        }
        error => error.into(),
    }
}

impl RunningNode {
    /// What front ends talk to.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Writes a checkpoint and lets the data directory go.
    ///
    /// # Errors
    /// If something that was answered for may not be on the disk.
    pub async fn close(self) -> anyhow::Result<()> {
        self.node.close().await;
        anyhow::ensure!(
            !self.node.has_failed(),
            "the disk failed; the next start finds out what is on it"
        );
        Ok(())
    }
}

/// The store's settings.
pub fn store_options(config: &Config) -> powerqueue_store::Options {
    powerqueue_store::Options {
        segment_bytes: config.storage.segment_bytes.bytes(),
        min_free_bytes: config.storage.min_free_bytes.bytes(),
        sync: match config.storage.sync {
            SyncPolicy::Always => Sync::Always,
            SyncPolicy::Within(span) => Sync::Interval(span.duration()),
        },
        ..powerqueue_store::Options::default()
    }
}

fn node_options(config: &Config) -> Options {
    let limits = &config.limits;
    let bytes =
        |cap: Cap<crate::config::ByteSize>| cap.limit().map_or(u64::MAX, |size| size.bytes());
    let number = |cap: Cap<u64>| cap.limit().unwrap_or(u64::MAX);
    Options {
        shards: config.storage.shards,
        limits: Limits {
            entities: number(limits.entities),
            messages_per_queue: number(limits.messages_per_queue),
            message_bytes: bytes(limits.tenant_bytes),
            dedup_bytes: bytes(limits.dedup_bytes),
            settings_bytes: bytes(limits.settings_bytes),
            tombstones: number(limits.tombstones),
            receivers: number(limits.receivers),
            lifetime: limits.lifetime.limit().map_or(Millis::NEVER, millis),
            implicit_idle: limits
                .implicit_entity_idle
                .limit()
                .map_or(Millis::NEVER, millis),
        },
        max_tenants: number(limits.tenants),
        tenant_idle: limits.tenant_idle.limit().map_or(Millis::NEVER, millis),
        memory_bytes: config.storage.memory_bytes.bytes(),
        ..Options::default()
    }
}

/// A configured span as the engine counts it.
pub fn millis(span: Span) -> Millis {
    Millis(u64::try_from(span.duration().as_millis()).unwrap_or(u64::MAX))
}

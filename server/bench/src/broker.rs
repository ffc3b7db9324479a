//! A node on a directory of its own, and the few things clients do with it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use bytes::Bytes;
use powerqueue_engine::{
    Millis, NewMessage, Origin, QueueId, QueueSettings, Receive, Settle, Stale,
};
use powerqueue_node::{Node, Options, Room, Tenant};
use powerqueue_store::{DiskFs, Store, Sync, Trace};
use tempfile::TempDir;

/// An empty directory that goes when this is dropped.
pub(crate) struct Place(TempDir);

impl Place {
    /// Inside `parent`, or where temporary files go.
    pub(crate) fn new(parent: Option<&Path>) -> anyhow::Result<Self> {
        let parent = parent.map_or_else(std::env::temp_dir, PathBuf::from);
        std::fs::create_dir_all(&parent)?;
        let made = tempfile::Builder::new()
            .prefix("powerqueue-bench-")
            .tempdir_in(parent)?;
        Ok(Self(made))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

/// How to open a node where the defaults do not serve.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) sync: Sync,
    pub(crate) cache_bytes: usize,
    pub(crate) checkpoint_bytes: u64,
    pub(crate) trace: Option<Trace>,
}

impl Default for Setup {
    fn default() -> Self {
        let node = Options::default();
        Self {
            sync: Sync::Always,
            cache_bytes: node.cache_bytes,
            checkpoint_bytes: node.checkpoint_bytes,
            trace: None,
        }
    }
}

impl Setup {
    pub(crate) fn synced(sync: Sync) -> Self {
        Self {
            sync,
            ..Self::default()
        }
    }

    /// The store alone: finds the end of its log.
    pub(crate) fn store(&self, path: &Path) -> anyhow::Result<Store> {
        let options = powerqueue_store::Options {
            sync: self.sync,
            trace: self.trace.clone(),
            ..powerqueue_store::Options::default()
        };
        let disk = DiskFs::new(path).context("the data directory")?;
        Ok(Store::open(Arc::new(disk), options)?)
    }

    /// The node over the store: reads its log back.
    pub(crate) fn node(&self, store: Store) -> anyhow::Result<Node> {
        let options = Options {
            cache_bytes: self.cache_bytes,
            checkpoint_bytes: self.checkpoint_bytes,
            ..Options::default()
        };
        Ok(powerqueue_node::open(store, options)?)
    }

    pub(crate) fn open(&self, path: &Path) -> anyhow::Result<Node> {
        self.node(self.store(path)?)
    }
}

/// Both policies, with the names they are shown under.
pub(crate) const POLICIES: [(&str, Sync); 2] = [
    ("always", Sync::Always),
    ("interval", Sync::Interval(Duration::from_secs(1))),
];

/// A queue of a tenant's.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) tenant: Tenant,
    pub(crate) queue: QueueId,
}

/// Makes queues of one tenant, so many in a transaction that it takes no time.
pub(crate) async fn make_queues(
    node: &Node,
    tenant: &str,
    count: usize,
) -> anyhow::Result<Vec<Target>> {
    let tenant = node.tenant(tenant)?;
    let mut targets = Vec::with_capacity(count);
    for first in (0..count).step_by(100) {
        let numbers = first..count.min(first + 100);
        let made = node.run(&tenant, Room::Growth(100 * 256), |tx| {
            let make = |number| {
                let name = format!("queue-{number:06}");
                tx.create_queue(tenant.id, &name, QueueSettings::default(), Origin::Explicit)
            };
            numbers.map(make).collect::<Result<Vec<_>, _>>()
        });
        let made = made.await??;
        targets.extend(made.into_iter().map(|queue| Target { tenant, queue }));
    }
    Ok(targets)
}

/// One queue in each of several tenants, so that every shard has work.
pub(crate) async fn make_tenants(
    node: &Node,
    tenants: usize,
    queues: usize,
) -> anyhow::Result<Vec<Target>> {
    let mut targets = Vec::with_capacity(tenants * queues);
    for number in 0..tenants {
        targets.extend(make_queues(node, &format!("tenant-{number:06}"), queues).await?);
    }
    Ok(targets)
}

fn message(content: Bytes) -> NewMessage {
    NewMessage {
        charge: content.len() as u32,
        content,
        id: 7,
        group: None,
        dedup: None,
        delay: None,
        ttl: None,
        priority: 0,
    }
}

/// Sends one message and waits until it may be answered.
pub(crate) async fn send(node: &Node, target: &Target, content: &Bytes) -> anyhow::Result<()> {
    let message = message(content.clone());
    let room = Room::Growth(content.len());
    let sent = node.run(&target.tenant, room, |tx| tx.send(target.queue, message));
    sent.await??;
    Ok(())
}

/// Receives one message, body and all, and deletes it. Whether there was one.
pub(crate) async fn take(node: &Node, target: &Target) -> anyhow::Result<bool> {
    let one = Receive {
        max: 1,
        lease: None,
    };
    let got = node
        .receive(&target.tenant, target.queue, one, Millis::ZERO)
        .await?;
    for content in node.contents(&got).await {
        content?;
    }
    let Some(delivery) = got.first() else {
        return Ok(false);
    };
    let settled = node.run(&target.tenant, Room::Settlement, |tx| {
        tx.settle(delivery.claim, Settle::Complete, Stale::Refuse)
    });
    settled.await??;
    Ok(true)
}

/// Messages that a fill sends in one transaction.
const FILL: u64 = 100;
/// Fills under way at once.
const FILLERS: u64 = 8;

/// Sends `count` messages to each of the targets in turn, in transactions of a hundred.
pub(crate) async fn fill(
    node: &Node,
    targets: &[Target],
    count: u64,
    body: usize,
) -> anyhow::Result<()> {
    let content = Bytes::from(vec![b'x'; body]);
    let mut tasks = tokio::task::JoinSet::new();
    for filler in 0..FILLERS {
        let (node, content) = (node.clone(), content.clone());
        let targets = targets.to_vec();
        tasks.spawn(async move {
            let transactions = count.div_ceil(FILL);
            for number in (filler..transactions).step_by(FILLERS as usize) {
                let some = FILL.min(count - number * FILL);
                let target = targets
                    .get(number as usize % targets.len().max(1))
                    .context("nowhere to send to")?;
                let room = Room::Growth(some as usize * (body + 64));
                let sent = node.run(&target.tenant, room, |tx| {
                    (0..some)
                        .try_for_each(|_| tx.send(target.queue, message(content.clone())).map(drop))
                });
                sent.await??;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

/// Closes a node in order.
pub(crate) async fn close(node: Node) -> anyhow::Result<()> {
    node.close().await;
    anyhow::ensure!(!node.has_failed(), "the disk failed");
    Ok(())
}

//! Measurements on the real disk, not assertions: `cargo test --release -p powerqueue-store --test throughput --
//! --ignored --nocapture`. `POWERQUEUE_DATA` names the directory (a temporary one otherwise).
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says no by panicking"
)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use powerqueue_store::*;

const SHARDS: u16 = 16;
const MESSAGE: usize = 1024;

/// Publish 1 KiB, wait, acknowledge, wait: both durable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn publish_and_acknowledge() {
    for clients in [1usize, 100, 1000, 10_000] {
        let temporary = tempfile::tempdir().unwrap();
        let root = std::env::var_os("POWERQUEUE_DATA")
            .map_or(temporary.path().to_owned(), |root| {
                std::path::PathBuf::from(root).join(format!("closed-loop-{clients}"))
            });
        let (commits, written) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let trace: Trace = {
            let (commits, written) = (commits.clone(), written.clone());
            Arc::new(move |commit: CommitTrace| {
                commits.fetch_add(1, Ordering::Relaxed);
                written.fetch_add(commit.bytes, Ordering::Relaxed);
            })
        };
        let options = Options {
            trace: Some(trace),
            ..Options::default()
        };
        let store = Arc::new(Store::open(Arc::new(DiskFs::new(&root).unwrap()), options).unwrap());
        let shards: Vec<ShardId> = (0..SHARDS).map(ShardId).collect();
        let epochs = store.claim_all(&shards).unwrap();
        store.start(Box::new(|_| {}), Box::new(|_| {})).unwrap();
        let (done, op) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(1)));
        let started = Instant::now();
        let deadline = started + Duration::from_secs(5);
        let mut tasks = Vec::new();
        for client in 0..clients {
            let (store, done, op) = (store.clone(), done.clone(), op.clone());
            let (shard, epoch) = (shards[client % 16], epochs[client % 16]);
            tasks.push(tokio::spawn(async move {
                let bytes: Bytes = vec![client as u8; MESSAGE].into();
                while Instant::now() < deadline {
                    let permit = store.room(MESSAGE + 40, RoomKind::Growth).await.unwrap();
                    let body = PendingBody::new(bytes.clone());
                    let number = op.fetch_add(1, Ordering::Relaxed);
                    let mut group = Group::barrier(shard, epoch, number);
                    group.records = Bytes::from_static(&[1; 40]);
                    group.bodies.push(body.clone());
                    store.submit(group, Some(permit)).await.unwrap();
                    let mut group = Group::barrier(shard, epoch, number);
                    group.records = Bytes::from_static(&[2; 24]);
                    group.released.extend(body.written());
                    store.submit(group, None).await.unwrap();
                    done.fetch_add(1, Ordering::Relaxed);
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        let seconds = started.elapsed().as_secs_f64();
        let done = done.load(Ordering::Relaxed) as f64;
        println!(
            "{clients} clients: {:.0} messages/s published and acknowledged, {:.0} commits/s, {:.1} MB/s",
            done / seconds,
            commits.load(Ordering::Relaxed) as f64 / seconds,
            written.load(Ordering::Relaxed) as f64 / seconds / 1e6,
        );
        store.close().unwrap();
        drop(store);

        let store = Store::open(Arc::new(DiskFs::new(&root).unwrap()), Options::default()).unwrap();
        let started = Instant::now();
        let mut groups = 0u64;
        let summary = store
            .replay(&|_| Position(0), &mut |group| {
                groups += u64::from(group.op > 0)
            })
            .unwrap();
        let seconds = started.elapsed().as_secs_f64();
        println!(
            "  replay: {groups} groups, {:.0} MB in {seconds:.2} s = {:.0} MB/s, {:.2} M groups/s (warm cache)",
            summary.bytes as f64 / 1e6,
            summary.bytes as f64 / 1e6 / seconds,
            groups as f64 / 1e6 / seconds,
        );
        assert_eq!(summary.damage, []);
    }
}

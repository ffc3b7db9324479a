//! A full disk, a failing disk, a slow answer: what the caller sees.
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
use parking_lot::Mutex;
use powerqueue_store::{sim::SimFs, *};

const SHARD: ShardId = ShardId(7);

fn options() -> Options {
    Options {
        segment_bytes: 4096,
        min_free_bytes: 0,
        checkpoint_cache_bytes: 1 << 20,
        ..Options::default()
    }
}

fn group(epoch: Epoch, op: u64, len: usize) -> Group {
    Group {
        records: Bytes::from_static(b"records"),
        bodies: vec![PendingBody::new(vec![op as u8; len].into())],
        ..Group::barrier(SHARD, epoch, op)
    }
}

fn settlement(epoch: Epoch, op: u64) -> Group {
    Group {
        records: Bytes::from_static(b"settled"),
        ..Group::barrier(SHARD, epoch, op)
    }
}

fn prepared(fs: &SimFs, options: Options) -> (Store, Epoch) {
    let store = Store::open(Arc::new(fs.clone()), options).unwrap();
    let epoch = store.claim(SHARD).unwrap();
    store.prepare(Box::new(|_| {}), Box::new(|_| {})).unwrap();
    (store, epoch)
}

#[tokio::test]
async fn a_full_disk_refuses_growth_and_takes_settlements() {
    let fs = SimFs::new(1, 64 << 20);
    let (store, epoch) = prepared(&fs, options());
    assert_eq!(store.status().reserve, 2);
    fs.set_capacity(fs.used() + 1000);
    let mut op = 0;
    while !store.status().short {
        op += 1;
        let ticket = store.submit(group(epoch, op, 1000), None);
        store.step(true);
        ticket.await.unwrap();
    }
    assert_eq!(
        store.room(10, RoomKind::Growth).await.unwrap_err(),
        RoomError::Full
    );
    let permit = store.room(10, RoomKind::Settlement).await.unwrap();
    let ticket = store.submit(settlement(epoch, op + 1), Some(permit));
    store.step(true);
    ticket.await.unwrap();

    // Once even the reserve is used up, what was taken waits and is not lost.
    let mut waiting = Vec::new();
    while store.step(true) != Turn::Stalled {
        op += 2;
        waiting.push(store.submit(group(epoch, op, 1000), None));
    }
    let mut last = waiting.pop().unwrap();
    assert_eq!(last.poll_now(), None);
    fs.set_capacity(64 << 20);
    store.step(true);
    store.step(true);
    last.await.unwrap();
    assert!(!store.status().short);
    assert!(store.room(10, RoomKind::Growth).await.is_ok());
}

#[tokio::test]
async fn room_is_bounded_and_comes_back_with_the_commit() {
    let fs = SimFs::new(1, 64 << 20);
    let small = Options {
        max_in_flight_bytes: 1000,
        max_group_bytes: 800,
        ..options()
    };
    let (store, epoch) = prepared(&fs, small);
    let error = store.room(801, RoomKind::Settlement).await.unwrap_err();
    assert_eq!(error, RoomError::TooLarge);
    let permit = store.room(800, RoomKind::Growth).await.unwrap();
    let ticket = store.submit(group(epoch, 1, 700), Some(permit));
    drop(ticket);
    let wait = Duration::from_millis(20);
    assert!(
        tokio::time::timeout(wait, store.room(800, RoomKind::Growth))
            .await
            .is_err()
    );
    store.step(true);
    assert!(
        tokio::time::timeout(wait, store.room(800, RoomKind::Growth))
            .await
            .is_ok()
    );
    assert_eq!(store.status().in_flight_bytes, 0);
}

#[test]
fn a_failed_sync_ends_the_store_and_the_next_start_loses_nothing_answered() {
    let fs = SimFs::new(1, 64 << 20);
    let store = Store::open(Arc::new(fs.clone()), options()).unwrap();
    let epoch = store.claim(SHARD).unwrap();
    let failures = Arc::new(AtomicU64::new(0));
    let counted = failures.clone();
    let count = move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    };
    store.prepare(Box::new(|_| {}), Box::new(count)).unwrap();
    let answered = store.submit(group(epoch, 1, 100), None);
    store.step(true);
    answered.wait().unwrap();
    fs.fail_syncs(1);
    let unknown = store.submit(group(epoch, 2, 100), None);
    assert_eq!(store.step(true), Turn::Stopped);
    assert_eq!(unknown.wait(), Err(SubmitError::Unknown));
    assert_eq!(failures.load(Ordering::Relaxed), 1);
    assert_eq!(
        store.submit(group(epoch, 3, 100), None).wait(),
        Err(SubmitError::Unknown)
    );
    assert!(store.close().is_err());
    drop(store);

    // The page cache lies until the power goes; in between the new process must have made its word good.
    fs.kill();
    let (store, epoch) = prepared(&fs, options());
    assert!(!store.was_clean());
    let answered = store.submit(group(epoch, 4, 100), None);
    store.step(true);
    answered.wait().unwrap();
    drop(store);
    fs.power_cycle();
    let store = Store::open(Arc::new(fs), options()).unwrap();
    let mut ops = Vec::new();
    let summary = store
        .replay(&|_| Position(0), &mut |group| ops.push(group.op))
        .unwrap();
    assert_eq!(summary.damage, []);
    assert!(ops == [1, 4] || ops == [1, 2, 4], "{ops:?}");
}

#[test]
fn a_lazy_group_is_durable_within_its_time_and_waits_for_nobody() {
    let fs = SimFs::new(1, 64 << 20);
    let store = Store::open(
        Arc::new(fs),
        Options {
            lazy_sync: Duration::from_millis(50),
            ..options()
        },
    )
    .unwrap();
    let epoch = store.claim(SHARD).unwrap();
    store.start(Box::new(|_| {}), Box::new(|_| {})).unwrap();
    let mut lazy = settlement(epoch, 1);
    lazy.class = Class::Lazy;
    let started = Instant::now();
    store.submit(lazy, None).wait().unwrap();
    assert!(started.elapsed() >= Duration::from_millis(40));
    store
        .submit(Group::barrier(SHARD, epoch, 2), None)
        .wait()
        .unwrap();
    store.close().unwrap();
}

#[test]
fn with_an_interval_answers_do_not_wait_for_the_sync() {
    let fs = SimFs::new(1, 64 << 20);
    let lax = Options {
        sync: Sync::Interval(Duration::from_secs(3600)),
        ..options()
    };
    let (store, epoch) = prepared(&fs, lax);
    let ticket = store.submit(group(epoch, 1, 100), None);
    assert!(matches!(store.step(true), Turn::Wrote(Some(_))));
    let position = ticket.wait().unwrap();
    assert!(store.status().synced < position);
    // A checkpoint is evidence about the log, so it makes the log durable first.
    store.checkpoint(SHARD, &[], position).unwrap();
    assert_eq!(store.status().synced, position);
}

#[test]
fn a_segment_goes_when_its_bodies_and_every_checkpoint_have_passed_it_and_readers_keep_theirs() {
    let fs = SimFs::new(1, 64 << 20);
    let (store, epoch) = prepared(&fs, options());
    let other = ShardId(8);
    store.claim(other).unwrap();
    let bodies: Vec<PendingBody> = (0..20)
        .map(|n| PendingBody::new(vec![n; 1000].into()))
        .collect();
    for (op, body) in bodies.iter().enumerate() {
        let mut send = settlement(epoch, op as u64 + 1);
        send.bodies.push(body.clone());
        let ticket = store.submit(send, None);
        store.step(true);
        ticket.wait().unwrap();
    }
    let before = store.status().segments;
    assert!(before > 5);
    let mut settle = settlement(epoch, 100);
    settle.released = bodies[1..]
        .iter()
        .map(|body| body.written().unwrap())
        .collect();
    let ticket = store.submit(settle, None);
    store.step(true);
    let end = ticket.wait().unwrap();
    assert_eq!(store.trim(), 0);
    store.checkpoint(SHARD, &[], end).unwrap();
    assert_eq!(
        store.status().segments,
        before,
        "the other shard's checkpoint is missing"
    );
    store
        .checkpoint(other, &[(b"key".to_vec(), Some(b"value".to_vec()))], end)
        .unwrap();
    // The first still has a live body, the last is being written to.
    assert_eq!(store.status().segments, 2);
    let kept = store
        .read(&[bodies[0].written().unwrap()])
        .remove(0)
        .unwrap();
    assert_eq!(kept, *bodies[0].bytes());
    let gone = store.read(&[bodies[5].written().unwrap()]).remove(0);
    assert!(matches!(gone, Err(ReadError::Gone(_))));
    assert_eq!(store.reclaim_candidates(50).len(), 1);
    let rows = store.scan(other, b"k", None, 10).unwrap();
    assert_eq!(
        rows,
        [(Bytes::from_static(b"key"), Bytes::from_static(b"value"))]
    );
    assert!(
        store
            .scan(other, b"k", Some(b"key"), 10)
            .unwrap()
            .is_empty()
    );
    assert!(matches!(
        store.checkpoint(other, &[], Position(8)),
        Err(CheckpointError::OutOfOrder { .. })
    ));
}

#[test]
fn many_threads_get_their_answers_in_order_and_after_the_node_was_told() {
    hurry(Sync::Always);
}

/// Here who waits writes, and the committer beside them syncs.
#[test]
fn many_threads_that_write_for_each_other_forget_nobody() {
    for _ in 0..20 {
        hurry(Sync::Interval(Duration::from_millis(1)));
    }
}

fn hurry(sync: Sync) {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(
        Arc::new(DiskFs::new(directory.path()).unwrap()),
        Options {
            segment_bytes: 64 << 10,
            min_free_bytes: 0,
            sync,
            ..Options::default()
        },
    )
    .unwrap();
    let shards: Vec<ShardId> = (0..4).map(ShardId).collect();
    let epochs = store.claim_all(&shards).unwrap();
    let told: Arc<[Mutex<u64>; 4]> = Arc::default();
    let tell = told.clone();
    let on_committed = move |groups: &[Committed]| {
        for group in groups {
            let mut last = tell[usize::from(group.shard.0)].lock();
            assert_eq!(group.op, *last + 1);
            *last = group.op;
        }
    };
    store
        .start(Box::new(on_committed), Box::new(|_| {}))
        .unwrap();
    std::thread::scope(|scope| {
        for (shard, epoch) in shards.iter().zip(&epochs) {
            let (store, told) = (&store, &told);
            scope.spawn(move || {
                for op in 1..=300 {
                    let mut send = group(*epoch, op, 500);
                    send.shard = *shard;
                    let body = send.bodies[0].clone();
                    let ticket = store.submit(send, None);
                    if op % 3 == 0 {
                        ticket.wait().unwrap();
                        assert!(*told[usize::from(shard.0)].lock() >= op);
                        let read = store.read(&[body.written().unwrap()]).remove(0).unwrap();
                        assert_eq!(read, *body.bytes());
                    }
                }
            });
        }
    });
    store.close().unwrap();
    let status = store.status();
    assert_eq!((status.written, status.waiting), (status.synced, 0));
    assert!(told.iter().all(|last| *last.lock() == 300));
}

#[test]
fn node_local_things_survive() {
    let fs = SimFs::new(1, 64 << 20);
    let (store, _) = prepared(&fs, options());
    store.put_local("secret", Some(b"hush")).unwrap();
    store.put_local("ban", Some(b"someone")).unwrap();
    store.put_local("ban", None).unwrap();
    drop(store);
    fs.power_cycle();
    let (store, _) = prepared(&fs, options());
    assert_eq!(store.get_local("secret").unwrap().unwrap(), "hush");
    assert_eq!(store.get_local("ban").unwrap(), None);
}

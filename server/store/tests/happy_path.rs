//! The ordinary life of a store over the simulated and the real disk.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says no by panicking"
)]

use std::sync::Arc;

use bytes::Bytes;
use powerqueue_store::{sim::SimFs, *};

const SHARD: ShardId = ShardId(3);

fn small() -> Options {
    Options {
        segment_bytes: 4096,
        min_free_bytes: 0,
        checkpoint_cache_bytes: 1 << 20,
        ..Options::default()
    }
}

fn group(epoch: Epoch, op: u64, records: &str, bodies: Vec<PendingBody>) -> Group {
    Group {
        records: Bytes::copy_from_slice(records.as_bytes()),
        bodies,
        high_water: op,
        ..Group::barrier(SHARD, epoch, op)
    }
}

/// An op and its bodies.
type Seen = (u64, Vec<Option<BodyRef>>);

fn replayed(store: &Store) -> (Vec<Seen>, ReplaySummary) {
    let mut groups = Vec::new();
    let after = |shard| store.applied(shard);
    let summary = store
        .replay(&after, &mut |group| {
            groups.push((group.op, group.bodies.to_vec()))
        })
        .unwrap();
    (groups, summary)
}

fn life(fs: Arc<dyn Fs>) {
    let store = Store::open(fs.clone(), small()).unwrap();
    assert!(store.was_clean());
    assert!(matches!(
        Store::open(fs.clone(), small()),
        Err(OpenError::Locked)
    ));
    let epoch = store.claim(SHARD).unwrap();
    store.start(Box::new(|_| {}), Box::new(|_| {})).unwrap();
    let mut tickets = Vec::new();
    for op in 1..=100 {
        let body = PendingBody::new(vec![op as u8; 100].into());
        tickets.push(store.submit(group(epoch, op, "send", vec![body]), None));
    }
    for ticket in tickets {
        ticket.wait().unwrap();
    }
    store.close().unwrap();
    drop(store);

    let store = Store::open(fs.clone(), small()).unwrap();
    assert!(store.was_clean());
    assert!(store.claim(SHARD).unwrap() > epoch);
    let (groups, summary) = replayed(&store);
    assert_eq!(summary.damage, []);
    assert_eq!(summary.high_water, 100);
    assert!(groups.iter().map(|(op, _)| *op).eq(1..=100));
    for (op, bodies) in &groups {
        let at = bodies[0].unwrap();
        let body = store.read(&[at]).remove(0).unwrap();
        assert_eq!(body, vec![*op as u8; 100]);
        // Whether it is in memory is the system's matter; what it then says is not.
        assert!(store.read_cached(at).is_none_or(|cached| cached == body));
        let elsewhere = BodyRef {
            position: Position(at.position.0 + 1),
            ..at
        };
        assert_eq!(store.read_cached(elsewhere), None);
    }
    drop(store);
    assert!(!Store::open(fs, small()).unwrap().was_clean());
}

#[test]
fn what_was_answered_is_there_after_a_restart() {
    life(Arc::new(SimFs::new(1, 64 << 20)));
}

#[test]
fn the_real_disk_behaves_the_same() {
    let directory = tempfile::tempdir().unwrap();
    life(Arc::new(
        DiskFs::new(directory.path().join("data")).unwrap(),
    ));
}

#[test]
fn a_body_whose_killer_is_in_the_same_cut_is_left_out() {
    let fs = Arc::new(SimFs::new(1, 64 << 20));
    let store = Store::open(fs.clone(), small()).unwrap();
    let epoch = store.claim(SHARD).unwrap();
    store.prepare(Box::new(|_| {}), Box::new(|_| {})).unwrap();
    let body = PendingBody::new(Bytes::from_static(b"short lived"));
    let mut send = store.submit(group(epoch, 1, "send", vec![body.clone()]), None);
    let mut settle = group(epoch, 2, "settle", vec![]);
    settle.dead.push(body.clone());
    let settle = store.submit(settle, None);
    assert_eq!(send.poll_now(), None);
    store.step(true);
    assert!(send.poll_now().unwrap().is_ok() && settle.wait().is_ok());
    assert_eq!(body.written(), None);
    let (groups, _) = replayed(&store);
    assert_eq!(groups, [(1, vec![None]), (2, vec![])]);
}

#[test]
fn settling_what_was_never_written_writes_nothing() {
    let fs = Arc::new(SimFs::new(1, 64 << 20));
    let store = Store::open(fs.clone(), small()).unwrap();
    let epoch = store.claim(SHARD).unwrap();
    store.prepare(Box::new(|_| {}), Box::new(|_| {})).unwrap();
    let body = PendingBody::new(Bytes::from_static(b"short lived"));
    let send = store.submit(group(epoch, 1, "send", vec![body.clone()]), None);
    let mut settle = group(epoch, 2, "settle", vec![]);
    settle.dead.push(body.clone());
    settle.settles_only = true;
    assert!(
        store.submit(settle, None).wait().is_ok(),
        "resolves at once"
    );
    store.step(true);
    send.wait().unwrap();
    let (groups, _) = replayed(&store);
    assert_eq!(groups, [(1, vec![None])]);
}

#[test]
fn an_earlier_claim_is_fenced_wherever_its_groups_are() {
    let fs = Arc::new(SimFs::new(1, 64 << 20));
    let store = Store::open(fs.clone(), small()).unwrap();
    let old = store.claim(SHARD).unwrap();
    let queued = store.submit(group(old, 1, "queued", vec![]), None);
    let new = store.claim(SHARD).unwrap();
    let late = store.submit(group(old, 2, "late", vec![]), None);
    let fresh = store.submit(group(new, 1, "fresh", vec![]), None);
    store.step(true);
    assert_eq!(queued.wait(), Err(SubmitError::Fenced));
    assert_eq!(late.wait(), Err(SubmitError::Fenced));
    assert!(fresh.wait().is_ok());
}

//! What cannot be read is named, stops only whom it concerns, and is cut out only by choice.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says no by panicking"
)]

use std::sync::Arc;

use bytes::Bytes;
use powerqueue_store::{sim::SimFs, *};

const A: ShardId = ShardId(1);
const B: ShardId = ShardId(2);

fn options() -> Options {
    Options {
        segment_bytes: 2048,
        min_free_bytes: 0,
        checkpoint_cache_bytes: 1 << 20,
        ..Options::default()
    }
}

fn open(fs: &SimFs) -> Store {
    Store::open(Arc::new(fs.clone()), options()).unwrap()
}

fn fixed(fs: &SimFs, accept: bool) -> RepairReport {
    repair(Arc::new(fs.clone()), options(), accept).unwrap()
}

/// Twenty groups of each shard, one commit each, in several segments.
fn filled(fs: &SimFs) -> Vec<(ShardId, u64, Position)> {
    let store = open(fs);
    let epochs = store.claim_all(&[A, B]).unwrap();
    store.prepare(Box::new(|_| {}), Box::new(|_| {})).unwrap();
    let mut groups = Vec::new();
    for op in 1..=20 {
        for (shard, epoch) in [A, B].into_iter().zip(&epochs) {
            let mut group = Group::barrier(shard, *epoch, op);
            group.records = Bytes::from_static(b"records");
            group
                .bodies
                .push(PendingBody::new(vec![op as u8; 100].into()));
            let ticket = store.submit(group, None);
            store.step(true);
            groups.push((shard, op, ticket.wait().unwrap()));
        }
    }
    store.close().unwrap();
    groups
}

fn replayed(store: &Store, shard: ShardId) -> (Vec<u64>, ReplaySummary) {
    let mut ops = Vec::new();
    let after = |shard| store.applied(shard);
    let summary = store.replay(&after, &mut |group| {
        if group.shard == shard {
            ops.push(group.op);
        }
    });
    (ops, summary.unwrap())
}

/// Flips a bit `back` bytes before the end of a group's commit.
fn damage(fs: &SimFs, end: Position, back: u64) {
    let at = end.0 - back;
    let names = fs.list().unwrap();
    let bases = names.iter().filter_map(|name| {
        let base = u64::from_str_radix(name.strip_suffix(".seg")?, 16).ok()?;
        (base <= at).then_some((base, name))
    });
    let (base, name) = bases.max().unwrap();
    assert!(fs.flip(name, 64 + at - base, 0));
}

#[test]
fn a_damaged_group_stops_its_shard_and_no_other() {
    let fs = SimFs::new(1, 64 << 20);
    let groups = filled(&fs);
    let (_, op, end) = groups[10];
    // A frame here is 64 + 32 + 4 + 7 + 8 + 100 bytes, padded by one: this is in the records.
    damage(&fs, end, 112);
    let store = open(&fs);
    let epochs = store.claim_all(&[A, B]).unwrap();
    let (ops, summary) = replayed(&store, A);
    assert!(ops.iter().copied().eq(1..op));
    assert!(replayed(&store, B).0.into_iter().eq(1..=20));
    assert_eq!(summary.damage.len(), 1);
    assert_eq!((summary.damage[0].shard, summary.damage[0].to), (A, end));
    store.prepare(Box::new(|_| {}), Box::new(|_| {})).unwrap();
    let stopped = store.submit(Group::barrier(A, epochs[0], 100), None);
    let other = store.submit(Group::barrier(B, epochs[1], 100), None);
    store.step(true);
    assert_eq!(stopped.wait(), Err(SubmitError::Unknown));
    assert!(other.wait().is_ok());
    assert!(matches!(
        store.checkpoint(A, &[], end),
        Err(CheckpointError::Stopped(A))
    ));
    drop(store);

    let report = fixed(&fs, false);
    assert_eq!(report.damage, summary.damage);
    assert!(!report.accepted);
    assert!(fixed(&fs, true).accepted);
    assert_eq!(fixed(&fs, false).damage, []);
    let store = open(&fs);
    let (ops, summary) = replayed(&store, A);
    assert_eq!(summary.damage, []);
    assert!(ops.into_iter().eq((1..=20).filter(|other| *other != op)));
}

#[test]
fn a_damaged_header_stops_every_shard_that_needs_it() {
    let fs = SimFs::new(1, 64 << 20);
    let groups = filled(&fs);
    let (_, op, end) = groups[10];
    damage(&fs, end, 210);
    let store = open(&fs);
    let (ops, summary) = replayed(&store, A);
    assert!(ops.into_iter().eq(1..op));
    let stopped: Vec<_> = summary.damage.iter().map(|damage| damage.shard).collect();
    assert_eq!(stopped, [A, B]);
    drop(store);
    fixed(&fs, true);
    let store = open(&fs);
    let (ops, summary) = replayed(&store, A);
    assert_eq!(summary.damage, []);
    assert!(ops.into_iter().eq((1..=20).filter(|other| *other != op)));
}

#[test]
fn a_block_that_the_disk_cannot_read_is_damage_and_not_the_end() {
    let fs = SimFs::new(1, 64 << 20);
    filled(&fs);
    // The first segment holds the first eight commits of 216 bytes; its only whole block is broken.
    assert!(fs.break_reads("0000000000000000.seg", 700..800));
    let store = open(&fs);
    let (ops, summary) = replayed(&store, A);
    assert!(ops.is_empty());
    assert_eq!(summary.damage.len(), 2, "{:?}", summary.damage);
    drop(store);
    assert!(fs.break_reads("0000000000000000.seg", 0..64));
    assert_eq!(replayed(&open(&fs), A).1.damage.len(), 2);
}

#[test]
fn a_damaged_body_is_reported_and_stops_nobody() {
    let fs = SimFs::new(1, 64 << 20);
    let groups = filled(&fs);
    damage(&fs, groups[10].2, 50);
    let report = fixed(&fs, false);
    assert_eq!((report.damage.len(), report.unreadable_bodies), (0, 1));
    let store = open(&fs);
    assert!(matches!(
        store.read(&report.bodies)[..],
        [Err(ReadError::Corrupt(_))]
    ));
}

#[test]
fn a_lost_segment_header_is_rebuilt_from_the_frames() {
    let fs = SimFs::new(1, 64 << 20);
    filled(&fs);
    for name in fs.list().unwrap().iter().filter(|n| n.ends_with(".seg")) {
        assert!(fs.flip(name, 20, 3));
    }
    let store = open(&fs);
    assert!(replayed(&store, A).0.into_iter().eq(1..=20));
}

#[test]
fn without_its_checkpoint_file_the_log_still_serves() {
    let fs = SimFs::new(1, 64 << 20);
    filled(&fs);
    for byte in 0..64 {
        fs.flip("checkpoint.redb", byte, 1);
    }
    let opened = Store::open(Arc::new(fs.clone()), options());
    assert!(matches!(opened, Err(OpenError::Corrupt { .. })));
    let report = fixed(&fs, false);
    assert!(report.file.is_some() && !report.accepted);
    assert!(fixed(&fs, true).accepted);
    let store = open(&fs);
    assert!(!store.was_clean());
    assert!(store.claim(A).unwrap() > Epoch(1));
    assert!(replayed(&store, A).0.into_iter().eq(1..=20));
}

#[test]
fn a_newer_format_is_refused() {
    let fs = SimFs::new(1, 64 << 20);
    filled(&fs);
    let format = Fs::open(&fs, "FORMAT").unwrap();
    format.write_at(0, b"powerqueue store, format 2\n").unwrap();
    let opened = Store::open(Arc::new(fs), options());
    assert!(matches!(
        opened,
        Err(OpenError::NewerFormat { found: 2, .. })
    ));
}

//! A backup taken at any moment opens, and holds an unbroken log from its checkpoint to its end.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says no by panicking"
)]

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use bytes::Bytes;
use powerqueue_store::*;

const SHARD: ShardId = ShardId(0);

fn options() -> Options {
    Options {
        segment_bytes: 4096,
        min_free_bytes: 0,
        checkpoint_cache_bytes: 1 << 20,
        ..Options::default()
    }
}

/// The number of the last group in a store's copy: in its checkpoint, then one after another in its log.
fn last_of(backup: &Backup) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    for file in &backup.files {
        let mut bytes = vec![0; file.len() as usize];
        file.read_at(0, &mut bytes).unwrap();
        std::fs::write(folder.path().join(&file.name), bytes).unwrap();
    }
    let store = Store::open(Arc::new(DiskFs::new(folder.path()).unwrap()), options()).unwrap();
    assert!(!store.was_clean());
    assert_eq!(store.get_local("kept").unwrap().unwrap(), "yes");
    assert_eq!(store.get_local("secret").unwrap(), None);
    store.claim_all(&[SHARD]).unwrap();
    let known = store.get(SHARD, b"last").unwrap();
    let mut last = known.map_or(0, |bytes| u64::from_be_bytes(bytes[..].try_into().unwrap()));
    let summary = store.replay(&|shard| store.applied(shard), &mut |group| {
        assert_eq!(group.op, last + 1, "a gap after the checkpoint");
        last = group.op;
    });
    assert!(summary.unwrap().damage.is_empty());
    last
}

#[test]
fn backups_during_commits_checkpoints_and_trimming_have_no_gap() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(Arc::new(DiskFs::new(folder.path()).unwrap()), options()).unwrap();
    let epoch = store.claim_all(&[SHARD]).unwrap()[0];
    store.put_local("secret", Some(b"s")).unwrap();
    store.put_local("kept", Some(b"yes")).unwrap();
    store.start(Box::new(|_| {}), Box::new(|_| {})).unwrap();
    let (durable, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut op = 0;
            while !stop.load(Ordering::Relaxed) {
                op += 1;
                let mut group = Group::barrier(SHARD, epoch, op);
                group.records = Bytes::from(vec![7; 200]);
                let at = store.submit(group, None).wait().unwrap();
                durable.store(op, Ordering::Release);
                if op.is_multiple_of(7) {
                    let batch = [(b"last".to_vec(), Some(op.to_be_bytes().to_vec()))];
                    store.checkpoint(SHARD, &batch, at).unwrap();
                }
            }
        });
        for _ in 0..40 {
            let before = durable.load(Ordering::Acquire);
            let backup = store.backup(&["secret"]).unwrap();
            assert!(last_of(&backup) >= before);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(durable.load(Ordering::Relaxed) > 40);
    let names = std::fs::read_dir(folder.path()).unwrap();
    assert!(
        !names
            .map(|n| n.unwrap().file_name())
            .any(|name| name == "backup.tmp")
    );
}

//! Two syncs of the log that meet: one that runs beside the writers, and one that a checkpoint needs.
#![allow(clippy::unwrap_used, reason = "a test says no by panicking")]

use std::{
    any::Any,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::Mutex;
use powerqueue_store::{sim::SimFs, *};

const SHARD: ShardId = ShardId(7);

/// A disk whose next sync of a file says that it began, and fails once it is told to; syncs after that succeed, as
/// the system's do.
#[derive(Debug)]
struct Disk {
    fs: SimFs,
    gate: Arc<Gate>,
}

#[derive(Debug)]
struct Gate {
    armed: AtomicBool,
    began: Sender<()>,
    fail: Mutex<Receiver<()>>,
}

#[derive(Debug)]
struct Guarded(Arc<dyn File>, Arc<Gate>);

impl Disk {
    fn guarded(&self, file: io::Result<Arc<dyn File>>) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(Guarded(file?, Arc::clone(&self.gate))))
    }
}

impl Fs for Disk {
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.guarded(self.fs.open(name))
    }
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.guarded(self.fs.create(name))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.fs.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.fs.remove(name)
    }
    fn list(&self) -> io::Result<Vec<String>> {
        self.fs.list()
    }
    fn sync_dir(&self) -> io::Result<()> {
        self.fs.sync_dir()
    }
    fn lock(&self) -> io::Result<Option<Box<dyn Any + Send + std::marker::Sync>>> {
        self.fs.lock()
    }
    fn free_space(&self) -> io::Result<u64> {
        self.fs.free_space()
    }
    fn random(&self) -> io::Result<u64> {
        self.fs.random()
    }
}

impl File for Guarded {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, into)
    }
    fn read_cached_at(&self, offset: u64, into: &mut [u8]) -> io::Result<bool> {
        self.0.read_cached_at(offset, into)
    }
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_at(offset, bytes)
    }
    fn sync_data(&self) -> io::Result<()> {
        if self.1.armed.swap(false, Ordering::SeqCst) {
            self.1.began.send(()).unwrap();
            self.1
                .fail
                .lock()
                .recv_timeout(Duration::from_secs(10))
                .unwrap();
            return Err(io::Error::other("a bad sector"));
        }
        self.0.sync_data()
    }
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
    fn allocate(&self, len: u64) -> io::Result<()> {
        self.0.allocate(len)
    }
}

#[test]
fn a_checkpoint_does_not_trust_a_sync_after_one_that_failed_beside_it() {
    let (began, begins) = channel();
    let (fail, fails) = channel();
    let gate = Arc::new(Gate {
        armed: AtomicBool::new(false),
        began,
        fail: Mutex::new(fails),
    });
    let disk = Disk {
        fs: SimFs::new(1, 64 << 20),
        gate: Arc::clone(&gate),
    };
    let options = Options {
        segment_bytes: 64 << 10,
        min_free_bytes: 0,
        checkpoint_cache_bytes: 1 << 20,
        sync: Sync::Interval(Duration::from_secs(3600)),
        sync_ahead_bytes: 1,
        ..Options::default()
    };
    let store = Store::open(Arc::new(disk), options).unwrap();
    let epoch = store.claim(SHARD).unwrap();
    store.prepare(Box::new(|_| {}), Box::new(|_| {})).unwrap();
    let group = Group {
        records: Bytes::from_static(b"records"),
        bodies: vec![PendingBody::new(Bytes::from_static(b"body"))],
        ..Group::barrier(SHARD, epoch, 1)
    };
    let written = store.submit(group, None).wait().unwrap();
    gate.armed.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| store.step(false));
        begins.recv_timeout(Duration::from_secs(10)).unwrap();
        let checkpoint = scope.spawn(|| store.checkpoint(SHARD, &[], written));
        // A checkpoint that does not wait for the sync beside it gets the time to go wrong.
        let end = Instant::now() + Duration::from_millis(200);
        while !checkpoint.is_finished() && Instant::now() < end {
            std::thread::yield_now();
        }
        fail.send(()).unwrap();
        assert_eq!(beside.join().unwrap(), Turn::Stopped);
        assert!(matches!(
            checkpoint.join().unwrap(),
            Err(CheckpointError::NotRunning)
        ));
    });
    assert!(!store.status().running);
    assert_eq!(store.applied(SHARD), Position(0));
}

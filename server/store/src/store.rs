//! The store: one directory, one log, one committer.

use std::{
    any::Any,
    io,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Instant,
};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::{
    checkpoint::{CheckpointError, Checkpoints},
    committer::{RETRY, SUSPECT, StoreFailure, Turn, Writer, failed},
    frame::{self, BODY_PREFIX},
    fs::{File, Fs},
    group::{BodyRef, Committed, Epoch, Group, Position, ShardId},
    options::{Mutation, Options},
    queue::{Phase, Queue},
    recover::{self, OpenError},
    replay::{ReplayError, ReplaySummary, Replayed},
    room::{Permit, Room, RoomError, RoomKind},
    segment::{SEGMENT_HEADER, segment_name},
    segments::{Candidate, Segments},
    ticket::Ticket,
};

/// The durable half of a node.
///
/// The order of calls: [`open`](Self::open), [`claim`](Self::claim) every shard, [`replay`](Self::replay),
/// [`retain`](Self::retain) every live body, [`start`](Self::start), serve, [`close`](Self::close).
///
/// Locks: `submit`, `read`, `room` and `status` may be called under a shard's lock. `claim`, `replay`, `checkpoint`,
/// `put_local`, `trim`, `step` and `close` wait for the disk, and for a commit that is calling `on_committed`, which
/// whoever looks at a [`Ticket`] may have to do: no call of these, and no look at a ticket, with a lock that the
/// callback takes, nor from the callbacks themselves.
pub struct Store {
    shared: Arc<Shared>,
    committer: Mutex<Option<JoinHandle<()>>>,
    _lock: Box<dyn Any + Send + Sync>,
}

/// What the caller's thread and the committer share.
pub(crate) struct Shared {
    pub(crate) fs: Arc<dyn Fs>,
    pub(crate) options: Options,
    pub(crate) queue: Queue,
    pub(crate) room: Room,
    pub(crate) segments: Segments,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) writer: Mutex<Writer>,
    /// Whoever has the writer will look at the queue once more before going.
    pub(crate) led: AtomicBool,
    /// Held during a sync of the log; what the first that failed came to. Taken after the writer.
    pub(crate) sync_failure: Mutex<Option<StoreFailure>>,
    pub(crate) callbacks: OnceLock<Callbacks>,
    /// Ranges whose loss is accepted.
    pub(crate) accepted: Mutex<Vec<(u64, u64)>>,
    /// Whether every live body has been counted: nothing is deleted before.
    accounted: AtomicBool,
    clean: bool,
    pub(crate) gauges: Gauges,
}

/// What the writer shows without its lock.
#[derive(Default)]
pub(crate) struct Gauges {
    pub(crate) written: AtomicU64,
    pub(crate) reserve: AtomicU32,
}

/// Whom the committer tells.
pub(crate) struct Callbacks {
    pub(crate) on_committed: OnCommitted,
    pub(crate) on_failure: OnFailure,
}

/// Told of each commit, with its groups in submission order, before their tickets resolve.
pub type OnCommitted = Box<dyn Fn(&[Committed]) + Send + Sync>;
/// Told once that the store has failed; the process should exit non-zero.
pub type OnFailure = Box<dyn Fn(StoreFailure) + Send + Sync>;

/// Why a shard could not be claimed.
pub type ClaimError = CheckpointError;

/// Why a body cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// No segment has it: it was released and its segment deleted.
    #[error("the body at {0:?} is not in the log any more")]
    Gone(Position),
    /// What is there is not what was written.
    #[error("the body at {0:?} is damaged")]
    Corrupt(Position),
    /// The disk could not be read.
    #[error("the body at {0:?} cannot be read: {1}")]
    Io(Position, String),
}

/// The store in numbers.
#[derive(Clone, Debug)]
pub struct Status {
    /// Whether groups are taken.
    pub running: bool,
    /// Whether growth is refused for lack of disk.
    pub short: bool,
    /// Preallocated segments in reserve.
    pub reserve: u32,
    /// Segment files.
    pub segments: usize,
    /// Bytes they occupy.
    pub bytes: u64,
    /// Bytes of bodies that something refers to.
    pub live_bytes: u64,
    /// Number of those bodies.
    pub live_bodies: u64,
    /// Bytes free on the file system.
    pub free_bytes: u64,
    /// The end of what is written.
    pub written: Position,
    /// The end of what is on the disk.
    pub synced: Position,
    /// Groups that wait for the committer.
    pub waiting: usize,
    /// Bytes of permits held.
    pub in_flight_bytes: usize,
}

impl Store {
    /// Takes the directory and finds the end of its log. An empty directory becomes a store of format 1.
    pub fn open(fs: Arc<dyn Fs>, options: Options) -> Result<Self, OpenError> {
        let opened = recover::open(&fs, &options)?;
        let shared = Shared {
            queue: Queue::new(opened.writer.synced, opened.writer.high_water),
            room: Room::new(options.max_in_flight_bytes, options.max_group_bytes),
            fs,
            options,
            segments: opened.segments,
            checkpoints: opened.checkpoints,
            writer: Mutex::new(opened.writer),
            led: AtomicBool::new(false),
            sync_failure: Mutex::new(None),
            callbacks: OnceLock::new(),
            accepted: Mutex::new(opened.accepted),
            accounted: AtomicBool::new(false),
            clean: opened.clean,
            gauges: Gauges::default(),
        };
        shared.show(&shared.writer.lock());
        Ok(Self {
            shared: Arc::new(shared),
            committer: Mutex::new(None),
            _lock: opened.lock,
        })
    }

    /// Whether the last shutdown was clean (or the store is new): if not, sequences continue far above the high water.
    pub fn was_clean(&self) -> bool {
        self.shared.clean
    }

    /// Becomes the shard's only writer. Groups of earlier claims that are not yet cut resolve `Fenced`; those that are
    /// will be in a replay that begins after this returns.
    pub fn claim(&self, shard: ShardId) -> Result<Epoch, ClaimError> {
        let epochs = self.claim_all(&[shard])?;
        epochs.first().copied().ok_or(CheckpointError::NotRunning)
    }

    /// Claims several shards with one durable commit.
    pub fn claim_all(&self, shards: &[ShardId]) -> Result<Vec<Epoch>, ClaimError> {
        let mut writer = self.shared.writer.lock();
        if self.shared.queue.phase() != Phase::Open {
            return Err(CheckpointError::NotRunning);
        }
        if writer.stalled.is_some() {
            // A cut batch that waits for space may hold groups of the earlier claim.
            return Err(CheckpointError::Full);
        }
        let outcome = self.shared.checkpoints.claim(shards, writer.synced);
        let epochs = self.shared.checked(&mut writer, outcome)?;
        for (shard, epoch) in shards.iter().zip(&epochs) {
            self.shared.queue.set_claim(*shard, *epoch);
        }
        Ok(epochs)
    }

    /// Hands out every group of each shard after `after(shard)`, in order. A shard that the summary names as damaged
    /// is stopped.
    pub fn replay(
        &self,
        after: &dyn Fn(ShardId) -> Position,
        each: &mut dyn FnMut(Replayed<'_>),
    ) -> Result<ReplaySummary, ReplayError> {
        self.shared.replay(after, each)
    }

    /// Counts bodies as live. Between replay and [`start`](Self::start) the node names every body that an entry refers
    /// to, once; afterwards commits count by themselves.
    pub fn retain(&self, bodies: &[BodyRef]) {
        self.shared.segments.retain(bodies.iter().copied());
    }

    /// Sets up everything but the thread: for simulations, which call [`step`](Self::step) themselves. May be called
    /// once; a second call is ignored.
    pub fn prepare(
        &self,
        on_committed: OnCommitted,
        on_failure: OnFailure,
    ) -> Result<(), StoreFailure> {
        let callbacks = Callbacks {
            on_committed,
            on_failure,
        };
        // A second call has nothing to set up.
        let _ = self.shared.callbacks.set(callbacks);
        self.shared.accounted.store(true, Ordering::Release);
        let mut writer = self.shared.writer.lock();
        let filled = self.shared.refill(&mut writer);
        if let Err(failure) = &filled {
            self.shared.fail(&mut writer, failure.clone());
        }
        self.shared.show(&writer);
        filled
    }

    /// Starts the committer's thread.
    pub fn start(
        &self,
        on_committed: OnCommitted,
        on_failure: OnFailure,
    ) -> Result<(), StoreFailure> {
        self.prepare(on_committed, on_failure)?;
        let shared = self.shared.clone();
        let thread = thread::Builder::new()
            .name("committer".to_owned())
            .spawn(move || shared.run())
            .map_err(failed("starting the committer"))?;
        *self.committer.lock() = Some(thread);
        Ok(())
    }

    /// Does one turn of the committer on this thread. With `flush`, a turn that finds nothing waiting syncs what lies
    /// unsynced, due or not.
    pub fn step(&self, flush: bool) -> Turn {
        self.shared.turn(flush)
    }

    /// Waits for room for a group of `bytes` (records and bodies).
    pub async fn room(&self, bytes: usize, kind: RoomKind) -> Result<Permit, RoomError> {
        self.shared.room.room(bytes, kind).await
    }

    /// Queues a group. Never blocks on the disk; callable under the shard's lock; groups become durable in the order
    /// of submission. The ticket of a durable group wants to be waited for, or dropped: see `lead.rs`.
    pub fn submit(&self, group: Group, permit: Option<Permit>) -> Ticket {
        let leader = self.shared.leader(group.class);
        self.shared.queue.submit(group, permit, leader)
    }

    /// Reads bodies from the disk, each checked against what was written.
    pub fn read(&self, bodies: &[BodyRef]) -> Vec<Result<Bytes, ReadError>> {
        bodies.iter().map(|at| self.shared.read(*at)).collect()
    }

    /// A body, if reading it takes no waiting for the disk.
    pub fn read_cached(&self, body: BodyRef) -> Option<Bytes> {
        self.shared.read_cached(body).ok().flatten()
    }

    /// Writes a shard's batch of keys (`None` removes) and its position, both or neither; then deletes what nothing
    /// needs. `applied` is the position of a committed group of the shard, or [`Status::synced`] when the shard has
    /// nothing in flight. Blocks on the disk.
    pub fn checkpoint(
        &self,
        shard: ShardId,
        batch: &[(Vec<u8>, Option<Vec<u8>>)],
        applied: Position,
    ) -> Result<(), CheckpointError> {
        self.shared.checkpoint(shard, batch, applied)?;
        self.trim();
        Ok(())
    }

    /// The position of the shard's checkpoint; 0 for a shard never claimed.
    pub fn applied(&self, shard: ShardId) -> Position {
        let row = self.shared.checkpoints.row(shard);
        row.map(|row| row.applied).unwrap_or_default()
    }

    /// A value of the shard's checkpoint.
    pub fn get(&self, shard: ShardId, key: &[u8]) -> Result<Option<Bytes>, CheckpointError> {
        self.shared.checkpoints.get(shard, key)
    }

    /// Up to `limit` keys and values of the shard's checkpoint in key order, with keys that start with `prefix` and come after `after`.
    pub fn scan(
        &self,
        shard: ShardId,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, CheckpointError> {
        self.shared.checkpoints.scan(shard, prefix, after, limit)
    }

    /// Writes something node-local that the journal does not depend on; `None` removes it.
    pub fn put_local(&self, key: &str, value: Option<&[u8]>) -> Result<(), CheckpointError> {
        if self.shared.queue.phase() == Phase::Stopped {
            return Err(CheckpointError::NotRunning);
        }
        let outcome = self.shared.checkpoints.put_local(key, value);
        self.shared.checked_unlocked(outcome)
    }

    /// Reads what [`put_local`](Self::put_local) wrote.
    pub fn get_local(&self, key: &str) -> Result<Option<Bytes>, CheckpointError> {
        self.shared.checkpoints.get_local(key)
    }

    /// Sealed segments below every checkpoint of which at most `live_percent` is live, emptiest first. The node
    /// appends their live bodies anew through [`submit`](Self::submit), with the old places in `released`.
    pub fn reclaim_candidates(&self, live_percent: u64) -> Vec<Candidate> {
        let applied = self.shared.checkpoints.applied_by_all().unwrap_or(0);
        self.shared.segments.candidates(applied, live_percent)
    }

    /// Deletes the segments that nothing needs, and says how many. Every checkpoint does this by itself.
    pub fn trim(&self) -> usize {
        self.shared.trim()
    }

    /// The end of what is on the disk. Takes no lock, so it may be asked under a shard's.
    pub fn synced(&self) -> Position {
        Position(self.shared.queue.synced())
    }

    /// The store in numbers. Waits for no lock that is held during disk access.
    pub fn status(&self) -> Status {
        let shared = &self.shared;
        let totals = shared.segments.totals();
        Status {
            running: shared.queue.phase() == Phase::Open,
            short: shared.room.is_short(),
            reserve: shared.gauges.reserve.load(Ordering::Relaxed),
            segments: totals.segments,
            bytes: totals.bytes,
            live_bytes: totals.live_bytes,
            live_bodies: totals.live_bodies,
            free_bytes: shared.fs.free_space().unwrap_or(0),
            written: Position(shared.gauges.written.load(Ordering::Relaxed)),
            synced: Position(shared.queue.synced()),
            waiting: shared.queue.len(),
            in_flight_bytes: shared.room.in_flight(),
        }
    }

    /// Writes and syncs everything submitted, then marks the shutdown as clean. Fails if the disk does, or is full.
    pub fn close(&self) -> Result<(), StoreFailure> {
        self.shared.queue.close();
        self.join();
        let not_running = |cause: &str| StoreFailure {
            during: "closing",
            cause: cause.to_owned(),
        };
        loop {
            match self.shared.turn(true) {
                Turn::Idle(_) => break,
                Turn::Wrote(_) | Turn::Synced => {}
                Turn::Stalled => return Err(not_running("the disk is full")),
                Turn::Stopped => return Err(not_running("the store is not running")),
            }
        }
        let mut writer = self.shared.writer.lock();
        let end = writer.end;
        let outcome = self.shared.checkpoints.mark_clean(end);
        let outcome = self.shared.checked(&mut writer, outcome);
        self.shared.abandon(&mut writer);
        self.shared.let_go();
        outcome.map_err(|error| not_running(&error.to_string()))
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    fn join(&self) {
        let thread = self.committer.lock().take();
        if let Some(thread) = thread.filter(|t| t.thread().id() != thread::current().id())
            && thread.join().is_err()
        {
            tracing::error!("the committer's thread had panicked");
        }
    }
}

impl Drop for Store {
    /// Without [`Store::close`] this is an unclean end: what waits resolves `Unknown`.
    fn drop(&mut self) {
        self.shared.queue.stop();
        self.join();
        self.shared.abandon(&mut self.shared.writer.lock());
        self.shared.let_go();
    }
}

impl Shared {
    /// The committer's thread.
    fn run(&self) {
        let _guard = PanicGuard(self);
        let mut deadline = None;
        loop {
            // A short disk is looked at again without anybody's asking.
            let retry = self.room.is_short().then(|| Instant::now() + RETRY);
            let until = [deadline, retry].into_iter().flatten().min();
            if self.queue.wait(until) != Phase::Open {
                return;
            }
            match self.turn(false) {
                Turn::Idle(next) | Turn::Wrote(next) => deadline = next,
                Turn::Synced => deadline = None,
                Turn::Stalled => {
                    self.trim();
                    self.queue.pause(Instant::now() + RETRY);
                }
                Turn::Stopped => return,
            }
        }
    }

    pub(crate) fn read(&self, at: BodyRef) -> Result<Bytes, ReadError> {
        let read = self.read_by(at, |file, offset, bytes| {
            file.read_at(offset, bytes).map(|()| true)
        })?;
        read.ok_or(ReadError::Gone(at.position))
    }

    fn read_cached(&self, at: BodyRef) -> Result<Option<Bytes>, ReadError> {
        self.read_by(at, |file, offset, bytes| file.read_cached_at(offset, bytes))
    }

    /// `None` if `read` says that it did not.
    fn read_by(
        &self,
        at: BodyRef,
        read: impl FnOnce(&dyn File, u64, &mut [u8]) -> io::Result<bool>,
    ) -> Result<Option<Bytes>, ReadError> {
        let (file, base) = self.segments.find(at).ok_or(ReadError::Gone(at.position))?;
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => ReadError::Corrupt(at.position),
            _ => ReadError::Io(at.position, error.to_string()),
        };
        let offset = (at.position.0 + SEGMENT_HEADER)
            .checked_sub(base + BODY_PREFIX as u64)
            .ok_or(ReadError::Gone(at.position))?;
        let mut bytes = vec![0; BODY_PREFIX + at.len as usize];
        if !read(&*file, offset, &mut bytes).map_err(failed)? {
            return Ok(None);
        }
        if frame::check_body(at, &bytes).is_none() && !self.options.mutated(Mutation::NoBodyCheck) {
            return Err(ReadError::Corrupt(at.position));
        }
        Ok(Some(Bytes::from(bytes).slice(BODY_PREFIX..)))
    }

    fn checkpoint(
        &self,
        shard: ShardId,
        batch: &[(Vec<u8>, Option<Vec<u8>>)],
        applied: Position,
    ) -> Result<(), CheckpointError> {
        if self.queue.is_stopped(shard) {
            return Err(CheckpointError::Stopped(shard));
        }
        if self.queue.phase() == Phase::Stopped {
            return Err(CheckpointError::NotRunning);
        }
        if applied.0 > self.queue.synced() {
            // A checkpoint is evidence about the log, so the log must be on the disk first.
            let mut writer = self.writer.lock();
            if applied.0 > writer.end {
                return Err(CheckpointError::OutOfOrder { applied });
            }
            if let Err(failure) = self.sync(&mut writer) {
                self.fail(&mut writer, failure);
                return Err(CheckpointError::NotRunning);
            }
            self.show(&writer);
        }
        let high_water = self.queue.high_water();
        let outcome = self
            .checkpoints
            .checkpoint(shard, batch, applied, high_water);
        self.checked_unlocked(outcome)
    }

    /// A checkpoint file that failed for another reason than a full disk fails the store.
    fn checked<T>(
        &self,
        writer: &mut Writer,
        outcome: Result<T, CheckpointError>,
    ) -> Result<T, CheckpointError> {
        if let Err(CheckpointError::Io(cause)) = &outcome {
            let failure = StoreFailure {
                during: "writing the checkpoint file",
                cause: cause.clone(),
            };
            self.fail(writer, failure);
        }
        outcome
    }

    /// Closes the checkpoint file. A failure then is as suspect as any other.
    fn let_go(&self) {
        if let Err(error) = self.checkpoints.close() {
            tracing::error!(%error, "the checkpoint file did not close");
            let _ = self.fs.create(SUSPECT);
        }
    }

    fn checked_unlocked<T>(
        &self,
        outcome: Result<T, CheckpointError>,
    ) -> Result<T, CheckpointError> {
        match outcome {
            Err(CheckpointError::Io(_)) => self.checked(&mut self.writer.lock(), outcome),
            outcome => outcome,
        }
    }

    fn trim(&self) -> usize {
        // Nobody may know what a stopped shard still needs, so until it is repaired everything stays.
        if !self.accounted.load(Ordering::Acquire) || self.queue.any_stopped() {
            return 0;
        }
        let applied = if self.options.mutated(Mutation::ReclaimWithoutCheckpoint) {
            u64::MAX
        } else {
            self.checkpoints.applied_by_all().unwrap_or(0)
        };
        let dead = self.segments.take_dead(applied);
        for base in &dead {
            // A file that stays is found dead again after the next opening.
            if let Err(error) = self.fs.remove(&segment_name(*base)) {
                tracing::warn!(file = segment_name(*base), %error, "a dead segment was not removed");
            }
        }
        if !dead.is_empty()
            && !self.options.mutated(Mutation::NoDirectorySync)
            && let Err(error) = self.fs.sync_dir()
        {
            tracing::warn!(%error, "the directory was not synced after removing segments");
        }
        dead.len()
    }
}

/// A callback that panics must not leave everybody waiting for a thread that is gone.
pub(crate) struct PanicGuard<'a>(pub(crate) &'a Shared);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let failure = StoreFailure {
                during: "committing",
                cause: "the committer panicked".to_owned(),
            };
            self.0.fail(&mut self.0.writer.lock(), failure);
        }
    }
}

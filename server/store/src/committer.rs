//! The committer: everything that waits, one write, one sync, then the answers.
//!
//! A turn cuts the queue, rotates the segment if the frame does not fit, writes the frame, syncs if somebody waits, and
//! only then counts bodies, tells the node and resolves tickets. There is no linger timer: while one sync runs, the
//! next batch gathers. Everything but a sync that nobody waits for happens under the writer's lock; lock order:
//! writer, then whatever the node's callback takes, then the queue. Nobody may call into the writer (claim,
//! checkpoint, replay, close) with a lock that the callback takes.
//!
//! What follows a write is in `sync.rs`. With an interval between syncs most turns are taken by who waits: `lead.rs`.

use std::{
    io,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use crate::{
    frame::{self, Outgoing, Place},
    fs::File,
    group::Position,
    options::{CommitTrace, Mutation, Sync},
    queue::{Batch, Phase},
    segment::{FORMAT, SEGMENT_HEADER, SegmentHeader, segment_name},
    segments::Segment,
    store::Shared,
    sync::Written,
    ticket::SubmitError,
};

/// A failed write or sync leaves this behind, if only in the page cache: as long as that cache lives, so does the
/// marker, and the next opening rewrites what the cache may be lying about.
pub(crate) const SUSPECT: &str = "SUSPECT";
/// Preallocated segments without a base.
pub(crate) const RESERVE_PREFIX: &str = "reserve-";

/// How often a short disk is looked at again.
pub(crate) const RETRY: Duration = Duration::from_millis(200);
/// The buffer of a commit is given back beyond this.
const KEEP_BUFFER: usize = 32 << 20;

/// The store cannot go on; the process should exit non-zero and start again.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the disk failed while {during}: {cause}")]
pub struct StoreFailure {
    /// What was being done.
    pub during: &'static str,
    /// What the system said.
    pub cause: String,
}

/// What a turn of the committer did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Nothing waited. Something written awaits its sync until the given moment.
    Idle(Option<Instant>),
    /// Groups were written; the last of them await a sync until the given moment, if any.
    Wrote(Option<Instant>),
    /// What lay unsynced was synced.
    Synced,
    /// The disk is full, reserve included: what waits goes on waiting.
    Stalled,
    /// The store is closed or has failed.
    Stopped,
}

/// The end of the log, and who waits for it.
pub(crate) struct Writer {
    pub(crate) active: Active,
    /// Everything before is written.
    pub(crate) end: u64,
    /// Everything before is on the disk.
    pub(crate) synced: u64,
    pub(crate) high_water: u64,
    pub(crate) generation: u32,
    /// Names of preallocated files.
    pub(crate) reserve: Vec<String>,
    pub(crate) next_reserve: u32,
    pub(crate) unsynced_since: Option<Instant>,
    /// A sync runs that lets others write.
    pub(crate) syncs_beside: bool,
    /// When to look again whether a short disk has room.
    retry_at: Option<Instant>,
    /// Cut, but there is no space to write it.
    pub(crate) stalled: Option<Batch>,
    pub(crate) written: Vec<Written>,
    /// How many of `written` are answered already (with an interval, before their sync).
    pub(crate) answered: usize,
    buffer: Vec<u8>,
}

/// The newest segment.
pub(crate) struct Active {
    pub(crate) header: SegmentHeader,
    pub(crate) file: Arc<dyn File>,
    /// The position after the last that its file has space for.
    pub(crate) capacity_end: u64,
}

/// Why the log did not move on to another segment.
enum Rotate {
    Full,
    Failed(StoreFailure),
}

impl Writer {
    pub(crate) fn new(active: Active, end: u64, high_water: u64, generation: u32) -> Self {
        Self {
            active,
            end,
            synced: end,
            high_water,
            generation,
            reserve: Vec::new(),
            next_reserve: 0,
            unsynced_since: None,
            syncs_beside: false,
            retry_at: None,
            stalled: None,
            written: Vec::new(),
            answered: 0,
            buffer: Vec::new(),
        }
    }
}

impl Shared {
    /// One turn. With `flush`, a turn that finds nothing waiting syncs what lies unsynced.
    pub(crate) fn turn(&self, flush: bool) -> Turn {
        let mut writer = self.writer.lock();
        if self.queue.phase() == Phase::Stopped {
            return Turn::Stopped;
        }
        let turn = self.try_turn(&mut writer, flush);
        let turn = turn.and_then(|turn| {
            let due = !flush && self.syncs_beside() && self.is_due(&writer);
            if due && self.sync_beside(&mut writer)? && turn != Turn::Stalled {
                return Ok(Turn::Wrote(self.deadline(&writer)));
            }
            Ok(turn)
        });
        self.show(&writer);
        match turn {
            Ok(turn) => turn,
            Err(failure) => {
                self.fail(&mut writer, failure);
                Turn::Stopped
            }
        }
    }

    pub(crate) fn show(&self, writer: &Writer) {
        let reserve = writer.reserve.len() as u32;
        self.gauges.reserve.store(reserve, Ordering::Relaxed);
        self.gauges.written.store(writer.end, Ordering::Relaxed);
    }

    fn try_turn(&self, writer: &mut Writer, flush: bool) -> Result<Turn, StoreFailure> {
        let retry = writer.retry_at.is_none_or(|at| at <= Instant::now());
        if self.room.is_short() && (flush || retry) {
            self.refill(writer)?;
            writer.retry_at = Instant::now().checked_add(RETRY);
        }
        let limit = self.options.max_commit_bytes;
        let stalled = writer.stalled.take();
        let Some(batch) = stalled.or_else(|| self.queue.cut(limit, &self.options)) else {
            let due = flush || (!self.syncs_beside() && self.is_due(writer));
            if due && writer.unsynced_since.is_some() {
                self.sync(writer)?;
                return Ok(Turn::Synced);
            }
            return Ok(Turn::Idle(self.deadline(writer)));
        };
        let waited_for = batch.durable && self.options.sync == Sync::Always;
        let Some(mut commit) = self.commit(writer, batch)? else {
            return Ok(Turn::Stalled);
        };
        let due = !self.syncs_beside() && self.is_due(writer);
        commit.synced = due || waited_for;
        if commit.synced {
            self.sync(writer)?;
        }
        self.trace(commit);
        Ok(Turn::Wrote(self.deadline(writer)))
    }

    /// Writes the batch, and answers it unless the answers await a sync. `None` if the disk is full: the batch goes on
    /// waiting.
    pub(crate) fn commit(
        &self,
        writer: &mut Writer,
        batch: Batch,
    ) -> Result<Option<CommitTrace>, StoreFailure> {
        let (groups, start) = (batch.groups.len() as u32, writer.end);
        if let Err(batch) = self.write(writer, batch)? {
            writer.stalled = Some(batch);
            return Ok(None);
        }
        writer.unsynced_since.get_or_insert_with(Instant::now);
        if let Sync::Interval(_) = self.options.sync {
            self.answer(writer, writer.written.len());
        }
        Ok(Some(CommitTrace {
            bytes: writer.end - start,
            groups,
            synced: false,
        }))
    }

    pub(crate) fn trace(&self, commit: CommitTrace) {
        if let Some(trace) = &self.options.trace {
            trace(commit);
        }
    }

    /// Writes the batch as one frame, or gives it back if the disk is full.
    fn write(&self, writer: &mut Writer, batch: Batch) -> Result<Result<(), Batch>, StoreFailure> {
        let outgoing: Vec<Outgoing<'_>> = batch
            .groups
            .iter()
            .filter(|waiting| waiting.writes)
            .map(|waiting| Outgoing {
                shard: waiting.group.shard,
                epoch: waiting.group.epoch,
                op: waiting.group.op,
                records: &waiting.group.records,
                bodies: waiting.kept_bodies(),
            })
            .collect();
        let mut places = Vec::new();
        if !outgoing.is_empty() {
            let need = frame::encoded_len(&outgoing);
            if writer.end + need > writer.active.capacity_end {
                match self.rotate(writer, need) {
                    Ok(()) => {}
                    Err(Rotate::Full) => {
                        drop(outgoing);
                        return Ok(Err(batch));
                    }
                    Err(Rotate::Failed(failure)) => return Err(failure),
                }
            }
            let hints = batch.groups.iter().filter(|waiting| waiting.writes);
            let hint = hints.map(|waiting| waiting.group.high_water).max();
            writer.high_water = writer.high_water.max(hint.unwrap_or(0));
            writer.buffer.clear();
            let place = Place {
                position: writer.end,
                nonce: writer.active.header.nonce,
                generation: writer.generation,
                synced_through: writer.synced,
                high_water: writer.high_water,
            };
            places = frame::encode(&mut writer.buffer, place, &outgoing);
            debug_assert_eq!(writer.buffer.len() as u64, need);
            let offset = SEGMENT_HEADER + (writer.end - writer.active.header.base);
            let file = &writer.active.file;
            file.write_at(offset, &writer.buffer)
                .map_err(failed("writing the log"))?;
            writer.end += need;
            writer.buffer.shrink_to(KEEP_BUFFER);
        }
        drop(outgoing);
        let position = Position(writer.end);
        let mut places = places.into_iter();
        for waiting in batch.groups {
            let born = if waiting.writes {
                places.next().unwrap_or_default()
            } else {
                Vec::new()
            };
            writer.written.push(Written::new(waiting, position, born));
        }
        Ok(Ok(()))
    }

    /// Moves on to a new segment with space for `need`. The old one is on the disk before the new one has its name.
    fn rotate(&self, writer: &mut Writer, need: u64) -> Result<(), Rotate> {
        if writer.end > writer.synced {
            self.sync(writer).map_err(Rotate::Failed)?;
        }
        let size = self.options.segment_bytes.max(SEGMENT_HEADER + need);
        let (name, file) = match writer.reserve.pop() {
            Some(name) => {
                let opened = self.fs.open(&name).and_then(|file| {
                    if size > file.len()? {
                        file.allocate(size)?;
                    }
                    Ok(file)
                });
                match opened {
                    Ok(file) => (name, file),
                    Err(error) => {
                        writer.reserve.push(name);
                        return Err(self.no_segment(error));
                    }
                }
            }
            None => {
                let name = self.next_reserve_name(writer);
                match self.preallocate(&name, size) {
                    Ok(file) => (name, file),
                    Err(error) => return Err(self.no_segment(error)),
                }
            }
        };
        let made = self.name_segment(writer, &name, file);
        let active = made.map_err(failed("starting a segment"));
        let active = active.map_err(Rotate::Failed)?;
        self.segments.seal(writer.active.header.base, writer.end);
        self.segments
            .add(Segment::new(active.header, active.file.clone(), None, size));
        writer.active = active;
        self.refill(writer).map_err(Rotate::Failed)
    }

    fn no_segment(&self, error: io::Error) -> Rotate {
        if error.kind() == io::ErrorKind::StorageFull {
            self.room.set_short(true);
            return Rotate::Full;
        }
        Rotate::Failed(failed("making a segment")(error))
    }

    /// Gives a preallocated file its header and its name, durably, in that order.
    fn name_segment(&self, writer: &Writer, name: &str, file: Arc<dyn File>) -> io::Result<Active> {
        let header = SegmentHeader {
            version: FORMAT,
            generation: writer.generation,
            base: writer.end,
            nonce: self.fs.random()?,
            high_water: writer.high_water,
        };
        file.write_at(0, &header.encode())?;
        file.sync_data()?;
        self.fs.rename(name, &segment_name(header.base))?;
        if !self.options.mutated(Mutation::NoDirectorySync) {
            self.fs.sync_dir()?;
        }
        let capacity_end = header.base + file.len()?.saturating_sub(SEGMENT_HEADER);
        Ok(Active {
            header,
            file,
            capacity_end,
        })
    }

    /// Preallocates what is missing from the reserve, and finds out whether the disk is short.
    pub(crate) fn refill(&self, writer: &mut Writer) -> Result<(), StoreFailure> {
        let size = self.options.segment_bytes;
        while writer.reserve.len() < self.options.reserve_segments as usize {
            let name = self.next_reserve_name(writer);
            match self.preallocate(&name, size) {
                Ok(_) => writer.reserve.push(name),
                Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                    self.room.set_short(true);
                    return Ok(());
                }
                Err(error) => return Err(failed("reserving space")(error)),
            }
        }
        let free = self.fs.free_space();
        let free = free.map_err(failed("asking for free space"))?;
        let log = self.segments.totals().bytes + size * writer.reserve.len() as u64;
        let short = free < self.options.min_free_bytes || log > self.options.max_log_bytes;
        self.room.set_short(short);
        Ok(())
    }

    fn next_reserve_name(&self, writer: &mut Writer) -> String {
        writer.next_reserve += 1;
        format!("{RESERVE_PREFIX}{:08x}", writer.next_reserve)
    }

    fn preallocate(&self, name: &str, size: u64) -> io::Result<Arc<dyn File>> {
        let file = self.fs.create(name)?;
        match file.allocate(size) {
            Ok(()) => Ok(file),
            Err(error) => {
                // What was half allocated would only make the shortage worse.
                self.fs.remove(name)?;
                Err(error)
            }
        }
    }

    /// The end: nothing more is written, whoever waits does not know.
    pub(crate) fn fail(&self, writer: &mut Writer, failure: StoreFailure) {
        if self.queue.phase() == Phase::Stopped {
            return;
        }
        tracing::error!(during = failure.during, cause = %failure.cause, "the store has failed");
        // Best effort, and enough: see SUSPECT.
        let _ = self.fs.create(SUSPECT);
        self.abandon(writer);
        if let Some(callbacks) = self.callbacks.get() {
            (callbacks.on_failure)(failure);
        }
    }

    /// Stops without writing anything more.
    pub(crate) fn abandon(&self, writer: &mut Writer) {
        self.queue.stop();
        self.room.close();
        let stalled = writer.stalled.take().into_iter();
        let stalled = stalled
            .flat_map(|batch| batch.groups)
            .filter_map(|w| w.reply);
        writer.answered = 0;
        let written = std::mem::take(&mut writer.written).into_iter();
        let written = written.filter_map(|w| w.answer).filter_map(|a| a.reply);
        for reply in written.chain(stalled) {
            reply.resolve(Err(SubmitError::Unknown));
        }
    }
}

pub(crate) fn failed(during: &'static str) -> impl Fn(io::Error) -> StoreFailure {
    move |error| StoreFailure {
        during,
        cause: error.to_string(),
    }
}

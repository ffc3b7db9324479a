//! From written to durable: the sync, the answers, and what counts only once it is on the disk.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::MutexGuard;

use crate::{
    committer::{StoreFailure, Writer, failed},
    fs::File,
    group::{BodyRef, Committed, PendingBody, Position},
    options::{CommitTrace, Mutation, Sync},
    queue::{Phase, Waiting},
    room::Permit,
    store::Shared,
    ticket::Reply,
};

/// A group that is written, on its way to being answered and accounted for.
pub(crate) struct Written {
    end: u64,
    pub(crate) answer: Option<Answer>,
    born: Vec<Option<BodyRef>>,
    dead: Vec<PendingBody>,
    released: Vec<BodyRef>,
}

pub(crate) struct Answer {
    committed: Committed,
    bodies: Vec<PendingBody>,
    pub(crate) reply: Option<Reply>,
    _permit: Option<Permit>,
}

impl Shared {
    /// Makes everything written durable, then answers and accounts. Keeps everybody from writing meanwhile.
    pub(crate) fn sync(&self, writer: &mut Writer) -> Result<(), StoreFailure> {
        if writer.end > writer.synced {
            self.sync_file(&writer.active.file)?;
        }
        writer.unsynced_since = None;
        self.synced(writer, writer.end, writer.high_water);
        Ok(())
    }

    /// Makes what is written so far durable while others write on. False if the store was stopped meanwhile.
    pub(crate) fn sync_beside(
        &self,
        writer: &mut MutexGuard<'_, Writer>,
    ) -> Result<bool, StoreFailure> {
        let (end, high_water) = (writer.end, writer.high_water);
        let file = Arc::clone(&writer.active.file);
        // What is written from now on awaits the next sync.
        writer.unsynced_since = None;
        if end > writer.synced {
            writer.syncs_beside = true;
            let outcome = MutexGuard::unlocked(writer, || self.sync_file(&file));
            writer.syncs_beside = false;
            outcome?;
        }
        if self.queue.phase() == Phase::Stopped {
            return Ok(false);
        }
        self.synced(writer, end, high_water);
        self.trace(CommitTrace {
            bytes: 0,
            groups: 0,
            synced: true,
        });
        Ok(true)
    }

    /// One at a time, and none after a failure: the system tells of it once, so a second sync would seem to succeed.
    fn sync_file(&self, file: &Arc<dyn File>) -> Result<(), StoreFailure> {
        if self.options.mutated(Mutation::NoSync) {
            return Ok(());
        }
        let mut failure = self.sync_failure.lock();
        if failure.is_none() {
            *failure = file.sync_data().map_err(failed("syncing the log")).err();
        }
        failure.clone().map_or(Ok(()), Err)
    }

    /// Everything before `end` is on the disk.
    fn synced(&self, writer: &mut Writer, end: u64, high_water: u64) {
        if end >= writer.synced {
            writer.synced = end;
            self.queue.set_synced(end, high_water);
        }
        let count = writer.written.partition_point(|w| w.end <= end);
        self.answer(writer, count);
        // A killer counts only once it is on the disk: until then a crash brings the message back, and its body with it.
        let written: Vec<Written> = writer.written.drain(..count).collect();
        writer.answered -= count;
        let born = written
            .iter()
            .flat_map(|w| w.born.iter().flatten().copied());
        self.segments.retain(born);
        let dead = written.iter().flat_map(|w| &w.dead);
        let gone = written.iter().flat_map(|w| w.released.iter().copied());
        self.segments
            .release(gone.chain(dead.filter_map(PendingBody::written)));
    }

    /// Tells the node of the first `count` written groups, then whoever waits. They stay in `written` until they are
    /// accounted for.
    pub(crate) fn answer(&self, writer: &mut Writer, count: usize) {
        let from = writer.answered.min(count);
        let fresh = writer.written[from..count].iter_mut();
        let mut fresh: Vec<Answer> = fresh.filter_map(|w| w.answer.take()).collect();
        writer.answered = writer.answered.max(count);
        if fresh.is_empty() {
            return;
        }
        for answer in &fresh {
            for (body, at) in answer.bodies.iter().zip(&answer.committed.bodies) {
                if let Some(at) = at {
                    body.set_written(*at);
                }
            }
        }
        if let Some(callbacks) = self.callbacks.get() {
            let committed: Vec<Committed> = fresh.iter_mut().map(Answer::tell).collect();
            (callbacks.on_committed)(&committed);
        }
        for answer in &mut fresh {
            if let Some(reply) = answer.reply.take() {
                reply.resolve(Ok(answer.committed.position));
            }
        }
    }

    /// Whether a sync that nobody waits for lets others write meanwhile: where answers do not wait for it either.
    pub(crate) fn syncs_beside(&self) -> bool {
        matches!(self.options.sync, Sync::Interval(_))
    }

    /// When what lies unsynced must be synced.
    pub(crate) fn deadline(&self, writer: &Writer) -> Option<Instant> {
        let wait = match self.options.sync {
            Sync::Always => self.options.lazy_sync,
            Sync::Interval(_) if self.is_much(writer) => Duration::ZERO,
            Sync::Interval(every) => every,
        };
        writer
            .unsynced_since
            .and_then(|since| since.checked_add(wait))
    }

    pub(crate) fn is_due(&self, writer: &Writer) -> bool {
        self.deadline(writer).is_some_and(|at| at <= Instant::now())
    }

    /// Whether so much lies unsynced that whoever has to wait for a sync would wait long.
    pub(crate) fn is_much(&self, writer: &Writer) -> bool {
        writer.end - writer.synced >= self.options.sync_ahead_bytes
    }
}

impl Answer {
    /// What the node is told. The bodies' places move: nobody looks at them afterwards.
    fn tell(&mut self) -> Committed {
        Committed {
            bodies: std::mem::take(&mut self.committed.bodies),
            ..self.committed.clone()
        }
    }
}

impl Written {
    pub(crate) fn new(waiting: Waiting, position: Position, born: Vec<Option<BodyRef>>) -> Self {
        let Waiting {
            group,
            reply,
            permit,
            ..
        } = waiting;
        Self {
            end: position.0,
            answer: Some(Answer {
                committed: Committed {
                    shard: group.shard,
                    op: group.op,
                    position,
                    bodies: born.clone(),
                },
                bodies: group.bodies,
                reply,
                _permit: permit,
            }),
            born,
            dead: group.dead,
            released: group.released,
        }
    }
}

//! What runs by itself: each shard's timers, lazy records, the clock, checkpoints and reclaiming.

use std::{
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use powerqueue_engine::{Capture, Millis, StoredBody};
use powerqueue_store::{CheckpointError, Position};
use tokio::time::{Instant, MissedTickBehavior};

use crate::{
    Error, Node, Room,
    cell::{Cell, body_ref},
    node::Inner,
    open::{GENERATION, generation, pieces},
    reaper,
};

/// How often it is looked whether a checkpoint is due.
const CHECKPOINT_LOOK: Duration = Duration::from_secs(1);
/// How often the wall clock is looked at.
const CLOCK_LOOK: Duration = Duration::from_secs(10);
/// Bytes of bodies carried over to the log's end in one group.
const CARRY_BYTES: usize = 1 << 20;

/// Segments of which at most so much is live are emptied.
const LIVE_PERCENT: u64 = 30;
/// Bytes of checkpoint written at once.
const CHECKPOINT_BYTES: usize = 4 << 20;

/// Starts the tasks; they end when the node's last handle is dropped.
pub(crate) fn start(node: &Node) {
    for cell in &node.0.cells {
        tokio::spawn(timers(Arc::downgrade(&node.0), Arc::clone(cell)));
    }
    tokio::spawn(saver(Arc::downgrade(&node.0), node.0.options.save_every));
    tokio::spawn(clock(Arc::downgrade(&node.0)));
    tokio::spawn(reaper::run(Arc::downgrade(&node.0)));
    tokio::spawn(keeper(Arc::downgrade(&node.0)));
}

/// Ticks one shard whenever something is due.
async fn timers(node: Weak<Inner>, cell: Arc<Cell>) {
    loop {
        let Some(inner) = node.upgrade() else { return };
        let due = inner.tick(&cell);
        let now = inner.clock.now();
        // Asleep, the task must not keep the node alive.
        drop(inner);
        if due.is_some_and(|due| due <= now) {
            // Others may have the lock between slices.
            tokio::task::yield_now().await;
            continue;
        }
        let span = due.map_or(IDLE, |due| {
            Duration::from_millis(due.since(now).0).min(IDLE)
        });
        tokio::select! {
            () = tokio::time::sleep(span) => {}
            () = cell.alarm.notified() => {}
        }
    }
}

/// The longest sleep: a dropped node is noticed by then.
const IDLE: Duration = Duration::from_secs(5);

/// Journals leases and counts that nobody waits for.
async fn saver(node: Weak<Inner>, every: Duration) {
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(inner) = node.upgrade() else { return };
        for cell in &inner.cells {
            while inner.save(cell) {
                tokio::task::yield_now().await;
            }
        }
        inner.look_at_memory();
    }
}

async fn clock(node: Weak<Inner>) {
    let mut ticks = tokio::time::interval(CLOCK_LOOK);
    loop {
        ticks.tick().await;
        let Some(inner) = node.upgrade() else { return };
        inner.clock.follow_wall();
    }
}

/// Checkpoints and reclaims when the journal has grown.
async fn keeper(node: Weak<Inner>) {
    let mut ticks = tokio::time::interval(CHECKPOINT_LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // While the disk is short, what was deleted must be reclaimed before the journal has grown as far as it usually may.
    let mut not_before = Instant::now();
    loop {
        ticks.tick().await;
        let Some(inner) = node.upgrade() else { return };
        let node = Node(inner);
        if node.has_failed() {
            return;
        }
        let grown = node
            .0
            .store
            .synced()
            .0
            .saturating_sub(node.0.checkpointed().0);
        let short = grown > 0 && node.0.store.status().short && Instant::now() >= not_before;
        if grown < node.0.options.checkpoint_bytes && !short {
            continue;
        }
        let began = Instant::now();
        if let Err(error) = node.checkpoint().await {
            tracing::warn!(%error, "a checkpoint failed; it is tried again");
        }
        node.reclaim().await;
        // At most a tenth of the time goes into it.
        not_before = Instant::now() + 9 * began.elapsed();
    }
}

impl Node {
    /// Checkpoints every shard, so that the journal before now is needed for its bodies only.
    pub async fn checkpoint(&self) -> Result<(), CheckpointError> {
        let mut outcome = Ok(());
        for cell in &self.0.cells {
            self.0.settle(cell).await;
            let (inner, cell) = (Arc::clone(&self.0), Arc::clone(cell));
            match tokio::task::spawn_blocking(move || inner.checkpoint(&cell)).await {
                Ok(Ok(())) => {}
                // One shard's trouble is not the others'.
                Ok(Err(error)) => outcome = Err(error),
                Err(error) => tracing::error!(%error, "a checkpoint panicked"),
            }
        }
        outcome
    }

    /// Carries the few bodies that are left in old segments over to the log's end, so that the segments can go.
    pub async fn reclaim(&self) {
        for candidate in self.0.store.reclaim_candidates(LIVE_PERCENT) {
            for cell in &self.0.cells {
                self.carry(cell, candidate.from.0..candidate.to.0).await;
            }
        }
    }

    async fn carry(&self, cell: &Cell, range: std::ops::Range<u64>) {
        let mut cursor = Some(0);
        while let Some(from) = cursor {
            let (bodies, next) = cell.lock().shard.bodies_in(range.clone(), from);
            cursor = next;
            let mut rest = bodies.as_slice();
            while !rest.is_empty() {
                let (some, more) = rest.split_at(some_of(rest));
                rest = more;
                if let Err(error) = self.carry_some(cell, some.to_vec()).await {
                    tracing::warn!(%error, "reclaiming stopped");
                    return;
                }
            }
            tokio::task::yield_now().await;
        }
    }

    async fn carry_some(&self, cell: &Cell, bodies: Vec<StoredBody>) -> Result<(), Error> {
        let bytes: usize = bodies.iter().map(|body| body.at.len as usize).sum();
        // It makes room: the reserve is for this too.
        let permit = self.0.room(Room::Settlement).await?;
        let inner = Arc::clone(&self.0);
        let read = tokio::task::spawn_blocking(move || {
            let refs: Vec<_> = bodies.iter().map(|body| body_ref(body.at)).collect();
            let read = inner.store.read(&refs);
            bodies
                .into_iter()
                .zip(read)
                .filter_map(|(body, bytes)| Some((body, bytes.ok()?)))
                .collect::<Vec<_>>()
        });
        let read = read.await.map_err(|_| Error::Unavailable)?;
        tracing::debug!(bytes, count = read.len(), "carrying bodies over");
        let now = self.now();
        let ticket = {
            let mut state = cell.lock();
            let output = state.shard.relocate(now, read);
            cell.dispatch(
                &mut state,
                output,
                &self.0.store,
                &self.0.cache,
                Some(permit),
            );
            let barrier = state.shard.barrier(now);
            cell.dispatch(&mut state, barrier, &self.0.store, &self.0.cache, None)
        };
        match ticket {
            Some(ticket) => ticket.await.map(drop).map_err(|_| Error::Unavailable),
            None => Ok(()),
        }
    }

    /// Ends in order: what is unsaved is saved, the shards are checkpointed, the store is closed. Call when no request is
    /// in progress any more.
    pub async fn close(&self) {
        self.drain();
        self.0.save_activity(Millis(1));
        self.0.note_served();
        for cell in &self.0.cells {
            while self.0.save(cell) {}
        }
        if let Err(error) = self.checkpoint().await {
            tracing::warn!(%error, "the last checkpoint failed; the next start replays more");
        }
        let inner = Arc::clone(&self.0);
        let closed = tokio::task::spawn_blocking(move || inner.store.close()).await;
        match closed {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => tracing::error!(%failure, "the store did not close in order"),
            Err(error) => tracing::error!(%error, "closing the store panicked"),
        }
    }
}

/// How many bodies make a group of a bearable size.
fn some_of(bodies: &[StoredBody]) -> usize {
    let mut bytes = 0;
    let fit = bodies.iter().take_while(|body| {
        bytes += body.at.len as usize;
        bytes <= CARRY_BYTES
    });
    fit.count().max(1)
}

impl Inner {
    /// One slice of what is due; when the next is.
    fn tick(&self, cell: &Cell) -> Option<Millis> {
        let now = self.clock.now();
        let mut state = cell.lock();
        if state.shard.next_due().is_some_and(|due| due <= now) {
            let output = state.shard.tick(now);
            cell.dispatch(&mut state, output, &self.store, &self.cache, None);
        }
        let due = state.shard.next_due();
        cell.arm(due);
        due
    }

    /// Journals one slice of leases; whether there are more.
    fn save(&self, cell: &Cell) -> bool {
        let now = self.clock.now();
        let mut state = cell.lock();
        if state.shard.has_unsaved() {
            let output = state.shard.save(now);
            cell.dispatch(&mut state, output, &self.store, &self.cache, None);
        }
        state.shard.has_unsaved()
    }

    /// Waits until everything that a shard has submitted so far is durable.
    async fn settle(&self, cell: &Cell) {
        let now = self.clock.now();
        let ticket = {
            let mut state = cell.lock();
            let barrier = state.shard.barrier(now);
            cell.dispatch(&mut state, barrier, &self.store, &self.cache, None)
        };
        if let Some(ticket) = ticket {
            // A failed store is told of elsewhere.
            let _ = ticket.await;
        }
    }

    /// The position that every shard's checkpoint has passed.
    fn checkpointed(&self) -> Position {
        self.cells
            .iter()
            .map(|cell| self.store.applied(cell.id))
            .min()
            .unwrap_or_default()
    }

    /// Captures a shard in slices and puts the capture in the place of the one before.
    fn checkpoint(&self, cell: &Cell) -> Result<(), CheckpointError> {
        let _one_at_a_time = cell.checkpointing.lock();
        let before = self.store.applied(cell.id);
        let position = {
            let state = cell.lock();
            let end = self.store.synced();
            if state.is_settled() {
                state.durable.max(end)
            } else {
                state.durable
            }
        };
        let old = generation(&self.store, cell.id)?;
        let new = old + 1;
        // What an interrupted checkpoint may have left.
        self.forget_pieces(cell, new, before)?;
        let mut capture = Capture::default();
        let mut batch = Vec::new();
        let (mut number, mut bytes) = (0u32, 0);
        while !capture.is_done() {
            let piece = cell.lock().shard.capture(&mut capture);
            if piece.is_empty() {
                // A sweep is under way in the queue that comes next.
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            bytes += piece.len();
            batch.push((
                [pieces(new).as_slice(), &number.to_be_bytes()].concat(),
                Some(piece),
            ));
            number += 1;
            if bytes >= CHECKPOINT_BYTES {
                self.store
                    .checkpoint(cell.id, &std::mem::take(&mut batch), before)?;
                bytes = 0;
            }
        }
        self.outlast(cell)?;
        batch.push((GENERATION.to_vec(), Some(new.to_be_bytes().to_vec())));
        self.store.checkpoint(cell.id, &batch, position)?;
        self.forget_pieces(cell, old, position)
    }

    /// Waits until everything that a shard has done so far is on the disk: its capture may show all of it.
    fn outlast(&self, cell: &Cell) -> Result<(), CheckpointError> {
        let now = self.clock.now();
        let ticket = {
            let mut state = cell.lock();
            let barrier = state.shard.barrier(now);
            cell.dispatch(&mut state, barrier, &self.store, &self.cache, None)
        };
        let Some(end) = ticket.and_then(|ticket| ticket.wait().ok()) else {
            return Err(CheckpointError::NotRunning);
        };
        // Where answers do not wait for the sync, it comes within its interval.
        while self.store.synced() < end && !self.failed.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    fn forget_pieces(
        &self,
        cell: &Cell,
        generation: u64,
        applied: Position,
    ) -> Result<(), CheckpointError> {
        let prefix = pieces(generation);
        loop {
            let rows = self.store.scan(cell.id, &prefix, None, 64)?;
            if rows.is_empty() {
                return Ok(());
            }
            let batch: Vec<_> = rows
                .into_iter()
                .map(|(key, _)| (key.to_vec(), None))
                .collect();
            self.store.checkpoint(cell.id, &batch, applied)?;
        }
    }
}

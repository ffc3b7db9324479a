//! One history: random work, random trouble, and the checks after each reopening.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use powerqueue_store::{
    sim::{Random, SimFs},
    *,
};

use super::model::*;

const SHARDS: u16 = 3;
pub(super) const PLENTY: u64 = 64 << 20;

/// What a history covered.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    pub ops: u64,
    pub confirmed: u64,
    pub power_cuts: u64,
    pub kills: u64,
    pub failed_syncs: u64,
    pub full: u64,
    pub flips: u64,
    pub damaged: u64,
    pub elided: u64,
    pub needless: u64,
    pub led: u64,
    pub rotated: u64,
    pub deleted: u64,
    pub relocated: u64,
    pub checkpoints: u64,
    pub clean: u64,
}

impl Stats {
    pub fn add(&mut self, other: &Self) {
        self.ops += other.ops;
        self.confirmed += other.confirmed;
        self.power_cuts += other.power_cuts;
        self.kills += other.kills;
        self.failed_syncs += other.failed_syncs;
        self.full += other.full;
        self.flips += other.flips;
        self.damaged += other.damaged;
        self.elided += other.elided;
        self.needless += other.needless;
        self.led += other.led;
        self.rotated += other.rotated;
        self.deleted += other.deleted;
        self.relocated += other.relocated;
        self.checkpoints += other.checkpoints;
        self.clean += other.clean;
    }
}

pub struct World {
    pub(super) fs: SimFs,
    pub(super) options: Options,
    pub(super) random: Random,
    pub(super) shards: Vec<Shard>,
    pub(super) store: Option<Store>,
    pub(super) committed: Arc<Mutex<Vec<Committed>>>,
    pub(super) next_op: u64,
    pub(super) next_id: u64,
    /// A bit may flip below this: something on the disk claims to have synced past it.
    pub(super) claimed: u64,
    pub(super) flipping: bool,
    pub(super) flipped: bool,
    pub(super) syncs_fail: bool,
    pub(super) closed_cleanly: bool,
    pub(super) power_was_cut: bool,
    pub(super) max_hint: u64,
    pub(super) bases: std::collections::BTreeSet<String>,
    pub stats: Stats,
}

pub(super) type Check = Result<(), String>;

impl World {
    pub fn new(seed: u64, mutation: Option<Mutation>) -> Self {
        let mut random = Random::new(seed);
        let sync = if random.percent(25) {
            Sync::Interval(Duration::from_secs(3600))
        } else {
            Sync::Always
        };
        let options = Options {
            segment_bytes: [2048, 4096, 8192][random.below(3) as usize],
            max_commit_bytes: [600, 2000, 1 << 20][random.below(3) as usize],
            min_free_bytes: 0,
            lazy_sync: Duration::from_secs(3600),
            sync_ahead_bytes: [1, 3000, 1 << 20][random.below(3) as usize],
            checkpoint_cache_bytes: 1 << 20,
            reserve_segments: random.below(3) as u32,
            sync,
            mutation,
            ..Options::default()
        };
        Self {
            fs: SimFs::new(random.bits(), PLENTY),
            options,
            shards: (0..SHARDS).map(|id| Shard::new(ShardId(id))).collect(),
            store: None,
            committed: Arc::default(),
            next_op: 1,
            next_id: 1,
            claimed: 0,
            flipping: random.percent(25),
            flipped: false,
            syncs_fail: false,
            closed_cleanly: true,
            power_was_cut: false,
            max_hint: 0,
            bases: Default::default(),
            stats: Stats::default(),
            random,
        }
    }

    pub fn run(mut self) -> Result<Stats, String> {
        self.open()?;
        let lives = 2 + self.random.below(4);
        for life in 0..lives {
            self.live(life + 1 == lives)?;
            self.open()?;
        }
        Ok(self.stats)
    }

    /// Works until trouble comes or the life is over, and leaves a store to be opened.
    fn live(&mut self, last: bool) -> Check {
        let trouble = if last { 3 } else { self.random.below(5) };
        let length = 20 + self.random.below(120);
        match trouble {
            0 | 1 => self.fs.crash_after(1 + self.random.below(length * 3)),
            2 => {}
            _ => {}
        }
        let failing_from = self.random.below(length);
        for turn in 0..length {
            if trouble == 2 && turn == failing_from {
                self.fs.fail_syncs(1 + self.random.below(2));
                self.syncs_fail = true;
            }
            if !self.act()? {
                break;
            }
        }
        self.fs.set_capacity(PLENTY);
        self.end(trouble == 3)
    }

    fn end(&mut self, orderly: bool) -> Check {
        let orderly = orderly && !self.fs.is_off();
        if orderly && let Some(store) = &self.store {
            let closed = store.close();
            self.take_committed()?;
            self.poll_tickets()?;
            self.closed_cleanly = closed.is_ok();
            if closed.is_err() && !self.fs.is_off() && !self.syncs_fail {
                return Err(format!("it did not close: {closed:?}"));
            }
            if self.closed_cleanly {
                self.stats.clean += 1;
                self.claimed = self.claimed.max(self.synced());
            }
        } else {
            self.closed_cleanly = false;
        }
        // Everything that the dying store still does to the disk fails, unless it was closed.
        let cut = self.fs.is_off() || self.random.percent(50);
        if !self.closed_cleanly {
            self.fs.freeze();
        }
        self.store = None;
        self.interrupt(cut);
        Ok(())
    }

    pub(super) fn interrupt(&mut self, cut: bool) {
        if cut {
            self.fs.power_cycle();
            self.power_was_cut = true;
            self.stats.power_cuts += 1;
        } else {
            self.fs.kill();
            self.stats.kills += 1;
        }
        self.syncs_fail = false;
    }

    fn synced(&self) -> u64 {
        self.store.as_ref().map_or(0, |s| s.status().synced.0)
    }

    /// One random act. False if the store is no more.
    fn act(&mut self) -> Result<bool, String> {
        match self.random.below(100) {
            0..55 => self.submit()?,
            55..80 => {
                if !self.step()? {
                    return Ok(false);
                }
            }
            80..90 => {
                if !self.checkpoint()? {
                    return Ok(false);
                }
            }
            90..95 => self.relocate()?,
            95..98 => self.read_one()?,
            98 => {
                // The disk fills up, or is cleared.
                let room = self.random.below(20_000);
                let full = self.random.percent(60);
                let size = if full { self.fs.used() + room } else { PLENTY };
                self.fs.set_capacity(size);
                self.stats.full += u64::from(full);
            }
            _ => {
                if let Some(store) = &self.store {
                    store.trim();
                }
            }
        }
        Ok(!self.fs.is_off())
    }

    fn submit(&mut self) -> Check {
        let index = self.random.below(u64::from(SHARDS)) as usize;
        if self.shards[index].stopped {
            return Ok(());
        }
        let mut commands = Vec::new();
        for _ in 0..self.random.below(4) {
            let live: Vec<u64> = self.shards[index].entries.keys().copied().collect();
            let id = live
                .get(self.random.below(live.len() as u64 * 2) as usize)
                .copied();
            match id {
                Some(id) if !commands.contains(&Command::Settle { id }) => {
                    commands.push(Command::Settle { id });
                }
                _ => {
                    commands.push(Command::Send { id: self.next_id });
                    self.next_id += 1;
                }
            }
        }
        self.submit_commands(index, commands, BTreeMap::new());
        Ok(())
    }

    /// Submits as the engine does. `moved` has the bodies of `Move` commands.
    fn submit_commands(
        &mut self,
        index: usize,
        commands: Vec<Command>,
        mut moved: BTreeMap<u64, Bytes>,
    ) {
        let shard = &mut self.shards[index];
        let number = self.next_op;
        self.next_op += 1;
        self.max_hint += 1;
        let mut group = Group::barrier(shard.id, shard.epoch, number);
        group.records = encode(&commands);
        group.high_water = self.max_hint;
        if self.random.percent(25) {
            group.class = Class::Lazy;
        }
        let (mut killed, mut was_written) = (Vec::new(), false);
        for command in &commands {
            let old = match command {
                Command::Send { .. } => None,
                Command::Settle { id } | Command::Move { id } => shard.entries.remove(id),
            };
            if let Some(old) = old {
                killed.push(old.born);
                was_written |= old.moved;
                match (old.at, old.body) {
                    (Some(at), _) => group.released.push(at),
                    (None, Some(body)) => group.dead.push(body),
                    (None, None) => {}
                }
            }
            let bytes = match command {
                Command::Send { id } => body(shard.id, *id),
                Command::Move { id } => moved.remove(id).unwrap_or_default(),
                Command::Settle { .. } => continue,
            };
            let (Command::Send { id } | Command::Move { id }) = command else {
                continue;
            };
            let pending = PendingBody::new(bytes);
            let entry = Entry {
                body: Some(pending.clone()),
                at: None,
                born: (number, group.bodies.len()),
                moved: matches!(command, Command::Move { .. }),
            };
            group.bodies.push(pending);
            shard.entries.insert(*id, entry);
        }
        group.settles_only = !commands.is_empty()
            && group.released.is_empty()
            && !was_written
            && commands.iter().all(|c| matches!(c, Command::Settle { .. }));
        let barrier = commands.is_empty();
        let mut op = Op {
            number,
            records: group.records.clone(),
            unwritten: barrier,
            high_water: group.high_water,
            ticket: None,
            confirmed: false,
            killers: vec![None; group.bodies.len()],
            commands,
        };
        let settles_only = group.settles_only;
        let Some(store) = &self.store else { return };
        let mut ticket = store.submit(group, None);
        if settles_only && ticket.poll_now().is_some_and(|outcome| outcome.is_ok()) {
            (op.unwritten, op.confirmed) = (true, true);
            self.stats.needless += 1;
        }
        if self.random.percent(50) {
            // Who waits lets others go first, then writes if it may. The outcome stays to be looked at.
            let before = store.status().written;
            let mut context = Context::from_waker(Waker::noop());
            let first = Pin::new(&mut ticket).poll(&mut context);
            if first.is_pending() {
                let _ = Pin::new(&mut ticket).poll(&mut context);
            }
            self.stats.led += u64::from(store.status().written > before);
        }
        op.ticket = Some(ticket);
        shard.ops.push(op);
        for (birth, body) in killed {
            if let Some(op) = shard.op(birth) {
                op.killers[body] = Some(number);
            }
        }
        self.stats.ops += 1;
    }

    fn step(&mut self) -> Result<bool, String> {
        let Some(store) = &self.store else {
            return Ok(false);
        };
        let before = store.status().synced.0;
        let flush = self.random.percent(50);
        let turn = store.step(flush);
        if let Turn::Wrote(_) = turn
            && !self.fs.is_off()
            && self.options.sync == Sync::Always
            && store.status().synced.0 > before
        {
            self.claimed = self.claimed.max(before);
        }
        self.take_committed()?;
        self.poll_tickets()?;
        if turn == Turn::Stopped && !self.fs.is_off() && !self.syncs_fail {
            return Err("the store stopped without a cause".to_owned());
        }
        Ok(turn != Turn::Stopped)
    }

    fn take_committed(&mut self) -> Check {
        for committed in std::mem::take(&mut *self.committed.lock()) {
            self.stats.elided += committed.bodies.iter().filter(|b| b.is_none()).count() as u64;
            self.shards[usize::from(committed.shard.0)].commit(&committed)?;
        }
        Ok(())
    }

    fn poll_tickets(&mut self) -> Check {
        for shard in &mut self.shards {
            let committed = shard.committed_op;
            for op in shard.ops.iter_mut().filter(|op| !op.confirmed) {
                let Some(outcome) = op.ticket.as_mut().and_then(Ticket::poll_now) else {
                    continue;
                };
                op.ticket = None;
                match outcome {
                    Ok(_) => {
                        op.confirmed = true;
                        self.stats.confirmed += 1;
                        if op.number > committed && !op.unwritten {
                            return Err(format!(
                                "op {} was answered before it was told",
                                op.number
                            ));
                        }
                    }
                    Err(SubmitError::Unknown) => {}
                    Err(SubmitError::Fenced) => return Err(format!("op {} was fenced", op.number)),
                }
            }
        }
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<bool, String> {
        let index = self.random.below(u64::from(SHARDS)) as usize;
        let idle = self.random.percent(50);
        let synced = Position(self.synced());
        let shard = &mut self.shards[index];
        if shard.stopped {
            return Ok(true);
        }
        let Some(store) = &self.store else {
            return Ok(false);
        };
        let mut next = Saved {
            applied: shard.committed_at.max(shard.saved.applied),
            state: shard.committed.clone(),
            op: shard.committed_op,
        };
        // With nothing in flight the shard's state is that of the end of the log.
        let all_told = shard
            .ops
            .last()
            .is_none_or(|op| op.number <= shard.committed_op);
        if idle && all_told {
            next.applied = next.applied.max(synced);
        }
        let mut batch: Vec<(Vec<u8>, Option<Vec<u8>>)> = Vec::new();
        for id in shard
            .saved
            .state
            .keys()
            .filter(|id| !next.state.contains_key(id))
        {
            batch.push((id.to_be_bytes().to_vec(), None));
        }
        for (id, at) in &next.state {
            if shard.saved.state.get(id) != Some(at) {
                let value = [at.position.0.to_le_bytes(), u64::from(at.len).to_le_bytes()].concat();
                batch.push((id.to_be_bytes().to_vec(), Some(value)));
            }
        }
        let outcome = store.checkpoint(shard.id, &batch, next.applied);
        // Interval mode syncs for a checkpoint, and that tells of commits.
        let good = match outcome {
            Ok(()) => {
                shard.saved = next;
                let done = shard.saved.op;
                shard.ops.retain(|op| op.number > done || !op.confirmed);
                self.stats.checkpoints += 1;
                true
            }
            Err(CheckpointError::Full) => true,
            Err(error) => {
                shard.saving = Some(next);
                if !self.fs.is_off() && !self.syncs_fail {
                    return Err(format!("a checkpoint failed without a cause: {error}"));
                }
                false
            }
        };
        self.take_committed()?;
        self.poll_tickets()?;
        self.count_segments();
        Ok(good)
    }

    fn count_segments(&mut self) {
        let Ok(names) = self.fs.list() else { return };
        let now = names.into_iter().filter(|n| n.ends_with(".seg")).collect();
        self.stats.rotated += now_minus(&now, &self.bases);
        self.stats.deleted += now_minus(&self.bases, &now);
        self.bases = now;
    }

    fn relocate(&mut self) -> Check {
        let Some(store) = &self.store else {
            return Ok(());
        };
        let percent = 20 + self.random.below(80);
        let Some(candidate) = store.reclaim_candidates(percent).first().copied() else {
            return Ok(());
        };
        for index in 0..self.shards.len() {
            let shard = &self.shards[index];
            if shard.stopped {
                continue;
            }
            let inside = shard.entries.iter().filter_map(|(id, entry)| {
                let at = entry.at?;
                let inside = (candidate.from..candidate.to).contains(&at.position);
                inside.then_some((*id, at))
            });
            let inside: Vec<(u64, BodyRef)> = inside.take(5).collect();
            let (mut commands, mut moved) = (Vec::new(), BTreeMap::new());
            for (id, at) in inside {
                let Some(bytes) = self.check_body(index, id, at)? else {
                    continue;
                };
                commands.push(Command::Move { id });
                moved.insert(id, bytes);
            }
            if !commands.is_empty() {
                self.stats.relocated += commands.len() as u64;
                self.submit_commands(index, commands, moved);
            }
        }
        Ok(())
    }

    fn read_one(&mut self) -> Check {
        let index = self.random.below(u64::from(SHARDS)) as usize;
        let shard = &self.shards[index];
        let known = shard
            .entries
            .iter()
            .filter_map(|(id, e)| Some((*id, e.at?)));
        let known: Vec<(u64, BodyRef)> = known.collect();
        if let Some((id, at)) = known.get(self.random.below(known.len() as u64) as usize) {
            self.check_body(index, *id, *at)?;
        }
        Ok(())
    }

    /// The right bytes, or none for a good reason.
    pub(super) fn check_body(
        &self,
        index: usize,
        id: u64,
        at: BodyRef,
    ) -> Result<Option<Bytes>, String> {
        let Some(store) = &self.store else {
            return Ok(None);
        };
        let shard = self.shards[index].id;
        match store.read(&[at]).remove(0) {
            Ok(bytes) if bytes == body(shard, id) => Ok(Some(bytes)),
            Ok(_) => Err(format!("message {id} has another body")),
            Err(ReadError::Corrupt(_)) if self.flipped => Ok(None),
            Err(_) if self.fs.is_off() => Ok(None),
            Err(error) => Err(format!("message {id} of shard {}: {error}", shard.0)),
        }
    }
}

fn now_minus(
    left: &std::collections::BTreeSet<String>,
    right: &std::collections::BTreeSet<String>,
) -> u64 {
    left.difference(right).count() as u64
}

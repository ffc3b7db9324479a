//! Reopening, and the comparison of what came back with what was answered.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use powerqueue_store::*;

use super::{
    model::*,
    world::{Check, PLENTY, World},
};

impl World {
    /// Opens, through further crashes, and checks everything.
    pub(super) fn open(&mut self) -> Check {
        if self.flipping && self.random.percent(40) {
            self.flip();
        }
        let mut attempts = 0;
        loop {
            attempts += 1;
            match self.random.below(10) {
                0 | 1 if attempts < 4 => self.fs.crash_after(1 + self.random.below(60)),
                2 if attempts < 4 => {
                    self.fs.fail_syncs(1);
                    self.syncs_fail = true;
                    self.stats.failed_syncs += 1;
                }
                _ => {}
            }
            let opened = self.open_once();
            self.fs.set_capacity(PLENTY);
            match opened {
                Ok(()) if !self.fs.is_off() => break,
                Err(Trouble::Violation(what)) => return Err(what),
                Ok(()) | Err(Trouble::Disk(_)) if self.fs.is_off() || self.syncs_fail => {
                    let cut = self.fs.is_off() || self.random.percent(50);
                    // As with a dying process: nothing more reaches the disk.
                    self.fs.freeze();
                    self.store = None;
                    self.interrupt(cut);
                }
                Ok(()) => break,
                Err(Trouble::Disk(what)) => return Err(format!("it does not open: {what}")),
            }
        }
        self.fs.crash_after(u64::MAX / 2);
        self.fs.fail_syncs(0);
        self.syncs_fail = false;
        self.power_was_cut = false;
        // An opening that did not get this far has served nobody.
        self.closed_cleanly = false;
        Ok(())
    }

    fn open_once(&mut self) -> Result<(), Trouble> {
        let fs: Arc<dyn Fs> = Arc::new(self.fs.clone());
        let store = Store::open(fs, self.options.clone()).map_err(disk)?;
        if store.was_clean() && !self.closed_cleanly && self.next_op > 1 {
            let nothing = self.shards.iter().all(|shard| shard.ops.is_empty());
            if !nothing {
                return Err(Trouble::Violation(
                    "an unclean end passed for a clean one".into(),
                ));
            }
        }
        let mut epochs = Vec::new();
        for shard in &self.shards {
            let epoch = store.claim(shard.id).map_err(disk)?;
            if epoch <= shard.epoch {
                return Err(Trouble::Violation("an epoch came twice".into()));
            }
            epochs.push(epoch);
        }
        for (shard, epoch) in self.shards.iter_mut().zip(epochs) {
            shard.epoch = epoch;
        }
        self.committed.lock().clear();
        let mut replayed: BTreeMap<ShardId, Vec<Seen>> = BTreeMap::new();
        let after = |shard| store.applied(shard);
        let summary = store.replay(&after, &mut |group| {
            replayed.entry(group.shard).or_default().push(Seen {
                op: group.op,
                position: group.position,
                records: group.records.to_vec(),
                bodies: group.bodies.to_vec(),
            });
        });
        let summary = summary.map_err(disk)?;
        if self.fs.is_off() {
            return Err(disk("the power failed during the replay"));
        }
        if !summary.damage.is_empty() && !self.flipped {
            return Err(Trouble::Violation(format!(
                "damage from nowhere: {:?}",
                summary.damage
            )));
        }
        let mut scanned = Vec::new();
        for shard in &self.shards {
            let rows = store.scan(shard.id, b"", None, usize::MAX).map_err(disk)?;
            scanned.push((
                store.applied(shard.id),
                rows.into_iter().map(row).collect::<State>(),
            ));
        }
        self.store = Some(store);
        let mut surviving_hint = 0;
        for (index, (applied, state)) in scanned.into_iter().enumerate() {
            let id = self.shards[index].id;
            if summary.damage.iter().any(|damage| damage.shard == id) {
                self.stats.damaged += u64::from(!self.shards[index].stopped);
                self.shards[index].stopped = true;
            }
            if self.shards[index].stopped {
                continue;
            }
            let seen = replayed.remove(&id).unwrap_or_default();
            let hint = self
                .check_shard(index, applied, state, &seen)
                .map_err(|what| Trouble::Violation(format!("shard {}: {what}", id.0)))?;
            surviving_hint = surviving_hint.max(hint);
        }
        if summary.high_water > self.max_hint {
            return Err(Trouble::Violation("a high water that nobody set".into()));
        }
        if summary.high_water < surviving_hint {
            return Err(Trouble::Violation(
                "the high water is below what was confirmed".into(),
            ));
        }
        self.begin().map_err(disk)
    }

    /// Compares a shard's replay with the oracle and takes it over as the new state. Returns its largest hint.
    fn check_shard(
        &mut self,
        index: usize,
        applied: Position,
        state: State,
        seen: &[Seen],
    ) -> Result<u64, String> {
        let lax = self.power_was_cut && self.options.sync != Sync::Always;
        let shard = &mut self.shards[index];
        if let Some(saving) = shard.saving.take()
            && saving.applied == applied
            && saving.state == state
        {
            shard.saved = saving;
        }
        let fresh = shard.saved.applied == Position(0) && shard.saved.state.is_empty();
        if state != shard.saved.state || (applied != shard.saved.applied && !fresh) {
            return Err("the checkpoint is not one that was written".to_owned());
        }
        shard.saved.applied = applied;
        let saved = shard.saved.clone();
        let mut live = state;
        let mut expected = shard
            .ops
            .iter()
            .filter(|op| op.number > saved.op && !op.unwritten);
        let last = seen.last().map_or(saved.op, |seen| seen.op);
        let mut hint = 0;
        for group in seen {
            let Some(op) = expected.next().filter(|op| op.number == group.op) else {
                return Err(format!("op {} is not the next one submitted", group.op));
            };
            if op.records != group.records || op.killers.len() != group.bodies.len() {
                return Err(format!("op {} came back changed", op.number));
            }
            for (killer, at) in op.killers.iter().zip(&group.bodies) {
                let killed = killer.is_some_and(|killer| {
                    let unwritten = shard
                        .ops
                        .iter()
                        .any(|op| op.number == killer && op.unwritten);
                    unwritten || killer <= last
                });
                if at.is_none() && !killed {
                    return Err(format!(
                        "op {}: a body is missing without its killer",
                        op.number
                    ));
                }
            }
            hint = hint.max(op.high_water);
            apply(&mut live, &op.commands, &group.bodies);
        }
        if let Some(lost) = expected.find(|op| op.confirmed)
            && !lax
        {
            return Err(format!("op {} was confirmed and is lost", lost.number));
        }
        let should = shard.expected(&saved, last);
        if !live.keys().copied().eq(should.iter().copied()) {
            let ops: Vec<_> = shard.ops.iter().map(describe).collect();
            let seen: Vec<_> = seen.iter().map(|s| (s.op, &s.bodies)).collect();
            return Err(format!(
                "live are {:?}, should be {should:?}; after {} of {ops:#?} came {seen:?}",
                live.keys(),
                saved.op
            ));
        }
        // What is not in the log but was answered goes on counting at every later replay.
        let holds = |op: &Op| op.number <= last || (op.unwritten && op.confirmed);
        shard.ops.retain(|op| op.number > saved.op && holds(op));
        for op in &mut shard.ops {
            op.confirmed = true;
            op.ticket = None;
        }
        shard.committed = live.clone();
        shard.committed_op = last.max(saved.op);
        shard.committed_at = seen.last().map_or(applied, |seen| seen.position);
        let entry = |(id, at): (u64, BodyRef)| {
            let entry = Entry {
                body: None,
                at: Some(at),
                born: (0, 0),
                moved: false,
            };
            (id, entry)
        };
        shard.entries = live.clone().into_iter().map(entry).collect();
        for (id, at) in live {
            self.check_body(index, id, at)?;
        }
        Ok(hint)
    }

    fn begin(&mut self) -> Result<(), StoreFailure> {
        let Some(store) = &self.store else {
            return Ok(());
        };
        for shard in &self.shards {
            // A stopped shard's bodies are not known; its segments are kept by its checkpoint.
            let live: Vec<BodyRef> = shard.committed.values().copied().collect();
            if !shard.stopped {
                store.retain(&live);
            }
        }
        let committed = self.committed.clone();
        store.prepare(
            Box::new(move |groups| committed.lock().extend_from_slice(groups)),
            Box::new(|_| {}),
        )
    }

    /// Flips a bit that something on the disk claims to have synced past.
    fn flip(&mut self) {
        let Ok(names) = self.fs.list() else { return };
        let segments = names.iter().filter_map(|name| {
            let base = u64::from_str_radix(name.strip_suffix(".seg")?, 16).ok()?;
            Some((name, base))
        });
        let below: Vec<_> = segments.filter(|(_, base)| *base < self.claimed).collect();
        let Some((name, base)) = below.get(self.random.below(below.len() as u64) as usize) else {
            return;
        };
        // Headers are a small part of a file and the most interesting one.
        let len = (self.claimed - base + 64).min(self.options.segment_bytes);
        let offset = self.random.below(len);
        if self.fs.flip(name, offset, self.random.below(8) as u8) {
            self.flipped = true;
            self.stats.flips += 1;
        }
    }
}

struct Seen {
    op: u64,
    position: Position,
    records: Vec<u8>,
    bodies: Vec<Option<BodyRef>>,
}

enum Trouble {
    Disk(String),
    Violation(String),
}

fn disk(error: impl std::fmt::Display) -> Trouble {
    Trouble::Disk(error.to_string())
}

fn row((key, value): (Bytes, Bytes)) -> (u64, BodyRef) {
    let number = |bytes: &[u8]| <[u8; 8]>::try_from(bytes).unwrap_or_default();
    let at = BodyRef {
        position: Position(u64::from_le_bytes(number(&value[..8]))),
        len: u64::from_le_bytes(number(&value[8..])) as u32,
    };
    (u64::from_be_bytes(number(&key)), at)
}

fn describe(op: &Op) -> String {
    format!(
        "{} {:?} unwritten {} confirmed {} killers {:?}",
        op.number, op.commands, op.unwritten, op.confirmed, op.killers
    )
}

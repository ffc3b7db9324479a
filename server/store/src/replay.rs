//! Replay: the log once, in order, with what cannot be read named.
//!
//! What is lost stops the shards it may concern and no others: a damaged group its own shard (the table names it), a
//! damaged header or table or a missing stretch every shard whose checkpoint lies before its end. Ranges that an
//! operator accepted are passed over.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    frame::Header,
    group::{BodyRef, Epoch, Position, ShardId},
    options::Mutation,
    segment::{Step, Walk, segment_name},
    segments::Segment,
    store::Shared,
};

/// One group from the log.
#[derive(Clone, Copy, Debug)]
pub struct Replayed<'a> {
    /// Whose group.
    pub shard: ShardId,
    /// The claim under which it was written.
    pub epoch: Epoch,
    /// Its number, as submitted.
    pub op: u64,
    /// The end of its commit, as in [`Committed`](crate::Committed).
    pub position: Position,
    /// The engine's records.
    pub records: &'a [u8],
    /// Where its bodies lie; `None` for one that was left out because nothing needed it.
    pub bodies: &'a [Option<BodyRef>],
}

/// What a replay saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplaySummary {
    /// The end of the log.
    pub end: Position,
    /// The largest hint of any group in it.
    pub high_water: u64,
    /// Groups handed out.
    pub groups: u64,
    /// Bytes of log walked.
    pub bytes: u64,
    /// What could not be read. Each shard named is stopped: nothing of it after the loss was handed out, and it
    /// accepts no groups and no checkpoints.
    pub damage: Vec<Damage>,
}

/// A loss that stops a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The shard that stops.
    pub shard: ShardId,
    /// Where the unreadable stretch begins.
    pub from: Position,
    /// Where the log can be read again.
    pub to: Position,
    /// The file with the damage, or the one that should follow it.
    pub file: String,
}

/// The log could not be read at all.
#[derive(Debug, thiserror::Error)]
#[error("the log cannot be read: {0}")]
pub struct ReplayError(#[from] std::io::Error);

struct Replay<'a> {
    shared: &'a Shared,
    after: &'a dyn Fn(ShardId) -> Position,
    each: &'a mut dyn FnMut(Replayed<'_>),
    stopped: BTreeSet<ShardId>,
    /// The checkpoints of every shard that ever claimed.
    known: BTreeMap<ShardId, u64>,
    bodies: Vec<Option<BodyRef>>,
    summary: ReplaySummary,
}

impl Shared {
    pub(crate) fn replay(
        &self,
        after: &dyn Fn(ShardId) -> Position,
        each: &mut dyn FnMut(Replayed<'_>),
    ) -> Result<ReplaySummary, ReplayError> {
        let (segments, end, high_water) = {
            let writer = self.writer.lock();
            (self.segments.snapshot(), writer.end, writer.high_water)
        };
        let rows = self.checkpoints.rows();
        let known: BTreeMap<_, _> = rows.iter().map(|(s, _)| (*s, after(*s).0)).collect();
        let mut replay = Replay {
            shared: self,
            after,
            each,
            stopped: BTreeSet::new(),
            known,
            bodies: Vec::new(),
            summary: ReplaySummary {
                end: Position(end),
                high_water,
                ..ReplaySummary::default()
            },
        };
        replay.all(&segments, end)?;
        for shard in &replay.stopped {
            self.queue.stop_shard(*shard);
        }
        Ok(replay.summary)
    }
}

impl Replay<'_> {
    fn all(&mut self, segments: &[Segment], end: u64) -> std::io::Result<()> {
        let needed_from = self.known.values().copied().min().unwrap_or(0);
        if let Some(first) = segments.first() {
            self.lost(0, first.header.base, first.header.base);
        }
        for (index, segment) in segments.iter().enumerate() {
            let next = segments.get(index + 1).map(|next| next.header.base);
            let limit = next.unwrap_or(end);
            if limit > needed_from {
                self.segment(segment, limit)?;
            }
        }
        Ok(())
    }

    /// Everything from the segment's base to `limit` should be there.
    fn segment(&mut self, segment: &Segment, limit: u64) -> std::io::Result<()> {
        let base = segment.header.base;
        let check_crc = !self.shared.options.mutated(Mutation::NoHeaderCheck);
        let walk = Walk::new(segment.file.clone(), &segment.header, limit, check_crc)?;
        let mut walk = walk.tolerant();
        let mut readable = base;
        while let Some(step) = walk.next()? {
            match step {
                Step::Frame(header) => {
                    match walk.frame(header) {
                        Some(frame) => self.frame(base, header, frame.groups()),
                        None => self.lost(header.position, header.end(), base),
                    }
                    readable = header.end();
                }
                // What follows the last frame of a sealed segment is empty space, judged below.
                Step::Bad { to, .. } if to == walk.limit() => break,
                Step::Bad { from, to } => {
                    self.lost(from, to, base);
                    readable = to;
                }
            }
        }
        self.summary.bytes += readable - base;
        // Up to the next segment there was a log: deleted ones that every checkpoint has passed, or a loss.
        self.lost(readable, limit, base);
        Ok(())
    }

    fn frame<'b>(
        &mut self,
        base: u64,
        header: Header,
        groups: impl Iterator<Item = Result<crate::frame::Incoming<'b>, ShardId>>,
    ) {
        let position = Position(header.end());
        for group in groups {
            let group = match group {
                Ok(group) => group,
                Err(shard) => {
                    let after = (self.after)(shard).0;
                    if after < position.0 && !self.accepted(header.position, position.0) {
                        self.stop(shard, header.position, position.0, base);
                    }
                    continue;
                }
            };
            if position <= (self.after)(group.shard) || self.stopped.contains(&group.shard) {
                continue;
            }
            self.bodies.clear();
            self.bodies.extend(group.bodies());
            self.summary.groups += 1;
            (self.each)(Replayed {
                shard: group.shard,
                epoch: group.epoch,
                op: group.op,
                position,
                records: group.records,
                bodies: &self.bodies,
            });
        }
    }

    /// A stretch without an owner: it may have been anybody's who still needs it.
    fn lost(&mut self, from: u64, to: u64, base: u64) {
        if from >= to || self.accepted(from, to) {
            return;
        }
        let concerned: Vec<ShardId> = self
            .known
            .iter()
            .filter(|(_, after)| **after < to)
            .map(|(shard, _)| *shard)
            .collect();
        for shard in concerned {
            self.stop(shard, from, to, base);
        }
    }

    fn stop(&mut self, shard: ShardId, from: u64, to: u64, base: u64) {
        self.shared.segments.keep(from);
        self.stopped.insert(shard);
        let damage = Damage {
            shard,
            from: Position(from),
            to: Position(to),
            file: segment_name(base),
        };
        if !self.summary.damage.contains(&damage) {
            tracing::error!(
                shard = shard.0,
                from,
                to,
                file = damage.file,
                "part of the log cannot be read"
            );
            self.summary.damage.push(damage);
        }
    }

    fn accepted(&self, from: u64, to: u64) -> bool {
        let accepted = self.shared.accepted.lock();
        accepted.iter().any(|(a, b)| *a <= from && to <= *b)
    }
}

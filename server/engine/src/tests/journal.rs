//! A store in memory that leaves out what may be left out and loses what may be lost.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;

use super::model::Model;
use crate::{BodyAt, BodyId, GroupOut};

/// A group in the log, and the model as it stood after it.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) group: GroupOut,
    pub(super) after: Model,
    pub(super) bodies: Vec<Option<BodyAt>>,
    /// Not written at all: it only settled what was not written either.
    pub(super) needless: bool,
}

#[derive(Debug, Default)]
pub(super) struct Journal {
    waiting: VecDeque<Written>,
    /// The cut that a dead body's killer is in, once it waits.
    dead: BTreeSet<BodyId>,
    pub(super) log: Vec<Written>,
    /// The log's length after each cut.
    cuts: Vec<usize>,
    /// How much of the log the shard was told of.
    pub(super) told: usize,
    pub(super) stored: BTreeMap<u64, Bytes>,
    /// Contents that were left out.
    pub(super) elided: BTreeSet<Bytes>,
    released: BTreeSet<u64>,
}

impl Journal {
    pub(super) fn submit(&mut self, group: GroupOut, after: Model) {
        let waits: BTreeSet<BodyId> = self
            .waiting
            .iter()
            .flat_map(|written| &written.group.bodies)
            .map(|(id, _)| *id)
            .collect();
        let needless = group.settles_only
            && group.bodies.is_empty()
            && group.released.is_empty()
            && !group.dead.is_empty()
            && group.dead.iter().all(|body| waits.contains(body));
        assert!(!group.settles_only || !group.durable || !group.dead.is_empty());
        for at in &group.released {
            assert!(
                self.released.insert(at.position),
                "{at:?} is released twice, now by {group:?}"
            );
        }
        if needless {
            // It dies at whatever cut carries it.
            self.dead.extend(&group.dead);
        }
        self.waiting.push_back(Written {
            group,
            after,
            bodies: vec![],
            needless,
        });
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Writes the first so many that wait.
    pub(super) fn cut(&mut self, count: usize) {
        let count = count.min(self.waiting.len());
        if count == 0 {
            return;
        }
        let killed: Vec<BodyId> = self
            .waiting
            .iter()
            .take(count)
            .flat_map(|written| written.group.dead.clone())
            .collect();
        self.dead.extend(killed);
        for mut written in self.waiting.drain(..count) {
            for (id, bytes) in &written.group.bodies {
                if self.dead.contains(id) {
                    self.elided.insert(bytes.clone());
                    written.bodies.push(None);
                    continue;
                }
                let position = self.stored.len() as u64 * 100 + 7;
                self.stored.insert(position, bytes.clone());
                written.bodies.push(Some(BodyAt {
                    position,
                    len: bytes.len() as u32,
                }));
            }
            self.log.push(written);
        }
        self.cuts.push(self.log.len());
    }

    /// The next group that the shard is told of.
    pub(super) fn tell(&mut self) -> Option<(crate::OpNo, Vec<Option<BodyAt>>)> {
        let written = self.log.get(self.told)?;
        self.told += 1;
        Some((written.group.op, written.bodies.clone()))
    }

    /// Loses what waits and, of the cuts that the shard was not told of, as many as `lose` says.
    pub(super) fn crash(&mut self, lose: usize) {
        self.waiting.clear();
        self.dead.clear();
        let told = self.told;
        for _ in 0..lose {
            match self.cuts.as_slice() {
                [.., before, _] if *before >= told => {
                    self.cuts.pop();
                }
                [_] if told == 0 => {
                    self.cuts.pop();
                }
                _ => break,
            }
        }
        self.log.truncate(self.cuts.last().copied().unwrap_or(0));
        self.told = self.log.len();
        // The next life counts anew what lies there and is not wanted.
        self.released.clear();
    }
}

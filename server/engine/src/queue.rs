//! A queue in memory: about 200 bytes, and a box for what most queues never use.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use crate::{
    dedup::DedupMemory,
    entry::{Entry, State},
    group::{Group, Groups},
    ids::{Millis, QueueId, ReceiverId, Seq, TenantId},
    index::Index,
    ready::Ready,
    settings::{Origin, QueueSettings},
    slab::Slab,
};

#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) id: QueueId,
    pub(crate) tenant: TenantId,
    pub(crate) name: Arc<str>,
    pub(crate) settings: Arc<QueueSettings>,
    pub(crate) origin: Origin,
    pub(crate) created_at: Millis,
    pub(crate) modified_at: Millis,
    pub(crate) purged_at: Millis,
    /// When somebody last named it, or it last became empty. A cell, since looking at a queue is using it.
    pub(crate) used_at: Cell<Millis>,
    pub(crate) next_seq: Seq,
    /// Every message, whatever its state.
    pub(crate) index: Index,
    /// What messages without a group and without a priority wait in.
    ready: Ready,
    /// What the messages are charged.
    pub(crate) bytes: u64,
    counts: [u32; 7],
    rare: Option<Box<Rare>>,
}

/// What most queues do without.
#[derive(Debug, Default)]
pub(crate) struct Rare {
    pub(crate) groups: Groups,
    pub(crate) dedup: DedupMemory,
    /// Ready messages of priority 1 and up.
    priorities: BTreeMap<u8, Ready>,
    /// Receivers with credit, in turn.
    pub(crate) waiting: VecDeque<ReceiverId>,
    pub(crate) receivers: BTreeSet<ReceiverId>,
    /// In the order they began; a message sees all of them in that order.
    pub(crate) sweeps: VecDeque<Sweep>,
    /// The number of the last one.
    pub(crate) last_sweep: u32,
}

/// A change to every message below `end`, made in slices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sweep {
    pub(crate) number: u32,
    pub(crate) next: Seq,
    pub(crate) end: Seq,
    /// Whether lifetimes and delays follow the queue's new settings.
    pub(crate) retime: bool,
    pub(crate) seek: Option<Seek>,
}

/// Messages below the boundary are acknowledged, those from it on are not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seek {
    pub(crate) boundary: Seq,
    pub(crate) acked_until: Millis,
}

/// What a purged or deleted queue leaves behind, to be taken apart in slices. No reader sees it.
#[derive(Debug)]
pub(crate) struct Grave {
    pub(crate) index: Index,
    ready: Ready,
    rare: Option<Box<Rare>>,
}

impl Default for Queue {
    fn default() -> Self {
        Self::new(
            QueueId(0),
            TenantId(0),
            Arc::from(""),
            Arc::default(),
            Origin::Explicit,
            Millis::ZERO,
        )
    }
}

impl Queue {
    pub(crate) fn new(
        id: QueueId,
        tenant: TenantId,
        name: Arc<str>,
        settings: Arc<QueueSettings>,
        origin: Origin,
        now: Millis,
    ) -> Self {
        Self {
            id,
            tenant,
            name,
            settings,
            origin,
            created_at: now,
            modified_at: now,
            purged_at: Millis::ZERO,
            used_at: Cell::new(now),
            next_seq: Seq(1),
            index: Index::default(),
            ready: Ready::default(),
            bytes: 0,
            counts: [0; 7],
            rare: None,
        }
    }

    pub(crate) fn rare(&self) -> Option<&Rare> {
        self.rare.as_deref()
    }

    pub(crate) fn rare_mut(&mut self) -> Option<&mut Rare> {
        self.rare.as_deref_mut()
    }

    pub(crate) fn make_rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    pub(crate) fn count(&self, state: State) -> u32 {
        self.counts[state as usize]
    }

    pub(crate) fn count_changed(&mut self, from: State, to: State) {
        self.counts[from as usize] = self.counts[from as usize].saturating_sub(1);
        self.counts[to as usize] += 1;
        self.counts[State::Free as usize] = 0;
    }

    /// Puts a ready message where receivers look for it.
    pub(crate) fn make_ready(&mut self, entries: &mut Slab<Entry>, key: u32) {
        let priority = entries[key].priority;
        self.line_mut(priority).insert(entries, key);
    }

    /// Takes a ready message from where receivers look for it.
    pub(crate) fn unmake_ready(&mut self, entries: &mut Slab<Entry>, key: u32) {
        let priority = entries[key].priority;
        self.line_mut(priority).remove(entries, key);
    }

    /// The next message of a queue without groups.
    pub(crate) fn first_ready(&self, entries: &Slab<Entry>) -> Option<u32> {
        self.rare()
            .and_then(|rare| {
                rare.priorities
                    .values()
                    .rev()
                    .find_map(|line| line.first(entries))
            })
            .or_else(|| self.ready.first(entries))
    }

    /// The next message, with groups or without.
    pub(crate) fn first(&self, entries: &Slab<Entry>, groups: &Slab<Group>) -> Option<u32> {
        match self.settings.groups {
            None => self.first_ready(entries),
            Some(_) => self
                .rare()?
                .groups
                .first_available()
                .map(|group| groups[group].first()),
        }
    }

    fn line_mut(&mut self, priority: u8) -> &mut Ready {
        match priority {
            0 => &mut self.ready,
            priority => self.make_rare().priorities.entry(priority).or_default(),
        }
    }

    /// Empties the queue at once; what it held is to be taken apart later.
    pub(crate) fn bury(&mut self) -> Grave {
        self.counts = [0; 7];
        self.bytes = 0;
        let rare = self.rare.take().map(|mut buried| {
            let mut kept = Rare {
                waiting: std::mem::take(&mut buried.waiting),
                ..Rare::default()
            };
            kept.receivers = std::mem::take(&mut buried.receivers);
            self.rare = Some(Box::new(kept));
            buried
        });
        Grave {
            index: std::mem::take(&mut self.index),
            ready: std::mem::take(&mut self.ready),
            rare,
        }
    }
}

impl Grave {
    /// Takes some of it apart besides the messages; whether anything is left.
    pub(crate) fn forget_some(&mut self, groups: &mut Slab<Group>, limit: usize) -> bool {
        if self.ready.forget_some(limit) {
            return true;
        }
        let Some(rare) = self.rare.as_deref_mut() else {
            return false;
        };
        if let Some(mut line) = rare.priorities.first_entry() {
            if !line.get_mut().forget_some(limit) {
                line.remove();
            }
            return true;
        }
        rare.groups.forget_some(groups, limit) || rare.dedup.forget_some(limit)
    }
}

#[cfg(test)]
impl Queue {
    /// The lines of ready messages by priority.
    pub(crate) fn lines(&self) -> Vec<(u8, &Ready)> {
        let higher = self.rare().into_iter().flat_map(|rare| &rare.priorities);
        std::iter::once((0, &self.ready))
            .chain(higher.map(|(priority, line)| (*priority, line)))
            .collect()
    }
}

#[cfg(test)]
impl Grave {
    pub(crate) fn group_count(&self) -> usize {
        self.rare
            .as_ref()
            .map_or(0, |rare| rare.groups.slots().len())
    }
}

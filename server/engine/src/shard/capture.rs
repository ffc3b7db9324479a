//! Checkpoints, taken in slices while the shard works.
//!
//! A capture starts at a position of the log that the shard has caught up with, and may show anything that happened
//! after it, piece by piece: replaying the log from that position brings every piece to the same moment, because
//! records can be applied twice (see [`record`](crate::record)).
//!
//! For the same reason a finished capture may be put in force only once [`Shard::last_op`], asked after its last piece, is
//! durable: a piece can show one half of a move or a transaction whose group a crash would lose.

use std::ops::Bound;

use crate::{
    entry::State,
    ids::{Millis, QueueId, Seq, TenantId},
    record::Record,
    shard::{SLICE, Shard, encode_settings},
};

/// Where a capture stands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Capture(Stage);

#[derive(Clone, Copy, Debug, Default)]
enum Stage {
    #[default]
    Counters,
    /// Tenants after this one.
    Tenants(Option<TenantId>),
    /// Queues after this one.
    Queues(Option<QueueId>),
    /// This queue, once no sweep is under way: half of one cannot be told from the log.
    Queue(QueueId),
    /// Deduplication ids of this queue, from the so-many-th on.
    Remembered(QueueId, u64),
    /// Messages of this queue from here on.
    Messages(QueueId, Seq),
    Done,
}

impl Capture {
    /// Whether everything was captured.
    pub fn is_done(&self) -> bool {
        matches!(self.0, Stage::Done)
    }
}

impl Shard {
    /// The next slice of the shard's state, in records for [`Recovery`](crate::Recovery).
    pub fn capture(&self, capture: &mut Capture) -> Vec<u8> {
        self.capture_slice(capture, SLICE)
    }

    /// A slice of so many steps.
    pub(crate) fn capture_slice(&self, capture: &mut Capture, mut budget: usize) -> Vec<u8> {
        let mut out = Vec::new();
        while budget > 0 && !capture.is_done() {
            budget -= 1;
            capture.0 = match capture.0 {
                Stage::Counters => {
                    self.counters().write(&mut out);
                    let served = self.served;
                    Record::Served { served }.write(&mut out);
                    Stage::Tenants(None)
                }
                Stage::Tenants(after) => match next(&self.tenants, after) {
                    Some(id) => {
                        self.capture_tenant(id, &mut out);
                        Stage::Tenants(Some(id))
                    }
                    None => Stage::Queues(None),
                },
                Stage::Queues(after) => match next(&self.queue_slots, after) {
                    Some(id) => Stage::Queue(id),
                    None => Stage::Done,
                },
                Stage::Queue(id) if self.is_swept(id) => return out,
                Stage::Queue(id) => {
                    self.capture_queue(id, &mut out);
                    Stage::Remembered(id, 0)
                }
                Stage::Remembered(id, from) => {
                    match self.capture_remembered(id, from, &mut budget, &mut out) {
                        Some(next) => Stage::Remembered(id, next),
                        None => Stage::Messages(id, Seq(0)),
                    }
                }
                Stage::Messages(id, _) if self.is_swept(id) => return out,
                Stage::Messages(id, from) => {
                    match self.capture_messages(id, from, &mut budget, &mut out) {
                        Some(next) => Stage::Messages(id, next),
                        None => Stage::Queues(Some(id)),
                    }
                }
                Stage::Done => Stage::Done,
            };
        }
        out
    }

    fn counters(&self) -> Record<'static> {
        Record::Counters {
            queue: self.next_queue,
            tenant: self.next_tenant,
            account: self.next_account,
            body: self.bodies.next_id().0,
            now: self.now,
        }
    }

    fn capture_tenant(&self, id: TenantId, out: &mut Vec<u8>) {
        let Some(tenant) = self.tenants.get(&id) else {
            return;
        };
        Record::Tenant {
            id,
            account: tenant.account,
            name: &tenant.name,
            at: Millis::ZERO,
        }
        .write(out);
        Record::Seen {
            tenant: id,
            served: tenant.seen,
        }
        .write(out);
        for (name, until) in &tenant.tombstones {
            Record::Tombstone {
                tenant: id,
                name,
                until: *until,
            }
            .write(out);
        }
        for (key, value) in &tenant.documents {
            Record::Document {
                tenant: id,
                key,
                value: Some(value),
            }
            .write(out);
        }
    }

    fn capture_queue(&self, id: QueueId, out: &mut Vec<u8>) {
        let Ok(slot) = self.queue_slot(id) else {
            return;
        };
        let queue = &self.queues[slot];
        self.queue_record(slot, |record| record.write(out));
        Record::Progress {
            queue: id,
            next_seq: queue.next_seq,
            purged_at: queue.purged_at,
        }
        .write(out);
    }

    fn is_swept(&self, id: QueueId) -> bool {
        self.queue_slots
            .get(&id)
            .is_some_and(|slot| self.sweeping.contains(slot))
    }

    fn capture_remembered(
        &self,
        id: QueueId,
        from: u64,
        budget: &mut usize,
        out: &mut Vec<u8>,
    ) -> Option<u64> {
        let slot = self.queue_slot(id).ok()?;
        let (slice, next) = self.queues[slot].rare()?.dedup.slice(from, *budget);
        for (hash, remembered) in slice {
            *budget = budget.saturating_sub(1);
            let record = Record::Remembered {
                queue: id,
                hash,
                id: remembered.id,
                seq: remembered.seq,
                expires_at: remembered.expires_at,
                charge: remembered.charge,
            };
            record.write(out);
        }
        next
    }

    /// States a queue with its settings.
    pub(crate) fn queue_record<T>(&self, slot: u32, write: impl FnOnce(&Record<'_>) -> T) -> T {
        let queue = &self.queues[slot];
        let settings = encode_settings(&queue.settings);
        write(&Record::Queue {
            id: queue.id,
            tenant: queue.tenant,
            name: &queue.name,
            created_at: queue.created_at,
            modified_at: queue.modified_at,
            origin: queue.origin,
            settings: &settings,
        })
    }

    fn capture_messages(
        &self,
        id: QueueId,
        from: Seq,
        budget: &mut usize,
        out: &mut Vec<u8>,
    ) -> Option<Seq> {
        let slot = self.queue_slot(id).ok()?;
        for (seq, key) in self.queues[slot].index.from(from) {
            if *budget == 0 {
                return Some(seq);
            }
            *budget -= 1;
            let entry = &self.entries[key];
            // What is not written yet comes after the capture's position in the log.
            if entry.state != State::Held && self.bodies.at(entry.body).is_some() {
                self.image(key, |image| Record::Entry(image).write(out));
            }
        }
        None
    }
}

fn next<K: Copy + Ord, V>(map: &std::collections::BTreeMap<K, V>, after: Option<K>) -> Option<K> {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    map.range((from, Bound::Unbounded))
        .next()
        .map(|(id, _)| *id)
}

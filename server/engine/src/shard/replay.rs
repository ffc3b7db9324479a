//! Recovery: a shard made anew from its checkpoint and the journal after it.
//!
//! Records may state what the checkpoint shows already, or speak of what it no longer has; both are passed over.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    dedup::Remembered,
    entry::State,
    ids::{BodyAt, BodyId, Epoch, Millis, OpNo, QueueId, Seq, TenantId},
    message::Overlay,
    queue::{Queue, Seek, Sweep},
    record::{BadRecord, Copied, Image, Record, Standing},
    settings::{Limits, QueueSettings},
    shard::{SHARD_BITS, Shard, life::Birth},
    tenant::Tenant,
};

/// How far ids jump after an unclean end, times the epoch: what was given out and then lost is never given again, nor is
/// it after a life of which the journal has nothing.
const JUMP: u64 = 1 << 20;

/// A shard in the making.
#[derive(Debug)]
pub struct Recovery {
    shard: Shard,
    bodies: BTreeMap<BodyId, u32>,
    /// Where bodies went, known before the entries that refer to them.
    relocated: BTreeMap<BodyId, BodyAt>,
    /// Queues whose name has passed to another; the record of their end is still to come, or that of their tenant's.
    nameless: BTreeMap<TenantId, Vec<QueueId>>,
}

impl Recovery {
    /// Begins with nothing.
    pub fn new(number: u8, epoch: Epoch, limits: Limits, now: Millis) -> Self {
        Self {
            shard: Shard::new(number, epoch, limits, now),
            bodies: BTreeMap::new(),
            relocated: BTreeMap::new(),
            nameless: BTreeMap::new(),
        }
    }

    /// Applies a group of the journal, or a piece of a checkpoint; `bodies` says where the group's bodies lie, `None` for one
    /// that was left out because its message was settled before it was written.
    pub fn apply(
        &mut self,
        mut records: &[u8],
        bodies: &[Option<BodyAt>],
    ) -> Result<(), BadRecord> {
        while !records.is_empty() {
            let record = Record::read(&mut records)?;
            self.apply_record(record, bodies)?;
        }
        self.shard.draft = Default::default();
        Ok(())
    }

    /// The shard as it stood. `clean` says that the last life ended in order, so that nothing was given out and lost.
    pub fn finish(mut self, now: Millis, clean: bool) -> Shard {
        let shard = &mut self.shard;
        shard.now = shard.now.max(now);
        if !clean {
            let jump = JUMP * u64::from(shard.epoch.0).max(1);
            shard.next_queue += jump;
            shard.next_tenant += jump;
            shard
                .bodies
                .skip_to(BodyId(shard.bodies.next_id().0 + jump));
            for slot in shard.queue_slots.values() {
                shard.queues[*slot].next_seq.0 += jump;
            }
        }
        shard.start_idle_clocks();
        shard.draft = Default::default();
        self.shard
    }

    fn apply_record(
        &mut self,
        record: Record<'_>,
        bodies: &[Option<BodyAt>],
    ) -> Result<(), BadRecord> {
        let body_at = |index: u32| {
            bodies
                .get(index as usize)
                .copied()
                .ok_or(BadRecord("it counts a body that is not there"))
        };
        match record {
            Record::Tenant {
                id,
                account,
                name,
                at,
            } => self.tenant(id, account, name, at),
            Record::TenantGone { id } => {
                for queue in self.nameless.remove(&id).unwrap_or_default() {
                    self.shard.drop_queue(queue);
                }
                self.shard.drop_tenant(id);
            }
            Record::Seen { tenant, served } => self.shard.see_tenant(tenant, served),
            Record::Served { served } => self.shard.served = self.shard.served.max(served),
            Record::Queue { .. } => self.queue(&record)?,
            Record::QueueGone { id } => self.shard.drop_queue(id),
            Record::Tombstone {
                tenant,
                name,
                until,
            } => self.shard.bury_name(tenant, Arc::from(name), until),
            Record::Purged { queue, below, at } => self.purged(queue, below, at),
            Record::Sent {
                body,
                index,
                charge,
                at,
                copies,
            } => {
                self.shard.now = self.shard.now.max(at);
                self.shard.bodies.skip_to(BodyId(body.0 + 1));
                let lies = body_at(index)?;
                for copy in &copies {
                    self.copied(copy, at, body, lies, charge);
                }
            }
            Record::Gone { queue, seq } => self.gone(queue, seq),
            Record::Lease {
                queue,
                seq,
                standing,
                due,
                deliveries,
                first_delivered_at,
            } => {
                if let Some(key) = self.shard.find(queue, seq) {
                    let entry = &mut self.shard.entries[key];
                    entry.deliveries = deliveries;
                    entry.first_delivered_at = first_delivered_at;
                    self.stand(key, standing, due);
                }
            }
            Record::Acked { queue, seq, until } => {
                self.stand_at(queue, seq, Standing::Acked, until)
            }
            Record::Deferred { queue, seq } => {
                self.stand_at(queue, seq, Standing::Deferred, Millis::NEVER)
            }
            Record::Moved { queue, seq, to } => {
                let known = self
                    .shard
                    .find(queue, seq)
                    .and_then(|key| self.shard.bodies.at(self.shard.entries[key].body));
                self.image(&Image {
                    at: known.or(to.at),
                    ..to
                });
                self.gone(queue, seq);
            }
            Record::Sought {
                queue,
                boundary,
                end,
                acked_until,
            } => self.sought(queue, boundary, end, acked_until),
            Record::Document { tenant, key, value } => self.shard.set_document(tenant, key, value),
            Record::Relocated { body, index } => {
                if let Some(at) = body_at(index)? {
                    self.relocated.insert(body, at);
                    if let Some(slot) = self.bodies.get(&body) {
                        self.shard.bodies.written(*slot, at);
                    }
                }
            }
            Record::Progress {
                queue,
                next_seq,
                purged_at,
            } => {
                if let Ok(slot) = self.shard.queue_slot(queue) {
                    let queue = &mut self.shard.queues[slot];
                    queue.next_seq = queue.next_seq.max(next_seq);
                    queue.purged_at = queue.purged_at.max(purged_at);
                }
            }
            Record::Remembered {
                queue,
                hash,
                id,
                seq,
                expires_at,
                charge,
            } => {
                if let Ok(slot) = self.shard.queue_slot(queue) {
                    self.shard.remember(
                        slot,
                        hash,
                        Remembered {
                            id,
                            seq,
                            expires_at,
                            charge,
                            op: OpNo(0),
                        },
                    );
                }
            }
            Record::Entry(image) => self.image(&image),
            Record::Counters {
                queue,
                tenant,
                account,
                body,
                now,
            } => {
                let shard = &mut self.shard;
                shard.next_queue = shard.next_queue.max(queue);
                shard.next_tenant = shard.next_tenant.max(tenant);
                shard.next_account = shard.next_account.max(account);
                shard.bodies.skip_to(BodyId(body));
                shard.now = shard.now.max(now);
            }
        }
        Ok(())
    }

    fn tenant(&mut self, id: TenantId, account: u64, name: &str, at: Millis) {
        let shard = &mut self.shard;
        shard.now = shard.now.max(at);
        shard.next_tenant = shard.next_tenant.max((id.0 >> SHARD_BITS) + 1);
        shard.next_account = shard.next_account.max(account % 1_000_000_000 + 1);
        if shard.tenants.contains_key(&id) {
            // The name may have gone by way of an older tenant, which the checkpoint no longer has.
            shard.tenant_names.insert(Arc::from(name), id);
        } else {
            shard.add_tenant(Tenant::new(id, Arc::from(name), account));
        }
    }

    fn queue(&mut self, record: &Record<'_>) -> Result<(), BadRecord> {
        let Record::Queue {
            id,
            tenant,
            name,
            created_at,
            modified_at,
            origin,
            settings,
        } = *record
        else {
            return Ok(());
        };
        let settings: QueueSettings = postcard::from_bytes(settings)
            .map_err(|_| BadRecord("a queue's settings are of another kind"))?;
        let shard = &mut self.shard;
        shard.now = shard.now.max(modified_at);
        shard.next_queue = shard.next_queue.max((id.0 >> SHARD_BITS) + 1);
        let Some(holder) = shard.tenants.get(&tenant) else {
            return Ok(());
        };
        let named_before = holder.queues.get(name).copied();
        match shard.queue_slot(id) {
            Ok(slot) if shard.queues[slot].tenant != tenant => {
                return Err(BadRecord("a queue changes its tenant"));
            }
            Ok(slot) => {
                // The checkpoint may have these settings already and yet lack messages that were sent under the ones
                // before, so that their lifetimes follow in any case.
                shard.replace_settings(slot, settings);
                let everything = Sweep {
                    number: 0,
                    next: Seq(0),
                    end: Seq(u64::MAX),
                    retime: true,
                    seek: None,
                };
                self.sweep(slot, &everything);
                let queue = &mut self.shard.queues[slot];
                queue.modified_at = modified_at;
                queue.origin = origin;
            }
            Err(_) => {
                let settings = shard.intern(settings);
                let mut queue =
                    Queue::new(id, tenant, Arc::from(name), settings, origin, created_at);
                queue.modified_at = modified_at;
                shard.add_queue(queue);
            }
        }
        self.shard.name_queue(id);
        if let Some(before) = named_before.filter(|before| *before != id) {
            self.nameless.entry(tenant).or_default().push(before);
        }
        Ok(())
    }

    fn purged(&mut self, queue: QueueId, below: Seq, at: Millis) {
        let Ok(slot) = self.shard.queue_slot(queue) else {
            return;
        };
        let gone: Vec<Seq> = self.shard.queues[slot]
            .index
            .from(Seq(0))
            .map(|(seq, _)| seq)
            .take_while(|seq| *seq < below)
            .collect();
        for seq in gone {
            self.gone(queue, seq);
        }
        self.shard.forget_dedup(slot);
        let queue = &mut self.shard.queues[slot];
        queue.purged_at = queue.purged_at.max(at);
        queue.next_seq = queue.next_seq.max(below);
    }

    fn copied(
        &mut self,
        copy: &Copied<'_>,
        at: Millis,
        body: BodyId,
        lies: Option<BodyAt>,
        charge: u32,
    ) {
        let Ok(slot) = self.shard.queue_slot(copy.queue) else {
            // Deleted before the checkpoint got to it; but the message may have been moved out of it before.
            self.relocated.extend(lies.map(|at| (body, at)));
            return;
        };
        if let Some(dedup) = copy.dedup {
            let remembered = Remembered {
                id: dedup.id,
                seq: copy.seq,
                expires_at: dedup.expires_at,
                charge: dedup.charge,
                op: OpNo(0),
            };
            self.shard.remember(slot, dedup.hash, remembered);
        }
        let queue = &mut self.shard.queues[slot];
        queue.next_seq = queue.next_seq.max(Seq(copy.seq.0 + 1));
        if lies.is_none() {
            return;
        }
        self.image(&Image {
            queue: copy.queue,
            seq: copy.seq,
            body,
            at: lies,
            charge,
            enqueued_at: at,
            expires_at: copy.expires_at,
            due: copy.due,
            first_delivered_at: Millis::ZERO,
            deliveries: 0,
            priority: copy.priority,
            own_ttl: copy.own_ttl,
            standing: Standing::Waiting,
            group: copy.group,
            dead_letter_source: None,
            id: None,
        });
    }

    /// Puts a message where the image says, unless it is there.
    fn image(&mut self, image: &Image<'_>) {
        let Ok(slot) = self.shard.queue_slot(image.queue) else {
            return;
        };
        let queue = &mut self.shard.queues[slot];
        queue.next_seq = queue.next_seq.max(Seq(image.seq.0 + 1));
        if queue.index.get(image.seq).is_some() {
            return;
        }
        let at = self.relocated.get(&image.body).copied().or(image.at);
        let body = match (self.bodies.get(&image.body), at) {
            (Some(body), _) => *body,
            (None, Some(at)) => {
                let body = self.shard.bodies.stored(image.body, at, image.charge);
                self.bodies.insert(image.body, body);
                body
            }
            // Left out of the log: settled before it was written.
            (None, None) => return,
        };
        let key = self.shard.add_entry(
            slot,
            Birth {
                seq: image.seq,
                body,
                enqueued_at: image.enqueued_at,
                expires_at: image.expires_at,
                due: image.due,
                own_ttl: image.own_ttl,
                priority: image.priority,
                group: image.group.map(Arc::from),
                state: State::Held,
            },
        );
        let entry = &mut self.shard.entries[key];
        entry.deliveries = image.deliveries;
        entry.first_delivered_at = image.first_delivered_at;
        if image.dead_letter_source.is_some() || image.id.is_some() {
            entry.overlaid = true;
            let overlay = Overlay {
                dead_letter_source: image.dead_letter_source.map(Arc::from),
                id: image.id,
            };
            self.shard.overlays.insert(key, Arc::new(overlay));
        }
        self.stand(key, image.standing, image.due);
    }

    fn gone(&mut self, queue: QueueId, seq: Seq) {
        let Some(key) = self.shard.find(queue, seq) else {
            return;
        };
        let body = self.shard.entries[key].body;
        let id = self.shard.bodies.id(body);
        self.shard.remove_silently(key);
        if !self.shard.bodies.is(body, id) {
            self.bodies.remove(&id);
        }
    }

    fn stand_at(&mut self, queue: QueueId, seq: Seq, standing: Standing, due: Millis) {
        if let Some(key) = self.shard.find(queue, seq) {
            self.stand(key, standing, due);
        }
    }

    fn stand(&mut self, key: u32, standing: Standing, due: Millis) {
        let state = match standing {
            Standing::Waiting if due > self.shard.now => State::Delayed,
            Standing::Waiting => State::Ready,
            Standing::Leased => State::Leased,
            Standing::Deferred => State::Deferred,
            Standing::Acked => State::Acked,
        };
        self.shard.set_state(key, state, due);
    }

    fn sought(&mut self, queue: QueueId, boundary: Seq, end: Seq, acked_until: Millis) {
        if let Ok(slot) = self.shard.queue_slot(queue) {
            let seek = Some(Seek {
                boundary,
                acked_until,
            });
            self.sweep(
                slot,
                &Sweep {
                    number: 0,
                    next: Seq(0),
                    end,
                    retime: false,
                    seek,
                },
            );
        }
    }

    fn sweep(&mut self, slot: u32, sweep: &Sweep) {
        let keys: Vec<u32> = self.shard.queues[slot]
            .index
            .from(Seq(0))
            .take_while(|(seq, _)| *seq < sweep.end)
            .map(|(_, key)| key)
            .collect();
        for key in keys {
            self.shard.sweep_entry(slot, key, sweep);
        }
    }
}

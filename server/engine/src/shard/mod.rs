//! A shard: some tenants with everything that is theirs, under one lock of the driver's.
//!
//! Every entrance takes `now` and leaves an [`Output`]: the records to journal as one atomic group, and what is to be
//! done about waiting receivers. Nothing in here reads a clock, blocks, or walks more than about a thousand messages.

mod capture;
mod entities;
mod idle;
pub(crate) mod life;
mod replay;
mod serve;
mod time;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
pub use capture::Capture;
pub(crate) use entities::settings_charge;
pub use replay::Recovery;

use crate::{
    body::{Bodies, Freed},
    entry::Entry,
    error::{Error, Result},
    group::Group,
    ids::{BodyAt, BodyId, Epoch, Millis, OpNo, QueueId, ReceiverId, Seq, TenantId},
    message::{Delivery, Overlay},
    queue::{Grave, Queue},
    record::Record,
    settings::{Limits, QueueSettings},
    slab::Slab,
    tenant::{Tenant, Usage},
    tx::Tx,
    wheel::Wheel,
};

/// How many messages one entrance touches at most, besides those it is asked for.
pub(crate) const SLICE: usize = 500;

/// Shard numbers are the low byte of every id, so that an id says where it lives.
const SHARD_BITS: u32 = 8;

/// What an entrance leaves to the driver.
#[derive(Debug, Default)]
pub struct Output {
    /// What to journal; `None` if nothing changed that the journal must know.
    pub group: Option<GroupOut>,
    /// What to do now, in order.
    pub effects: Vec<Effect>,
}

/// A group for the journal.
#[derive(Debug, Default)]
pub struct GroupOut {
    /// Its number, to be given back to [`Shard::durable`].
    pub op: OpNo,
    /// The records; empty for a barrier or for mere releases.
    pub records: Bytes,
    /// Bodies born with the group, in the order that the records count them.
    pub bodies: Vec<(BodyId, Bytes)>,
    /// Bodies not known to be written, to which nothing refers any more.
    pub dead: Vec<BodyId>,
    /// Written bodies to which nothing refers any more.
    pub released: Vec<BodyAt>,
    /// Whether an answer waits for it.
    pub durable: bool,
    /// Whether it says no more than that its `dead` bodies' messages are gone.
    pub settles_only: bool,
}

/// What the driver must do.
#[derive(Debug)]
pub enum Effect {
    /// These messages were leased for that receiver.
    Deliver {
        /// The receiver.
        receiver: ReceiverId,
        /// What it gets.
        deliveries: Vec<Delivery>,
    },
    /// The receiver's queue is gone, and the receiver with it.
    End {
        /// The receiver.
        receiver: ReceiverId,
    },
}

/// What a shard holds, for metrics.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Tenants.
    pub tenants: u64,
    /// Queues.
    pub queues: u64,
    /// Messages, those of purged queues not yet taken apart included.
    pub entries: u64,
    /// Bodies.
    pub bodies: u64,
    /// Bytes of bodies held in memory until the disk has them.
    pub pinned_bytes: u64,
    /// Waiting receivers.
    pub receivers: u64,
    /// Queues deleted because they were idle, in this life.
    pub reaped: u64,
}

/// See the module's page.
#[derive(Debug)]
pub struct Shard {
    number: u8,
    epoch: Epoch,
    pub(crate) limits: Limits,
    pub(crate) now: Millis,
    pub(crate) tenants: BTreeMap<TenantId, Tenant>,
    pub(crate) tenant_names: BTreeMap<Arc<str>, TenantId>,
    pub(crate) queues: Slab<Queue>,
    pub(crate) queue_slots: BTreeMap<QueueId, u32>,
    pub(crate) entries: Slab<Entry>,
    pub(crate) bodies: Bodies,
    pub(crate) groups: Slab<Group>,
    pub(crate) overlays: BTreeMap<u32, Arc<Overlay>>,
    pub(crate) receivers: BTreeMap<ReceiverId, Receiver>,
    /// Settings in use by their serialised form, so that queues alike share them, and by how many they are used.
    pub(crate) settings: BTreeMap<Vec<u8>, (Arc<QueueSettings>, usize)>,
    pub(crate) wheel: Wheel,
    alarms: BTreeSet<(Millis, Alarm)>,
    pub(crate) graves: VecDeque<Grave>,
    /// Queues with a sweep under way.
    pub(crate) sweeping: BTreeSet<u32>,
    /// Queues whose receivers may be served.
    pub(crate) unserved: BTreeSet<u32>,
    /// The slot from which on they are served next.
    serve_next: u32,
    /// Messages to let go once their group is durable.
    held: VecDeque<(OpNo, QueueId, Seq)>,
    /// Bodies on their way to the disk, by group.
    in_flight: VecDeque<(OpNo, Vec<InFlight>)>,
    /// Messages whose lease the journal does not know as it is.
    pub(crate) unsaved: VecDeque<(QueueId, Seq)>,
    durable: OpNo,
    next_op: OpNo,
    next_queue: u64,
    next_tenant: u64,
    next_account: u64,
    next_receiver: u64,
    /// How long the node has served over all its lives, as far as the journal knows.
    pub(crate) served: Millis,
    reaped: u64,
    draft: Draft,
    /// Which message of which queue each turn of a group began with, for the model to follow.
    #[cfg(test)]
    pub(crate) picks: Vec<(QueueId, Seq)>,
}

/// A body on its way to the disk.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    slot: u32,
    id: BodyId,
    /// The disk has it already, elsewhere.
    again: bool,
}

/// A stored body, for the driver to carry over to a new place in the log.
#[derive(Clone, Copy, Debug)]
pub struct StoredBody {
    /// Which body.
    pub id: BodyId,
    /// Where it lies.
    pub at: BodyAt,
    slot: u32,
}

/// Somebody waiting for messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receiver {
    pub(crate) queue: u32,
    pub(crate) tenant: TenantId,
    /// How many more it takes.
    pub(crate) credit: u32,
    pub(crate) lease: Option<Millis>,
    /// A long poll: gone once it was given anything.
    pub(crate) once: bool,
}

/// What happens at a time besides the messages' own changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Alarm {
    Dedup(QueueId),
    Tombstone(TenantId, Arc<str>),
    Idle(QueueId),
}

/// The output being made.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    records: Vec<u8>,
    bodies: Vec<(InFlight, Bytes)>,
    held: Vec<(QueueId, Seq)>,
    dead: Vec<BodyId>,
    released: Vec<BodyAt>,
    durable: bool,
    not_only_settled: bool,
    effects: Vec<Effect>,
}

impl Shard {
    /// An empty shard. `number` is the low byte of every id it gives.
    pub fn new(number: u8, epoch: Epoch, limits: Limits, now: Millis) -> Self {
        Self {
            number,
            epoch,
            limits,
            now,
            tenants: BTreeMap::new(),
            tenant_names: BTreeMap::new(),
            queues: Slab::default(),
            queue_slots: BTreeMap::new(),
            entries: Slab::default(),
            bodies: Bodies::default(),
            groups: Slab::default(),
            overlays: BTreeMap::new(),
            receivers: BTreeMap::new(),
            settings: BTreeMap::new(),
            wheel: Wheel::new(now.0),
            alarms: BTreeSet::new(),
            graves: VecDeque::new(),
            sweeping: BTreeSet::new(),
            unserved: BTreeSet::new(),
            serve_next: 0,
            held: VecDeque::new(),
            in_flight: VecDeque::new(),
            unsaved: VecDeque::new(),
            durable: OpNo(0),
            next_op: OpNo(1),
            next_queue: 1,
            next_tenant: 1,
            next_account: 1,
            next_receiver: 1,
            served: Millis::ZERO,
            reaped: 0,
            draft: Draft::default(),
            #[cfg(test)]
            picks: Vec::new(),
        }
    }

    /// Begins a transaction. A clock that went back is not followed.
    pub fn begin(&mut self, now: Millis) -> Tx<'_> {
        self.now = self.now.max(now);
        Tx::new(self)
    }

    /// The journal has everything up to `op`; `bodies` says where the bodies of group `op` lie, `None` for one that was
    /// left out. Lets go what waited for it.
    pub fn durable(&mut self, now: Millis, op: OpNo, bodies: &[Option<BodyAt>]) -> Output {
        self.now = self.now.max(now);
        self.durable = self.durable.max(op);
        while let Some((first, _)) = self.in_flight.front() {
            if *first > op {
                break;
            }
            let Some((group, slots)) = self.in_flight.pop_front() else {
                break;
            };
            if group == op {
                for (body, at) in slots.into_iter().zip(bodies) {
                    if let Some(at) = at {
                        self.written(body, *at);
                    }
                }
            }
        }
        while let Some(&(group, queue, seq)) = self.held.front() {
            if group > op {
                break;
            }
            self.held.pop_front();
            self.release_held(queue, seq);
        }
        self.finish()
    }

    fn written(&mut self, body: InFlight, at: BodyAt) {
        let known = self.bodies.is(body.slot, body.id);
        if known {
            self.draft
                .released
                .extend(self.bodies.written(body.slot, at));
        } else if body.again {
            self.draft.released.push(at);
        }
    }

    /// Some stored bodies with positions in `range`, looking at a slice of all from `cursor` on; the cursor to go on
    /// with, or `None` at the end.
    pub fn bodies_in(
        &self,
        range: std::ops::Range<u64>,
        cursor: u32,
    ) -> (Vec<StoredBody>, Option<u32>) {
        let end = cursor.saturating_add(SLICE as u32);
        let found = (cursor..end.min(self.bodies.end()))
            .filter_map(|slot| {
                let at = self.bodies.live_at(slot)?;
                range.contains(&at.position).then(|| StoredBody {
                    id: self.bodies.id(slot),
                    at,
                    slot,
                })
            })
            .collect();
        (found, (end < self.bodies.end()).then_some(end))
    }

    /// Writes bodies anew at the log's end, those that are still wanted.
    pub fn relocate(&mut self, now: Millis, bodies: Vec<(StoredBody, Bytes)>) -> Output {
        self.now = self.now.max(now);
        for (StoredBody { id, at, slot }, bytes) in bodies {
            if self.bodies.is(slot, id) && self.bodies.at(slot) == Some(at) {
                let index = self.draft.bodies.len() as u32;
                self.record_lazily(&Record::Relocated { body: id, index });
                self.draft.bodies.push((
                    InFlight {
                        slot,
                        id,
                        again: true,
                    },
                    bytes,
                ));
            }
        }
        self.finish()
    }

    /// A group without content, durable once everything before it is.
    pub fn barrier(&mut self, now: Millis) -> Output {
        self.now = self.now.max(now);
        self.wait_for_durability();
        self.finish()
    }

    /// The group to which everything so far belongs, once it is durable.
    pub fn last_op(&self) -> OpNo {
        OpNo(self.next_op.0 - 1)
    }

    /// This life of the shard.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The latest time it was told.
    pub fn now(&self) -> Millis {
        self.now
    }

    /// The caps each of its tenants is under.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What it holds.
    pub fn stats(&self) -> Stats {
        Stats {
            tenants: self.tenants.len() as u64,
            queues: self.queue_slots.len() as u64,
            entries: self.entries.len() as u64,
            bodies: self.bodies.len() as u64,
            pinned_bytes: self.bodies.pinned_bytes() as u64,
            receivers: self.receivers.len() as u64,
            reaped: self.reaped,
        }
    }

    /// Its tenants' names, ids and accounts, and when each was last seen in serving time.
    pub fn tenants(&self) -> impl Iterator<Item = (&Arc<str>, TenantId, u64, Millis)> {
        self.tenants
            .values()
            .map(|tenant| (&tenant.name, tenant.id, tenant.account, tenant.seen))
    }

    /// How long the node has served over all its lives, as far as this shard's journal knows.
    pub fn served(&self) -> Millis {
        self.served
    }

    /// What a tenant holds.
    pub fn usage(&self, tenant: TenantId) -> Option<Usage> {
        let tenant = self.tenants.get(&tenant)?;
        let messages = tenant
            .queues
            .values()
            .map(|id| self.queues[self.queue_slots[id]].index.len() as u64)
            .sum();
        Some(Usage {
            entities: tenant.queues.len() as u64,
            messages,
            message_bytes: tenant.bytes,
            dedup_bytes: tenant.dedup_bytes,
            settings_bytes: tenant.settings_bytes,
        })
    }

    /// Turns the draft into an output, after the queues it touched were served.
    pub(crate) fn finish(&mut self) -> Output {
        self.serve_touched();
        let draft = std::mem::take(&mut self.draft);
        let nothing = draft.records.is_empty()
            && draft.bodies.is_empty()
            && draft.dead.is_empty()
            && draft.released.is_empty()
            && !draft.durable;
        if nothing {
            return Output {
                group: None,
                effects: draft.effects,
            };
        }
        let op = self.next_op;
        self.next_op.0 += 1;
        self.held
            .extend(draft.held.into_iter().map(|(queue, seq)| (op, queue, seq)));
        if !draft.bodies.is_empty() {
            self.in_flight
                .push_back((op, draft.bodies.iter().map(|(body, _)| *body).collect()));
        }
        let group = GroupOut {
            op,
            records: Bytes::from(draft.records),
            bodies: draft
                .bodies
                .into_iter()
                .map(|(body, bytes)| (body.id, bytes))
                .collect(),
            settles_only: !draft.not_only_settled
                && draft.released.is_empty()
                && !draft.dead.is_empty(),
            dead: draft.dead,
            released: draft.released,
            durable: draft.durable,
        };
        Output {
            group: Some(group),
            effects: draft.effects,
        }
    }

    /// The number of the group being made.
    pub(crate) fn op(&self) -> OpNo {
        self.next_op
    }

    /// Whether everything in group `op` is on the disk.
    pub(crate) fn is_durable(&self, op: OpNo) -> bool {
        op <= self.durable
    }

    /// Adds a record that an answer waits for.
    pub(crate) fn record(&mut self, record: &Record<'_>) {
        self.draft.durable = true;
        self.record_lazily(record);
    }

    /// Adds a record that may be lost in a crash.
    pub(crate) fn record_lazily(&mut self, record: &Record<'_>) {
        record.write(&mut self.draft.records);
        self.draft.not_only_settled = true;
    }

    /// Makes the answer wait for what was done before, though this transaction changes nothing.
    pub(crate) fn wait_for_durability(&mut self) {
        self.draft.durable = true;
        self.draft.not_only_settled = true;
    }

    /// Drops an entry's reference to its body and tells the journal.
    pub(crate) fn drop_body(&mut self, slot: u32) {
        match self.bodies.drop_ref(slot) {
            Freed::Pinned(id) => self.draft.dead.push(id),
            Freed::Stored(at) => self.draft.released.push(at),
            Freed::Not => self.draft.not_only_settled = true,
        }
    }

    pub(crate) fn queue_slot(&self, id: QueueId) -> Result<u32> {
        self.queue_slots.get(&id).copied().ok_or(Error::NotFound)
    }

    pub(crate) fn tenant_mut(&mut self, id: TenantId) -> Option<&mut Tenant> {
        self.tenants.get_mut(&id)
    }

    /// Shares equal settings.
    pub(crate) fn intern(&mut self, settings: QueueSettings) -> Arc<QueueSettings> {
        let bytes = encode_settings(&settings);
        let (shared, users) = self
            .settings
            .entry(bytes)
            .or_insert_with(|| (Arc::new(settings), 0));
        *users += 1;
        Arc::clone(shared)
    }

    /// Forgets shared settings that no queue has any more.
    pub(crate) fn unintern(&mut self, settings: &QueueSettings) {
        let bytes = encode_settings(settings);
        if let Some((_, users)) = self.settings.get_mut(&bytes) {
            *users -= 1;
            if *users == 0 {
                self.settings.remove(&bytes);
            }
        }
    }

    pub(crate) fn new_queue_id(&mut self) -> QueueId {
        let id = self.next_queue << SHARD_BITS | u64::from(self.number);
        self.next_queue += 1;
        QueueId(id)
    }

    pub(crate) fn new_receiver_id(&mut self) -> ReceiverId {
        let id = self.next_receiver << SHARD_BITS | u64::from(self.number);
        self.next_receiver += 1;
        ReceiverId(id)
    }

    /// A tenant's id and its account: three digits of shard, nine of counter.
    pub(crate) fn new_tenant_id(&mut self) -> (TenantId, u64) {
        let id = self.next_tenant << SHARD_BITS | u64::from(self.number);
        let account = (100 + u64::from(self.number)) * 1_000_000_000 + self.next_account;
        self.next_tenant += 1;
        self.next_account += 1;
        (TenantId(id), account)
    }

    pub(crate) fn tenant_by_name(&self, name: &str) -> Option<&Tenant> {
        self.tenants.get(self.tenant_names.get(name)?)
    }

    pub(crate) fn add_tenant(&mut self, tenant: Tenant) {
        self.tenant_names
            .insert(Arc::clone(&tenant.name), tenant.id);
        self.tenants.insert(tenant.id, tenant);
    }

    pub(crate) fn hold(&mut self, queue: QueueId, seq: Seq) {
        self.draft.held.push((queue, seq));
    }

    /// Gives the journal a new body; its place in the group.
    pub(crate) fn add_body(&mut self, bytes: Bytes, charge: u32) -> (u32, BodyId, u32) {
        let (slot, id) = self.bodies.pin(bytes.clone(), charge);
        let index = self.draft.bodies.len() as u32;
        self.draft.bodies.push((
            InFlight {
                slot,
                id,
                again: false,
            },
            bytes,
        ));
        (slot, id, index)
    }

    /// Adds records already written.
    pub(crate) fn append(&mut self, records: &[u8]) {
        self.draft.records.extend_from_slice(records);
        self.draft.durable = true;
        self.draft.not_only_settled = true;
    }

    /// Has the queue's receivers served at the end of the transaction.
    pub(crate) fn touch(&mut self, slot: u32) {
        self.unserved.insert(slot);
    }

    pub(crate) fn effect(&mut self, effect: Effect) {
        self.draft.effects.push(effect);
    }
}

/// Settings as the journal keeps them.
pub(crate) fn encode_settings(settings: &QueueSettings) -> Vec<u8> {
    // Writing to memory cannot fail, and every field serialises.
    postcard::to_stdvec(settings).unwrap_or_default()
}

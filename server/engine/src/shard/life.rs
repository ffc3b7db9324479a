//! A message's life: how entries come, change their state, move, and go. Every change passes through here, so that
//! counts, order, timers and the tenant's account cannot drift apart.

use std::sync::Arc;

use crate::{
    dedup::Remembered,
    entry::{Entry, State},
    error::{Error, Result},
    ids::{Millis, QueueId, Seq},
    message::Overlay,
    queue::Grave,
    record::{Image, Record, Standing},
    settings::DeadLetter,
    shard::{Alarm, Shard},
    slab::NONE,
};

/// What a new entry starts with.
pub(crate) struct Birth {
    pub(crate) seq: Seq,
    pub(crate) body: u32,
    pub(crate) enqueued_at: Millis,
    pub(crate) expires_at: Millis,
    pub(crate) due: Millis,
    pub(crate) own_ttl: bool,
    pub(crate) priority: u8,
    pub(crate) group: Option<Arc<str>>,
    pub(crate) state: State,
}

impl Shard {
    /// Adds an entry to a queue; its body gains a reference and its tenant a charge.
    pub(crate) fn add_entry(&mut self, queue: u32, birth: Birth) -> u32 {
        let key = self.entries.insert(Entry {
            seq: birth.seq,
            enqueued_at: birth.enqueued_at,
            expires_at: birth.expires_at,
            due: birth.due,
            queue,
            body: birth.body,
            priority: birth.priority,
            own_ttl: birth.own_ttl,
            ..Entry::default()
        });
        self.bodies.add_ref(birth.body);
        self.attach(queue, key, birth.group, birth.state);
        key
    }

    /// Puts an entry that no queue has into a queue.
    fn attach(&mut self, queue: u32, key: u32, group: Option<Arc<str>>, state: State) {
        let charge = u64::from(self.bodies.charge(self.entries[key].body));
        let seq = self.entries[key].seq;
        let tenant = {
            let queue = &mut self.queues[queue];
            queue.index.insert(seq, key);
            queue.bytes += charge;
            queue.next_seq = Seq(queue.next_seq.0.max(seq.0 + 1));
            queue.tenant
        };
        if let Some(tenant) = self.tenant_mut(tenant) {
            tenant.bytes += charge;
        }
        self.entries[key].group = NONE;
        if let Some(name) = group {
            let rare = self.queues[queue].make_rare();
            rare.groups
                .insert(&mut self.groups, &mut self.entries, key, &name);
        }
        let due = self.entries[key].due;
        self.set_state(key, state, due);
    }

    /// Takes an entry out of its queue; it keeps its body.
    fn detach(&mut self, key: u32) {
        self.set_state(key, State::Free, Millis::NEVER);
        let Entry {
            queue,
            seq,
            body,
            group,
            ..
        } = self.entries[key];
        let charge = u64::from(self.bodies.charge(body));
        if group != NONE
            && let Some(rare) = self.queues[queue].rare_mut()
        {
            rare.groups.remove(&mut self.groups, &mut self.entries, key);
            self.entries[key].group = NONE;
        }
        let tenant = {
            let queue = &mut self.queues[queue];
            queue.index.remove(seq);
            queue.bytes -= charge;
            if queue.index.len() == 0 {
                queue.used_at.set(self.now);
            }
            queue.tenant
        };
        if let Some(tenant) = self.tenant_mut(tenant) {
            tenant.bytes -= charge;
        }
    }

    /// The one way to change a state: counts, ready order, groups and the timer follow.
    pub(crate) fn set_state(&mut self, key: u32, state: State, due: Millis) {
        let Entry {
            state: before,
            queue: slot,
            group,
            ..
        } = self.entries[key];
        let queue = &mut self.queues[slot];
        if before == State::Ready && group == NONE {
            queue.unmake_ready(&mut self.entries, key);
        }
        queue.count_changed(before, state);
        let entry = &mut self.entries[key];
        entry.state = state;
        entry.due = due;
        self.wheel.set(key, entry.next_change().0);
        if group != NONE {
            if let Some(rare) = queue.rare_mut() {
                rare.groups.refresh(&mut self.groups, &self.entries, key);
            }
        } else if state == State::Ready {
            queue.make_ready(&mut self.entries, key);
        }
        if state == State::Ready || before == State::Leased || group != NONE {
            self.unserved.insert(slot);
        }
    }

    /// Removes an entry for good and journals it.
    pub(crate) fn remove_entry(&mut self, key: u32, answered: bool) {
        let Entry { queue, seq, .. } = self.entries[key];
        let id = self.queues[queue].id;
        Record::Gone { queue: id, seq }.write(&mut self.draft.records);
        self.draft.durable |= answered;
        self.remove_silently(key);
    }

    /// Removes an entry that the journal has gone already.
    pub(crate) fn remove_silently(&mut self, key: u32) {
        let body = self.entries[key].body;
        self.detach(key);
        self.free(key);
        self.drop_body(body);
    }

    /// Gives back an entry's slot.
    fn free(&mut self, key: u32) {
        self.wheel.cancel(key);
        if self.entries.remove(key).overlaid {
            self.overlays.remove(&key);
        }
    }

    /// A lease's end, a delay's end, or the message's.
    pub(crate) fn change_by_time(&mut self, key: u32) {
        let entry = self.entries[key];
        let holder = self.queues.get(entry.queue);
        if holder.and_then(|queue| queue.index.get(entry.seq)) != Some(key) {
            return; // buried
        }
        self.sweep_first(key);
        let entry = self.entries[key];
        let now = self.now;
        if entry.is_expired(now) {
            return self.remove_entry(key, false);
        }
        match entry.state {
            State::Acked if entry.due <= now => self.remove_entry(key, false),
            State::Delayed | State::Leased if entry.due <= now => {
                self.set_state(key, State::Ready, now)
            }
            _ => self.wheel.set(key, entry.next_change().0),
        }
    }

    /// Lets a message go that waited for its group to be durable.
    pub(crate) fn release_held(&mut self, queue: QueueId, seq: Seq) {
        let Some(key) = self.find(queue, seq) else {
            return;
        };
        let Entry {
            state: State::Held,
            due,
            ..
        } = self.entries[key]
        else {
            return;
        };
        let state = if due > self.now {
            State::Delayed
        } else {
            State::Ready
        };
        self.set_state(key, state, due);
    }

    /// The entry of a message.
    pub(crate) fn find(&self, queue: QueueId, seq: Seq) -> Option<u32> {
        self.queues[*self.queue_slots.get(&queue)?].index.get(seq)
    }

    /// The entry of a message, with everything done to it that was to be done.
    pub(crate) fn find_swept(&mut self, queue: QueueId, seq: Seq) -> Option<u32> {
        let key = self.find(queue, seq)?;
        self.sweep_first(key);
        Some(key)
    }

    /// Notes that the journal does not know a lease as it is.
    pub(crate) fn mark_unsaved(&mut self, key: u32) {
        let entry = &mut self.entries[key];
        if !entry.unsaved {
            entry.unsaved = true;
            self.unsaved
                .push_back((self.queues[entry.queue].id, entry.seq));
        }
    }

    /// Journals some leases, counts and delays as they are now; whether there was any.
    pub(crate) fn save_some(&mut self) -> bool {
        let mut any = false;
        for _ in 0..super::SLICE {
            let Some((queue, seq)) = self.unsaved.pop_front() else {
                break;
            };
            let Some(key) = self.find(queue, seq) else {
                continue;
            };
            self.sweep_first(key);
            let entry = &mut self.entries[key];
            if !std::mem::take(&mut entry.unsaved) {
                continue;
            }
            let record = Record::Lease {
                queue,
                seq,
                standing: standing(entry.state),
                due: entry.due,
                deliveries: entry.deliveries,
                first_delivered_at: entry.first_delivered_at,
            };
            self.record_lazily(&record);
            any = true;
        }
        any
    }

    /// Moves a message to another queue as its dead-letter settings say. The entry, and with it every count of its
    /// deliveries, goes along.
    pub(crate) fn dead_letter(
        &mut self,
        key: u32,
        policy: &DeadLetter,
        answered: bool,
    ) -> Result<()> {
        let from = self.entries[key].queue;
        let to = self.dead_letter_target(from, policy)?;
        let mut overlay = self
            .overlay(key)
            .map(|overlay| (*overlay).clone())
            .unwrap_or_default();
        overlay.dead_letter_source = Some(Arc::from(policy.source.as_str()));
        let enqueued_at = if policy.restart_retention {
            self.now
        } else {
            self.entries[key].enqueued_at
        };
        self.move_entry(key, to, overlay, enqueued_at, answered)
    }

    /// The slot of a dead-letter queue. A queue that is its own has none.
    pub(crate) fn dead_letter_target(&self, from: u32, policy: &DeadLetter) -> Result<u32> {
        let target = self
            .tenants
            .get(&self.queues[from].tenant)
            .and_then(|tenant| tenant.queues.get(policy.queue.as_str()));
        let to = self.queue_slot(*target.ok_or(Error::NotFound)?)?;
        if to == from {
            return Err(Error::NotFound);
        }
        Ok(to)
    }

    /// Moves a message. Its own lifetime goes along; otherwise the target's counts from `enqueued_at`.
    pub(crate) fn move_entry(
        &mut self,
        key: u32,
        to: u32,
        overlay: Overlay,
        enqueued_at: Millis,
        answered: bool,
    ) -> Result<()> {
        self.check_room(to, 1, 0)?;
        let from = self.queues[self.entries[key].queue].id;
        let seq = self.entries[key].seq;
        let group = self.group_name(key);
        self.detach(key);
        let target = &self.queues[to];
        let grouped = target.settings.groups.is_some();
        let (retention, new_seq) = (target.settings.retention, target.next_seq);
        let now = self.now;
        let entry = &mut self.entries[key];
        entry.queue = to;
        entry.seq = new_seq;
        entry.enqueued_at = enqueued_at;
        if !entry.own_ttl {
            entry.expires_at = enqueued_at.plus(retention);
        }
        entry.due = now;
        entry.delivered_here = false;
        entry.unsaved = false;
        entry.swept = 0;
        entry.overlaid = true;
        entry.priority = 0;
        self.overlays.insert(key, Arc::new(overlay));
        // A target with groups takes a message without one as a group of its own.
        let group = grouped.then(|| group.unwrap_or_else(|| Arc::from(new_seq.to_string())));
        self.attach(to, key, group, State::Ready);
        let moved = self.image(key, |image| {
            let mut bytes = Vec::new();
            Record::Moved {
                queue: from,
                seq,
                to: image,
            }
            .write(&mut bytes);
            bytes
        });
        self.draft.records.extend_from_slice(&moved);
        self.draft.not_only_settled = true;
        self.draft.durable |= answered;
        Ok(())
    }

    /// What the broker added to a message.
    pub(crate) fn overlay(&self, key: u32) -> Option<Arc<Overlay>> {
        self.entries[key]
            .overlaid
            .then(|| self.overlays.get(&key).cloned())
            .flatten()
    }

    pub(crate) fn group_name(&self, key: u32) -> Option<Arc<str>> {
        let group = self.entries[key].group;
        (group != NONE).then(|| Arc::clone(&self.groups[group].name))
    }

    /// The message as a record states it.
    pub(crate) fn image<T>(&self, key: u32, write: impl FnOnce(Image<'_>) -> T) -> T {
        let entry = &self.entries[key];
        let group = self.group_name(key);
        let overlay = self.overlay(key).unwrap_or_default();
        write(Image {
            queue: self.queues[entry.queue].id,
            seq: entry.seq,
            body: self.bodies.id(entry.body),
            at: self.bodies.at(entry.body),
            charge: self.bodies.charge(entry.body),
            enqueued_at: entry.enqueued_at,
            expires_at: entry.expires_at,
            due: entry.due,
            first_delivered_at: entry.first_delivered_at,
            deliveries: entry.deliveries,
            priority: entry.priority,
            own_ttl: entry.own_ttl,
            standing: standing(entry.state),
            group: group.as_deref(),
            dead_letter_source: overlay.dead_letter_source.as_deref(),
            id: overlay.id,
        })
    }

    /// Whether a queue can take so many more messages, and its tenant so many more bytes.
    pub(crate) fn check_room(&self, queue: u32, messages: u64, bytes: u64) -> Result<()> {
        let queue = &self.queues[queue];
        let limit = self.limits.messages_per_queue;
        if (queue.index.len() as u64).saturating_add(messages) > limit {
            return Err(Error::QueueFull { limit });
        }
        let held = self
            .tenants
            .get(&queue.tenant)
            .map_or(0, |tenant| tenant.bytes);
        let limit = self.limits.message_bytes;
        if bytes > 0 && held.saturating_add(bytes) > limit {
            return Err(Error::TenantFull { limit });
        }
        Ok(())
    }

    /// Remembers a deduplication id and charges the tenant for it.
    pub(crate) fn remember(&mut self, queue: u32, hash: u128, remembered: Remembered) {
        let (id, tenant) = (self.queues[queue].id, self.queues[queue].tenant);
        let dedup = &mut self.queues[queue].make_rare().dedup;
        let first = dedup.next_expiry().is_none();
        let freed = dedup.insert(hash, remembered);
        if first {
            self.alarms
                .insert((remembered.expires_at, Alarm::Dedup(id)));
        }
        if let Some(tenant) = self.tenant_mut(tenant) {
            tenant.dedup_bytes = tenant.dedup_bytes + u64::from(remembered.charge) - freed;
        }
    }

    /// Empties a queue at once: the tenant's account is settled now, the memory is taken apart in slices.
    pub(crate) fn bury(&mut self, slot: u32) {
        let queue = &mut self.queues[slot];
        let (tenant, bytes) = (queue.tenant, queue.bytes);
        let dedup = queue.rare().map_or(0, |rare| rare.dedup.charge());
        let grave = queue.bury();
        self.graves.push_back(grave);
        self.sweeping.remove(&slot);
        if let Some(tenant) = self.tenant_mut(tenant) {
            tenant.bytes -= bytes;
            tenant.dedup_bytes -= dedup;
        }
    }

    /// Takes apart a slice of what was buried.
    pub(crate) fn clear_some(&mut self) -> usize {
        let mut done = 0;
        while done < super::SLICE {
            let Some(mut grave) = self.graves.pop_front() else {
                break;
            };
            done += self.clear_page(&mut grave);
            if grave.index.len() > 0 {
                self.graves.push_front(grave);
            } else if grave.forget_some(&mut self.groups, super::SLICE) {
                self.graves.push_front(grave);
                done += super::SLICE;
            }
        }
        done
    }

    fn clear_page(&mut self, grave: &mut Grave) -> usize {
        let mut cleared = 1;
        for key in grave.index.take_first_page() {
            let body = self.entries[key].body;
            self.free(key);
            self.drop_body(body);
            cleared += 1;
        }
        cleared
    }

    pub(crate) fn has_graves(&self) -> bool {
        !self.graves.is_empty()
    }
}

pub(crate) fn standing(state: State) -> Standing {
    match state {
        State::Leased => Standing::Leased,
        State::Deferred => Standing::Deferred,
        State::Acked => Standing::Acked,
        State::Free | State::Held | State::Delayed | State::Ready => Standing::Waiting,
    }
}

//! Tenants, queues and documents as the shard keeps them. What is journaled is the caller's matter.

use std::sync::Arc;

use crate::{
    error::{Error, Result},
    ids::{QueueId, TenantId},
    queue::Queue,
    settings::QueueSettings,
    shard::{Effect, Shard},
};

impl Shard {
    pub(crate) fn add_queue(&mut self, queue: Queue) -> u32 {
        let (id, tenant) = (queue.id, queue.tenant);
        let settings = settings_charge(&queue.settings);
        let slot = self.queues.insert(queue);
        self.queue_slots.insert(id, slot);
        if let Some(tenant) = self.tenant_mut(tenant) {
            tenant.settings_bytes += settings;
        }
        self.name_queue(id);
        slot
    }

    /// Makes a queue the one that its name names.
    pub(crate) fn name_queue(&mut self, id: QueueId) {
        let Ok(slot) = self.queue_slot(id) else {
            return;
        };
        let (tenant, name) = (
            self.queues[slot].tenant,
            Arc::clone(&self.queues[slot].name),
        );
        if let Some(tenant) = self.tenant_mut(tenant) {
            tenant.tombstones.remove(&name);
            tenant.queues.insert(name, id);
        }
    }

    /// Whether lifetimes or delays of messages already there are other than they were.
    pub(crate) fn replace_settings(&mut self, slot: u32, settings: QueueSettings) -> bool {
        let settings = self.intern(settings);
        let queue = &mut self.queues[slot];
        let before = std::mem::replace(&mut queue.settings, settings);
        let after = Arc::clone(&queue.settings);
        let tenant = queue.tenant;
        if let Some(tenant) = self.tenant_mut(tenant) {
            tenant.settings_bytes += settings_charge(&after);
            tenant.settings_bytes -= settings_charge(&before);
        }
        let retimed = before.retention != after.retention || before.delay != after.delay;
        self.unintern(&before);
        retimed
    }

    /// Takes a queue away with everything in it.
    pub(crate) fn drop_queue(&mut self, id: QueueId) {
        let Ok(slot) = self.queue_slot(id) else {
            return;
        };
        self.bury(slot);
        self.unserved.remove(&slot);
        let receivers: Vec<_> = self.queues[slot]
            .rare()
            .map(|rare| rare.receivers.iter().copied().collect())
            .unwrap_or_default();
        for receiver in receivers {
            self.remove_receiver(receiver);
            self.effect(Effect::End { receiver });
        }
        self.queue_slots.remove(&id);
        let Queue {
            tenant,
            name,
            settings,
            ..
        } = self.queues.remove(slot);
        if let Some(holder) = self.tenant_mut(tenant) {
            holder.settings_bytes -= settings_charge(&settings);
            if holder.queues.get(&name) == Some(&id) {
                holder.queues.remove(&name);
            }
        }
        self.unintern(&settings);
    }

    /// Takes a tenant away with everything that is its.
    pub(crate) fn drop_tenant(&mut self, id: TenantId) {
        let Some(tenant) = self.tenants.get(&id) else {
            return;
        };
        let queues: Vec<QueueId> = tenant.queues.values().copied().collect();
        for queue in queues {
            self.drop_queue(queue);
        }
        if let Some(tenant) = self.tenants.remove(&id)
            && self.tenant_names.get(&tenant.name) == Some(&id)
        {
            self.tenant_names.remove(&tenant.name);
        }
    }

    pub(crate) fn set_document(&mut self, id: TenantId, key: &str, value: Option<&[u8]>) {
        let Some(tenant) = self.tenant_mut(id) else {
            return;
        };
        let before = match value {
            Some(value) => {
                tenant.settings_bytes += (key.len() + value.len()) as u64;
                tenant.documents.insert(Arc::from(key), Arc::from(value))
            }
            None => tenant.documents.remove(key),
        };
        tenant.settings_bytes -= before.map_or(0, |before| (key.len() + before.len()) as u64);
    }

    /// Forgets the deduplication ids of a queue at once.
    pub(crate) fn forget_dedup(&mut self, slot: u32) {
        let tenant = self.queues[slot].tenant;
        let Some(rare) = self.queues[slot].rare_mut() else {
            return;
        };
        let charge = std::mem::take(&mut rare.dedup).charge();
        if let Some(tenant) = self.tenant_mut(tenant) {
            tenant.dedup_bytes -= charge;
        }
    }

    /// Whether a tenant may add so many bytes of settings.
    pub(crate) fn check_settings(&self, tenant: TenantId, more: u64, less: u64) -> Result<()> {
        let held = self
            .tenants
            .get(&tenant)
            .ok_or(Error::NotFound)?
            .settings_bytes;
        let limit = self.limits.settings_bytes;
        if more > less && held.saturating_add(more) - less.min(held) > limit {
            return Err(Error::SettingsFull { limit });
        }
        Ok(())
    }

    pub(crate) fn is_tombstoned(&self, tenant: TenantId, name: &str) -> bool {
        self.tenants
            .get(&tenant)
            .and_then(|tenant| tenant.tombstones.get(name))
            .is_some_and(|until| *until > self.now)
    }
}

/// What a queue's settings count against the tenant's cap: what its protocol wrote and its dead-letter policy.
pub(crate) fn settings_charge(settings: &QueueSettings) -> u64 {
    let policy = settings
        .dead_letter
        .as_ref()
        .map_or(0, |policy| policy.queue.len() + policy.source.len());
    (settings.protocol.len() + policy) as u64
}

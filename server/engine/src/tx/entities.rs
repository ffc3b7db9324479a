//! Commands on tenants, queues and documents.

use std::{ops::Bound, sync::Arc};

use crate::{
    error::{Error, Result},
    ids::{Millis, QueueId, TenantId},
    queue::Queue,
    record::Record,
    settings::{Origin, QueueSettings},
    shard::Shard,
    tenant::Tenant,
    tx::Tx,
};

impl Tx<'_> {
    /// The tenant of that name and its account number.
    pub fn find_tenant(&self, name: &str) -> Option<(TenantId, u64)> {
        self.shard
            .tenant_by_name(name)
            .map(|tenant| (tenant.id, tenant.account))
    }

    /// Makes a tenant, or finds it; its id and its 12-digit account number.
    pub fn create_tenant(&mut self, name: &str) -> (TenantId, u64) {
        if let Some(found) = self.find_tenant(name) {
            return found;
        }
        let at = self.now();
        let (id, account) = self.shard.new_tenant_id();
        self.shard
            .add_tenant(Tenant::new(id, Arc::from(name), account));
        self.shard.record(&Record::Tenant {
            id,
            account,
            name,
            at,
        });
        (id, account)
    }

    /// Deletes a tenant with everything that is its.
    pub fn delete_tenant(&mut self, id: TenantId) -> Result<()> {
        if !self.shard.tenants.contains_key(&id) {
            return Err(Error::NotFound);
        }
        self.shard.drop_tenant(id);
        self.shard.record(&Record::TenantGone { id });
        Ok(())
    }

    /// Notes that a tenant was in use, at that serving time. May be lost in a crash.
    pub fn see_tenant(&mut self, tenant: TenantId, served: Millis) {
        self.shard.see_tenant(tenant, served);
        self.shard.record_lazily(&Record::Seen { tenant, served });
    }

    /// Notes how long the node has served over all its lives. May be lost in a crash.
    pub fn serve(&mut self, served: Millis) {
        self.shard.served = self.shard.served.max(served);
        self.shard.record_lazily(&Record::Served { served });
    }

    /// Whether a tenant has no queue, no document and nobody waiting.
    pub fn is_bare(&self, tenant: TenantId) -> bool {
        self.shard.tenants.get(&tenant).is_none_or(|tenant| {
            tenant.queues.is_empty() && tenant.documents.is_empty() && tenant.receivers == 0
        })
    }

    /// The queue with exactly that name.
    pub fn find_queue(&self, tenant: TenantId, name: &str) -> Option<QueueId> {
        self.shard.tenants.get(&tenant)?.queues.get(name).copied()
    }

    /// Up to `limit` names in byte order that start with `prefix` and come after `after`.
    pub fn queue_names(
        &self,
        tenant: TenantId,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Vec<Arc<str>> {
        let Some(tenant) = self.shard.tenants.get(&tenant) else {
            return Vec::new();
        };
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        tenant
            .queues
            .range::<str, _>((from, Bound::Unbounded))
            .map(|(name, _)| name)
            .take_while(|name| name.starts_with(prefix))
            .take(limit)
            .cloned()
            .collect()
    }

    /// Makes a queue. [`Error::AlreadyExists`] for a name in use, [`Error::DeletedRecently`] while it rests.
    pub fn create_queue(
        &mut self,
        tenant: TenantId,
        name: &str,
        settings: QueueSettings,
        origin: Origin,
    ) -> Result<QueueId> {
        let holder = self.shard.tenants.get(&tenant).ok_or(Error::NotFound)?;
        if holder.queues.contains_key(name) {
            return Err(Error::AlreadyExists("name"));
        }
        if self.shard.is_tombstoned(tenant, name) {
            return Err(Error::DeletedRecently);
        }
        let limit = self.shard.limits().entities;
        if holder.queues.len() as u64 >= limit {
            return Err(Error::TooManyEntities { limit });
        }
        check_lifetimes(self.shard, &settings)?;
        self.shard
            .check_settings(tenant, crate::shard::settings_charge(&settings), 0)?;
        let id = self.shard.new_queue_id();
        let settings = self.shard.intern(settings);
        let slot = self.shard.add_queue(Queue::new(
            id,
            tenant,
            Arc::from(name),
            settings,
            origin,
            self.shard.now(),
        ));
        self.record_queue(slot);
        self.shard.start_idle_clock(slot);
        Ok(id)
    }

    /// Makes an implicit queue explicit: a create request for a queue that use had made.
    pub fn adopt_queue(&mut self, id: QueueId) -> Result<()> {
        let slot = self.shard.use_queue(id)?;
        if self.shard.queues[slot].origin == Origin::ByUse {
            self.shard.queues[slot].origin = Origin::Explicit;
            self.record_queue(slot);
        }
        Ok(())
    }

    /// Replaces a queue's settings. Lifetimes of messages already there follow, unless they have their own.
    pub fn update_queue(&mut self, id: QueueId, settings: QueueSettings) -> Result<()> {
        let slot = self.shard.use_queue(id)?;
        let before = Arc::clone(&self.shard.queues[slot].settings);
        if before.groups != settings.groups {
            return Err(Error::NotAllowed("a queue's grouping is for life"));
        }
        check_lifetimes(self.shard, &settings)?;
        let tenant = self.shard.queues[slot].tenant;
        let (more, less) = (
            crate::shard::settings_charge(&settings),
            crate::shard::settings_charge(&before),
        );
        self.shard.check_settings(tenant, more, less)?;
        if *before == settings {
            return Ok(());
        }
        if self.shard.replace_settings(slot, settings) {
            self.shard.start_sweep(slot, true, None);
        }
        self.shard.queues[slot].modified_at = self.shard.now();
        self.record_queue(slot);
        // There may be room for more leases.
        self.shard.touch(slot);
        Ok(())
    }

    /// Deletes a queue with everything in it; for `tombstone` its name cannot be made again.
    pub fn delete_queue(&mut self, id: QueueId, tombstone: Millis) -> Result<()> {
        let queue = &self.shard.queues[self.shard.use_queue(id)?];
        let (tenant, name) = (queue.tenant, Arc::clone(&queue.name));
        self.shard.drop_queue(id);
        self.shard.record(&Record::QueueGone { id });
        if tombstone > Millis::ZERO {
            let until = self.now().plus(tombstone);
            let resting = Record::Tombstone {
                tenant,
                name: &name,
                until,
            };
            self.shard.record(&resting);
            self.shard.bury_name(tenant, Arc::clone(&name), until);
        }
        Ok(())
    }

    /// Empties a queue, leased and delayed messages and its deduplication memory included.
    /// [`Error::Busy`] within `cooldown` of the last time.
    pub fn purge(&mut self, id: QueueId, cooldown: Millis) -> Result<()> {
        let slot = self.shard.use_queue(id)?;
        let now = self.now();
        let queue = &mut self.shard.queues[slot];
        if queue.purged_at != Millis::ZERO && now < queue.purged_at.plus(cooldown) {
            return Err(Error::Busy);
        }
        queue.purged_at = now;
        let below = queue.next_seq;
        self.shard.bury(slot);
        self.shard.record(&Record::Purged {
            queue: id,
            below,
            at: now,
        });
        Ok(())
    }

    /// A small durable document of the tenant's, for state that only one protocol knows (move tasks, topics).
    /// Counts to the tenant's settings.
    pub fn document(&self, tenant: TenantId, key: &str) -> Option<Arc<[u8]>> {
        self.shard.tenants.get(&tenant)?.documents.get(key).cloned()
    }

    /// The documents whose keys start with `prefix`, in byte order of their keys.
    pub fn documents(&self, tenant: TenantId, prefix: &str) -> Vec<(Arc<str>, Arc<[u8]>)> {
        let Some(tenant) = self.shard.tenants.get(&tenant) else {
            return Vec::new();
        };
        tenant
            .documents
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix))
            .map(|(key, value)| (Arc::clone(key), Arc::clone(value)))
            .collect()
    }

    /// Writes a document, or removes it with `None`.
    pub fn put_document(
        &mut self,
        tenant: TenantId,
        key: &str,
        value: Option<&[u8]>,
    ) -> Result<()> {
        let before = self
            .document(tenant, key)
            .map_or(0, |before| (key.len() + before.len()) as u64);
        let after = value.map_or(0, |value| (key.len() + value.len()) as u64);
        self.shard.check_settings(tenant, after, before)?;
        self.shard.set_document(tenant, key, value);
        self.shard.record(&Record::Document { tenant, key, value });
        Ok(())
    }

    fn record_queue(&mut self, slot: u32) {
        let mut bytes = Vec::new();
        self.shard
            .queue_record(slot, |record| record.write(&mut bytes));
        self.shard.append(&bytes);
    }
}

fn check_lifetimes(shard: &Shard, settings: &QueueSettings) -> Result<()> {
    let limit = shard.limits().lifetime;
    let spans = [
        ("retention", settings.retention),
        (
            "retention of acknowledged messages",
            settings.retain_acked.unwrap_or_default(),
        ),
        ("delay", settings.delay),
        ("lease", settings.lease),
    ];
    match spans.into_iter().find(|(_, span)| *span > limit) {
        Some((what, _)) => Err(Error::TooLong {
            what,
            limit_ms: limit.0,
        }),
        None => Ok(()),
    }
}

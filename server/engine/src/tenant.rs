//! A tenant: its names and what it holds.

use std::{collections::BTreeMap, sync::Arc};

use crate::ids::{Millis, QueueId, TenantId};

#[derive(Debug)]
pub(crate) struct Tenant {
    pub(crate) id: TenantId,
    pub(crate) name: Arc<str>,
    /// Its 12-digit account number.
    pub(crate) account: u64,
    pub(crate) queues: BTreeMap<Arc<str>, QueueId>,
    /// Names deleted recently, until then.
    pub(crate) tombstones: BTreeMap<Arc<str>, Millis>,
    pub(crate) documents: BTreeMap<Arc<str>, Arc<[u8]>>,
    /// Message bytes over all queues.
    pub(crate) bytes: u64,
    pub(crate) dedup_bytes: u64,
    /// Settings and documents.
    pub(crate) settings_bytes: u64,
    pub(crate) receivers: u64,
    /// When somebody last named it, in serving time, as far as the journal knows.
    pub(crate) seen: Millis,
}

impl Tenant {
    pub(crate) fn new(id: TenantId, name: Arc<str>, account: u64) -> Self {
        Self {
            id,
            name,
            account,
            queues: BTreeMap::new(),
            tombstones: BTreeMap::new(),
            documents: BTreeMap::new(),
            bytes: 0,
            dedup_bytes: 0,
            settings_bytes: 0,
            receivers: 0,
            seen: Millis::ZERO,
        }
    }
}

/// What a tenant holds, against its [`Limits`](crate::Limits).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Queues and other entities.
    pub entities: u64,
    /// Messages over all queues.
    pub messages: u64,
    /// Message bytes over all queues, leased ones included.
    pub message_bytes: u64,
    /// Remembered deduplication ids, as charged.
    pub dedup_bytes: u64,
    /// Settings and documents.
    pub settings_bytes: u64,
}

//! What the node and its store hold, measured at each scrape.

use powerqueue_node::Node;
use prometheus::core::{Collector, Desc};
use prometheus::{IntCounter, IntGauge, Opts, proto::MetricFamily};

use super::raise;

/// Measures a node whenever it is asked.
pub struct NodeMetrics {
    node: Node,
    gauges: Vec<(IntGauge, Measure)>,
    counters: Vec<(IntCounter, Measure)>,
}

/// One figure of a node.
type Measure = fn(&Snapshot) -> u64;

/// The figures of one moment.
struct Snapshot {
    node: powerqueue_node::NodeStats,
    store: powerqueue_store::Status,
}

/// Name, help, and where the figure comes from.
const GAUGES: [(&str, &str, Measure); 16] = [
    ("powerqueue_tenants", "Tenants.", |now| {
        now.node.shards.tenants
    }),
    ("powerqueue_queues", "Queues.", |now| now.node.shards.queues),
    (
        "powerqueue_messages",
        "Messages held, leased and delayed ones included.",
        |now| now.node.shards.entries,
    ),
    (
        "powerqueue_receivers",
        "Receivers that wait for a message.",
        |now| now.node.shards.receivers,
    ),
    (
        "powerqueue_pinned_bytes",
        "Message bodies held in memory until the disk has them.",
        |now| now.node.shards.pinned_bytes,
    ),
    (
        "powerqueue_cache_bytes",
        "Recent message bodies held in memory.",
        |now| now.node.cache_bytes,
    ),
    (
        "powerqueue_memory_bytes",
        "Memory that messages and queues take, by a generous estimate.",
        |now| now.node.memory_bytes,
    ),
    (
        "powerqueue_memory_short",
        "1 while growth is refused for lack of memory.",
        |now| now.node.memory_short.into(),
    ),
    (
        "powerqueue_storage_running",
        "1 while the store takes groups.",
        |now| now.store.running.into(),
    ),
    (
        "powerqueue_storage_short",
        "1 while growth is refused for lack of disk.",
        |now| now.store.short.into(),
    ),
    (
        "powerqueue_storage_segments",
        "Files of the journal.",
        |now| now.store.segments as u64,
    ),
    (
        "powerqueue_storage_bytes",
        "Bytes the journal occupies.",
        |now| now.store.bytes,
    ),
    (
        "powerqueue_storage_live_bytes",
        "Bytes of message bodies that are still needed.",
        |now| now.store.live_bytes,
    ),
    (
        "powerqueue_storage_free_bytes",
        "Bytes free on the file system.",
        |now| now.store.free_bytes,
    ),
    (
        "powerqueue_storage_synced_bytes",
        "Bytes ever written to the journal and synced.",
        |now| now.store.synced.0,
    ),
    (
        "powerqueue_storage_waiting_groups",
        "Groups that wait for the committer.",
        |now| now.store.waiting as u64,
    ),
];

/// The same for what only grows.
const COUNTERS: [(&str, &str, Measure); 4] = [
    ("powerqueue_tenants_created_total", "Tenants made.", |now| {
        now.node.tenants_made
    }),
    (
        "powerqueue_tenants_reaped_idle_total",
        "Tenants deleted because nobody used them.",
        |now| now.node.tenants_reaped_idle,
    ),
    (
        "powerqueue_tenants_reaped_empty_total",
        "Tenants deleted because they held nothing and others needed their place.",
        |now| now.node.tenants_reaped_bare,
    ),
    (
        "powerqueue_queues_reaped_total",
        "Queues that use had made, deleted because nobody used them.",
        |now| now.node.shards.reaped,
    ),
];

impl NodeMetrics {
    /// Metrics of a node.
    ///
    /// # Errors
    /// If a name is not one.
    pub fn new(node: Node) -> prometheus::Result<Self> {
        let gauges = GAUGES
            .into_iter()
            .map(|(name, help, measure)| Ok((IntGauge::with_opts(Opts::new(name, help))?, measure)))
            .collect::<prometheus::Result<_>>()?;
        let counters = COUNTERS
            .into_iter()
            .map(|(name, help, measure)| {
                Ok((IntCounter::with_opts(Opts::new(name, help))?, measure))
            })
            .collect::<prometheus::Result<_>>()?;
        Ok(Self {
            node,
            gauges,
            counters,
        })
    }
}

impl Collector for NodeMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.gauges
            .iter()
            .flat_map(|(gauge, _)| gauge.desc())
            .chain(self.counters.iter().flat_map(|(counter, _)| counter.desc()))
            .collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let now = Snapshot {
            node: self.node.stats(),
            store: self.node.store().status(),
        };
        for (gauge, measure) in &self.gauges {
            gauge.set(i64::try_from(measure(&now)).unwrap_or(i64::MAX));
        }
        for (counter, measure) in &self.counters {
            raise(counter, measure(&now));
        }
        let counters = self
            .counters
            .iter()
            .flat_map(|(counter, _)| counter.collect());
        self.gauges
            .iter()
            .flat_map(|(gauge, _)| gauge.collect())
            .chain(counters)
            .collect()
    }
}

//! The figures of the website: sampled every few seconds, rendered once for all viewers, kept over restarts.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, RwLock};
use powerqueue_admission::Admission;
use powerqueue_net::Stats;
use powerqueue_node::Node;
use powerqueue_traffic::Traffic;
use powerqueue_website::{Finished, History, Sample, Totals, Window};
use serde_json::json;
use tokio::time::MissedTickBehavior;

/// The step of the finest ring.
const STEP: Duration = Duration::from_secs(5);
/// How many steps go by between two writes to the disk.
const STEPS_TO_SAVE: u32 = 12;
/// Key of the history, among what is local to the node.
const HISTORY: &str = "node.statistics";

/// What is measured.
pub struct Sources {
    /// The node.
    pub node: Node,
    /// The judge of addresses.
    pub admission: Admission,
    /// The front end's counters.
    pub sqs: Arc<Traffic>,
    /// The listeners.
    pub listeners: Vec<Arc<Stats>>,
}

/// History and its rendering.
pub struct Statistics {
    sources: Sources,
    started: u64,
    history: Mutex<History>,
    rendered: RwLock<Rendered>,
}

struct Rendered {
    now: Finished,
    windows: [Finished; Window::ALL.len()],
}

impl Statistics {
    /// Takes up the history from before, and measures for the first time.
    pub fn start(sources: Sources) -> Self {
        let kept = match sources.node.store().get_local(HISTORY) {
            Ok(kept) => kept.map(|bytes| History::restore(&bytes)).transpose(),
            Err(error) => {
                tracing::warn!(%error, "the statistics from before cannot be read");
                Ok(None)
            }
        };
        let mut history = kept.unwrap_or_else(|error| {
            tracing::warn!(%error, "the statistics from before are damaged; starting without");
            None
        });
        let history = history.get_or_insert_default();
        let time = millis();
        let sample = sources.measure(time);
        history.add(sample);
        Self {
            rendered: RwLock::new(sources.render(history, time, time)),
            history: Mutex::new(std::mem::take(history)),
            started: time,
            sources,
        }
    }

    /// The figures of now.
    pub fn now(&self) -> Finished {
        self.rendered.read().now.clone()
    }

    /// A window of the history.
    pub fn window(&self, window: Window) -> Finished {
        self.rendered.read().windows[window as usize].clone()
    }

    /// Measures and renders.
    pub fn step(&self) {
        let time = millis();
        let sample = self.sources.measure(time);
        let mut history = self.history.lock();
        history.add(sample);
        let rendered = self.sources.render(&history, time, self.started);
        *self.rendered.write() = rendered;
    }

    /// Writes the history to the disk, which blocks. Statistics that cannot be kept stop nobody.
    pub fn save(&self) {
        let saved = self.history.lock().save();
        let outcome = match saved {
            Ok(bytes) => self.sources.node.store().put_local(HISTORY, Some(&bytes)),
            Err(error) => return tracing::warn!(%error, "the statistics cannot be written"),
        };
        if let Err(error) = outcome {
            tracing::warn!(%error, "the statistics cannot be saved");
        }
    }
}

/// Steps and saves until it is dropped.
pub async fn keep(statistics: Arc<Statistics>) {
    // In the middle of a slot, so that a tick a little early or late does not skip one.
    let phase = (2 * STEP.as_millis() as u64 - millis() % STEP.as_millis() as u64)
        .saturating_sub(STEP.as_millis() as u64 / 2);
    let first = tokio::time::Instant::now() + Duration::from_millis(phase);
    let mut ticks = tokio::time::interval_at(first, STEP);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut steps = 0u32;
    loop {
        ticks.tick().await;
        steps = steps.wrapping_add(1);
        let statistics = Arc::clone(&statistics);
        let stepped = tokio::task::spawn_blocking(move || {
            statistics.step();
            if steps.is_multiple_of(STEPS_TO_SAVE) {
                statistics.save();
            }
        });
        if let Err(error) = stepped.await {
            tracing::error!(%error, "measuring for the website failed");
        }
    }
}

impl Sources {
    fn measure(&self, time: u64) -> Sample {
        let node = self.node.stats();
        let judged = self.admission.totals();
        let traffic = self.sqs.totals();
        Sample {
            time,
            totals: Totals {
                sent: traffic.sent,
                delivered: traffic.delivered,
                requests: traffic.requests,
                refusals: judged.refused.iter().sum(),
                bans: judged.bans,
                tenants_created: node.tenants_made,
            },
            messages: node.shards.entries,
            connections: self.listeners.iter().map(|stats| stats.open()).sum(),
            tenants: node.shards.tenants,
        }
    }

    fn render(&self, history: &History, time: u64, started: u64) -> Rendered {
        let (node, store) = (self.node.stats(), self.node.store().status());
        let [sent, delivered, requests, refusals] = history.rates();
        let totals = history.totals();
        let bans: u64 = self.admission.totals().bans_active.iter().sum();
        let protocol = self.sqs.protocol();
        let open: u64 = self.listeners.iter().map(|stats| stats.open()).sum();
        let now = json!({
            "time": time,
            "started": started,
            "uptime_seconds": time.saturating_sub(started) / 1000,
            "version": env!("CARGO_PKG_VERSION"),
            "ready": store.running && !self.node.draining(),
            "now": {
                "tenants": node.shards.tenants,
                "queues": node.shards.queues,
                "messages": node.shards.entries,
                "message_bytes": store.live_bytes,
                "connections": open,
                "receivers": node.shards.receivers,
                "bans": bans,
                "storage_bytes": store.bytes,
                "storage_free_bytes": store.free_bytes,
            },
            "rates": {
                "in_per_second": sent,
                "out_per_second": delivered,
                "requests_per_second": requests,
                "refusals_per_second": refusals,
                "by_protocol": { protocol: {
                    "in_per_second": sent,
                    "out_per_second": delivered,
                    "requests_per_second": requests,
                } },
            },
            "totals": {
                "in": totals.sent,
                "out": totals.delivered,
                "requests": totals.requests,
                "refusals": totals.refusals,
                "bans": totals.bans,
                "tenants_created": totals.tenants_created,
            },
        });
        let finished = |value: serde_json::Value| {
            Finished::new("application/json", "max-age=2", value.to_string())
        };
        Rendered {
            now: finished(now),
            windows: Window::ALL.map(|window| finished(history.window(window, time / 1000))),
        }
    }
}

/// The wall clock, in milliseconds since 1970.
pub fn millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

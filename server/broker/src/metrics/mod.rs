//! Metrics for Prometheus: `powerqueue_<thing>_<unit>[_total]`, in a registry of our own.
//!
//! Labels are closed sets (listener, reason, state), never a tenant, a queue or an address. Every series is
//! resolved when it is made; nothing is looked up by label while serving.

mod admission;
mod node;
mod traffic;

use std::sync::Arc;

use axum::Router;
use axum::http::header;
use axum::routing::get;
use powerqueue_admission::Admission;
use powerqueue_net::{Refusal, Stats};
use powerqueue_node::Node;
use powerqueue_traffic::Traffic;
use prometheus::process_collector::ProcessCollector;
use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder};

use crate::readiness::{Phase, Readiness};
use crate::tls::TlsMetrics;

use admission::AdmissionMetrics;
use node::NodeMetrics;
use traffic::TrafficMetrics;

/// The registry and what is copied into it at each scrape.
pub struct Metrics {
    registry: Registry,
    readiness: Arc<Readiness>,
    phases: Vec<(Phase, IntGauge)>,
    listeners: Vec<ListenerMetrics>,
}

struct ListenerMetrics {
    stats: Arc<Stats>,
    open: IntGauge,
    opened: IntCounter,
    requests: IntCounter,
    refused: Vec<(Refusal, IntCounter)>,
}

impl Metrics {
    /// Metrics of the process and of the named listeners.
    ///
    /// # Errors
    /// If two metrics have one name.
    pub fn new(
        readiness: Arc<Readiness>,
        listeners: &[(String, Arc<Stats>)],
    ) -> prometheus::Result<Self> {
        let registry = Registry::new();
        registry.register(Box::new(ProcessCollector::for_self()))?;
        let gauges = |name: &str, help: &str, labels: &[&str]| {
            let vec = IntGaugeVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(vec.clone()))?;
            Ok::<_, prometheus::Error>(vec)
        };
        let counters = |name: &str, help: &str, labels: &[&str]| {
            let vec = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(vec.clone()))?;
            Ok::<_, prometheus::Error>(vec)
        };
        let state = gauges(
            "powerqueue_state",
            "1 for the state the broker is in.",
            &["state"],
        )?;
        let open = gauges("powerqueue_connections", "Open connections.", &["listener"])?;
        let opened = counters(
            "powerqueue_connections_opened_total",
            "Connections accepted.",
            &["listener"],
        )?;
        let requests = counters(
            "powerqueue_http_requests_total",
            "HTTP requests read, refused ones included.",
            &["listener"],
        )?;
        let refused = counters(
            "powerqueue_http_refused_total",
            "HTTP connections and requests ended by the serving loop itself.",
            &["listener", "reason"],
        )?;
        Ok(Self {
            phases: Phase::ALL
                .map(|phase| (phase, state.with_label_values(&[phase.as_str()])))
                .to_vec(),
            listeners: listeners
                .iter()
                .map(|(name, stats)| ListenerMetrics {
                    stats: Arc::clone(stats),
                    open: open.with_label_values(&[name]),
                    opened: opened.with_label_values(&[name]),
                    requests: requests.with_label_values(&[name]),
                    refused: Refusal::ALL
                        .map(|why| {
                            (
                                why,
                                refused.with_label_values(&[name.as_str(), why.label()]),
                            )
                        })
                        .to_vec(),
                })
                .collect(),
            readiness,
            registry,
        })
    }

    /// Adds what the node and its store hold.
    ///
    /// # Errors
    /// If it was added before.
    pub fn watch_node(&self, node: Node) -> prometheus::Result<()> {
        self.registry.register(Box::new(NodeMetrics::new(node)?))
    }

    /// Adds how client addresses are judged.
    ///
    /// # Errors
    /// If it was added before.
    pub fn watch_admission(&self, admission: Admission) -> prometheus::Result<()> {
        self.registry
            .register(Box::new(AdmissionMetrics::new(admission)?))
    }

    /// Adds what the front ends count.
    ///
    /// # Errors
    /// If it was added before.
    pub fn watch_traffic(&self, front_ends: Vec<Arc<Traffic>>) -> prometheus::Result<()> {
        self.registry
            .register(Box::new(TrafficMetrics::new(front_ends)?))
    }

    /// Adds certificates and handshakes.
    ///
    /// # Errors
    /// If it was added before.
    pub fn watch_tls(&self, tls: TlsMetrics) -> prometheus::Result<()> {
        self.registry.register(Box::new(tls))
    }

    /// The text for one scrape.
    ///
    /// # Errors
    /// If a metric cannot be written as text.
    pub fn scrape(&self) -> prometheus::Result<String> {
        let now = self.readiness.phase();
        for (phase, gauge) in &self.phases {
            gauge.set(i64::from(*phase == now));
        }
        for listener in &self.listeners {
            listener.copy();
        }
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}

impl ListenerMetrics {
    fn copy(&self) {
        self.open
            .set(i64::try_from(self.stats.open()).unwrap_or(i64::MAX));
        raise(&self.opened, self.stats.opened());
        raise(&self.requests, self.stats.requests());
        for (why, counter) in &self.refused {
            raise(counter, self.stats.refused(*why));
        }
    }
}

/// Raises a counter to a total that only grows.
pub(crate) fn raise(counter: &IntCounter, total: u64) {
    counter.inc_by(total.saturating_sub(counter.get()));
}

/// The metrics listener's routes.
pub fn site(metrics: Arc<Metrics>) -> Router {
    let scrape = move || {
        let scraped = metrics.scrape();
        async move {
            let content_type = [(
                header::CONTENT_TYPE,
                "text/plain; version=0.0.4; charset=utf-8",
            )];
            match scraped {
                Ok(text) => Ok((content_type, text)),
                Err(error) => {
                    tracing::error!(%error, "metrics cannot be written");
                    Err(axum::http::StatusCode::INTERNAL_SERVER_ERROR)
                }
            }
        }
    };
    Router::new().route("/metrics", get(scrape))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_series_is_there_from_the_first_scrape_and_labels_are_the_allowed_ones() {
        let readiness = Arc::new(Readiness::new(&[]));
        let names = ["http", "sqs", "metrics"];
        let listeners = names.map(|name| (name.to_owned(), Arc::default()));
        let metrics = Metrics::new(readiness, &listeners).unwrap();
        let text = metrics.scrape().unwrap();
        assert!(
            text.contains("powerqueue_state{state=\"starting\"} 1\n"),
            "{text}"
        );
        assert!(
            text.contains("powerqueue_connections{listener=\"sqs\"} 0\n"),
            "{text}"
        );
        assert!(
            text.contains(
                "powerqueue_http_refused_total{listener=\"sqs\",reason=\"body_size\"} 0\n"
            ),
            "{text}"
        );
        assert!(text.contains("process_open_fds "), "{text}");
        let allowed = [
            "protocol",
            "operation",
            "result",
            "reason",
            "listener",
            "state",
        ];
        let families = metrics.registry.gather();
        let labels = families
            .iter()
            .flat_map(|family| family.get_metric())
            .flat_map(|metric| metric.get_label());
        for label in labels {
            assert!(allowed.contains(&label.name()), "{}", label.name());
        }
    }
}

//! TLS for Prometheus, measured at each scrape.

use std::sync::Arc;

use powerqueue_net::{Refusal, Stats};
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts};

use super::Standing;

/// Certificates and handshakes of the listeners that speak TLS.
pub struct TlsMetrics {
    standing: Arc<Standing>,
    families: (IntGaugeVec, IntGaugeVec, IntCounterVec),
    failures: IntCounter,
    listeners: Vec<Series>,
}

/// One listener's series.
struct Series {
    stats: Arc<Stats>,
    not_after: IntGauge,
    temporary: IntGauge,
    handshake_failures: IntCounter,
}

impl TlsMetrics {
    /// Metrics of these listeners, as far as they speak TLS.
    ///
    /// # Errors
    /// If a name is not one.
    pub fn new(
        standing: Arc<Standing>,
        listeners: &[(String, Arc<Stats>)],
    ) -> prometheus::Result<Self> {
        let not_after = IntGaugeVec::new(
            Opts::new(
                "powerqueue_tls_certificate_not_after_timestamp_seconds",
                "When the certificate that is served ends to be valid.",
            ),
            &["listener"],
        )?;
        let temporary = IntGaugeVec::new(
            Opts::new(
                "powerqueue_tls_certificate_temporary",
                "1 while a certificate stands in that nobody trusts.",
            ),
            &["listener"],
        )?;
        let handshake_failures = IntCounterVec::new(
            Opts::new(
                "powerqueue_tls_handshake_failures_total",
                "Handshakes that failed or took too long.",
            ),
            &["listener"],
        )?;
        let failures = IntCounter::new(
            "powerqueue_tls_reload_failures_total",
            "Newer certificates that could not be read or had; the old one stays.",
        )?;
        let series = listeners
            .iter()
            .filter(|(name, _)| standing.listeners().contains(name))
            .map(|(name, stats)| Series {
                stats: Arc::clone(stats),
                not_after: not_after.with_label_values(&[name]),
                temporary: temporary.with_label_values(&[name]),
                handshake_failures: handshake_failures.with_label_values(&[name]),
            })
            .collect();
        Ok(Self {
            standing,
            families: (not_after, temporary, handshake_failures),
            failures,
            listeners: series,
        })
    }

    fn collectors(&self) -> [&dyn Collector; 4] {
        let (not_after, temporary, handshake_failures) = &self.families;
        [not_after, temporary, handshake_failures, &self.failures]
    }
}

impl Collector for TlsMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.collectors()
            .into_iter()
            .flat_map(Collector::desc)
            .collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let served = self.standing.served();
        raise(&self.failures, self.standing.failures());
        for listener in &self.listeners {
            listener.not_after.set(served.not_after);
            listener.temporary.set(served.temporary.into());
            let failed = listener.stats.refused(Refusal::Handshake);
            raise(&listener.handshake_failures, failed);
        }
        self.collectors()
            .into_iter()
            .flat_map(Collector::collect)
            .collect()
    }
}

/// Raises a counter to a total that only grows.
fn raise(counter: &IntCounter, total: u64) {
    counter.inc_by(total.saturating_sub(counter.get()));
}

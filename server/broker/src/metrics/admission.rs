//! How client addresses are judged, measured at each scrape.

use powerqueue_admission::{Admission, Reason};
use prometheus::core::{Collector, Desc};
use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, proto::MetricFamily};

use super::raise;

/// Measures a judge whenever it is asked.
pub struct AdmissionMetrics {
    admission: Admission,
    refused: IntCounterVec,
    keys: IntGauge,
    bans: IntCounter,
    active: IntGaugeVec,
}

impl AdmissionMetrics {
    /// Metrics of a judge.
    ///
    /// # Errors
    /// If a name is not one.
    pub fn new(admission: Admission) -> prometheus::Result<Self> {
        Ok(Self {
            admission,
            refused: IntCounterVec::new(
                Opts::new(
                    "powerqueue_admission_refused_total",
                    "Requests, connections and tenants refused by a limit on the client's address.",
                ),
                &["reason"],
            )?,
            keys: IntGauge::new(
                "powerqueue_admission_keys",
                "Addresses and networks that the limits remember.",
            )?,
            bans: IntCounter::new("powerqueue_bans_total", "Bans begun.")?,
            active: IntGaugeVec::new(
                Opts::new(
                    "powerqueue_bans_active",
                    "Bans in force, by their place on the ladder.",
                ),
                &["level"],
            )?,
        })
    }
}

impl Collector for AdmissionMetrics {
    fn desc(&self) -> Vec<&Desc> {
        [
            self.refused.desc(),
            self.keys.desc(),
            self.bans.desc(),
            self.active.desc(),
        ]
        .concat()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let totals = self.admission.totals();
        for (reason, total) in Reason::ALL.iter().zip(totals.refused) {
            raise(&self.refused.with_label_values(&[reason.as_str()]), total);
        }
        self.keys
            .set(i64::try_from(totals.keys).unwrap_or(i64::MAX));
        raise(&self.bans, totals.bans);
        for (level, count) in (1..).zip(totals.bans_active) {
            self.active
                .with_label_values(&[&format!("{level}")])
                .set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        [
            self.refused.collect(),
            self.keys.collect(),
            self.bans.collect(),
            self.active.collect(),
        ]
        .concat()
    }
}

//! What passes through the front ends, read at each scrape. Every series is resolved when it is made.

use powerqueue_sqs::Sqs;
use prometheus::core::{Collector, Desc};
use prometheus::{IntCounter, IntCounterVec, Opts, proto::MetricFamily};

use crate::metrics::raise;

/// Reads a front end's counters whenever it is asked.
pub struct TrafficMetrics {
    sqs: Sqs,
    families: [IntCounterVec; 4],
    messages: [IntCounter; 3],
    requests: Vec<IntCounter>,
}

impl TrafficMetrics {
    /// Metrics of a front end.
    ///
    /// # Errors
    /// If a name is not one.
    pub fn new(sqs: Sqs) -> prometheus::Result<Self> {
        let family =
            |name, help, labels: &[&str]| IntCounterVec::new(Opts::new(name, help), labels);
        let families = [
            family(
                "powerqueue_messages_sent_total",
                "Messages taken from clients.",
                &["protocol"],
            )?,
            family(
                "powerqueue_messages_delivered_total",
                "Messages given to clients.",
                &["protocol"],
            )?,
            family(
                "powerqueue_messages_deleted_total",
                "Messages settled by clients.",
                &["protocol"],
            )?,
            family(
                "powerqueue_requests_total",
                "Requests that a front end answered.",
                &["protocol", "operation", "result"],
            )?,
        ];
        let [sent, delivered, deleted, requests] = &families;
        let protocol = sqs.traffic().protocol();
        let messages =
            [sent, delivered, deleted].map(|family| family.with_label_values(&[protocol]));
        let requests = sqs
            .traffic()
            .requests()
            .map(|(operation, outcome, _)| {
                requests.with_label_values(&[protocol, operation, outcome.as_str()])
            })
            .collect();
        Ok(Self {
            sqs,
            messages,
            requests,
            families,
        })
    }
}

impl Collector for TrafficMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.families.iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let traffic = self.sqs.traffic();
        for (counter, total) in self.messages.iter().zip(traffic.messages()) {
            raise(counter, total);
        }
        for (counter, (_, _, total)) in self.requests.iter().zip(traffic.requests()) {
            raise(counter, total);
        }
        self.families.iter().flat_map(Collector::collect).collect()
    }
}

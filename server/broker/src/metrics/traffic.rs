//! What the front ends count, written out at each scrape.

use std::sync::Arc;

use powerqueue_traffic::{Durations, Traffic};
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Bucket, Histogram, LabelPair, Metric, MetricFamily, MetricType};
use prometheus::{IntCounterVec, Opts};

use super::raise;

/// Reads the front ends' counters whenever it is asked.
pub struct TrafficMetrics {
    front_ends: Vec<Arc<Traffic>>,
    requests: IntCounterVec,
    messages: [(IntCounterVec, Count); 3],
    durations: [(Desc, Times); 2],
}

/// One figure of a front end.
type Count = fn(&Traffic) -> u64;

/// One histogram of a front end.
type Times = fn(&Traffic) -> &Durations;

const PROTOCOL: &str = "protocol";

impl TrafficMetrics {
    /// Metrics of these front ends.
    ///
    /// # Errors
    /// If a name is not one.
    pub fn new(front_ends: Vec<Arc<Traffic>>) -> prometheus::Result<Self> {
        let messages =
            |name: &str, help: &str| IntCounterVec::new(Opts::new(name, help), &[PROTOCOL]);
        let durations = |name: &str, help: &str| {
            let labels = vec![PROTOCOL.to_owned()];
            Desc::new(name.to_owned(), help.to_owned(), labels, Default::default())
        };
        Ok(Self {
            requests: IntCounterVec::new(
                Opts::new("powerqueue_requests_total", "Requests answered."),
                &[PROTOCOL, "operation", "result"],
            )?,
            messages: [
                (
                    messages("powerqueue_messages_sent_total", "Messages accepted.")?,
                    |traffic| traffic.totals().sent,
                ),
                (
                    messages(
                        "powerqueue_messages_delivered_total",
                        "Messages given to receivers, repeated deliveries included.",
                    )?,
                    |traffic| traffic.totals().delivered,
                ),
                (
                    messages(
                        "powerqueue_messages_deleted_total",
                        "Messages deleted by their receivers.",
                    )?,
                    |traffic| traffic.totals().deleted,
                ),
            ],
            durations: [
                (
                    durations(
                        "powerqueue_request_duration_seconds",
                        "Time to answer a request that does not wait for messages.",
                    )?,
                    Traffic::answers,
                ),
                (
                    durations(
                        "powerqueue_receive_duration_seconds",
                        "Time to answer a request that may wait for messages.",
                    )?,
                    Traffic::waits,
                ),
            ],
            front_ends,
        })
    }

    fn histograms(&self, desc: &Desc, of: Times) -> MetricFamily {
        let metrics = self.front_ends.iter().map(|traffic| {
            let mut label = LabelPair::default();
            label.set_name(PROTOCOL.to_owned());
            label.set_value(traffic.protocol().to_owned());
            let mut metric = Metric::from_label(vec![label]);
            metric.set_histogram(histogram(of(traffic)));
            metric
        });
        let mut family = MetricFamily::default();
        family.set_name(desc.fq_name.clone());
        family.set_help(desc.help.clone());
        family.set_field_type(MetricType::HISTOGRAM);
        family.set_metric(metrics.collect());
        family
    }
}

fn histogram(durations: &Durations) -> Histogram {
    let (cumulative, all) = durations.cumulative();
    let buckets = Durations::BOUNDS
        .iter()
        .zip(cumulative)
        .map(|(bound, count)| {
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(*bound);
            bucket.set_cumulative_count(count);
            bucket
        });
    let mut histogram = Histogram::default();
    histogram.set_bucket(buckets.collect());
    histogram.set_sample_count(all);
    histogram.set_sample_sum(durations.seconds());
    histogram
}

impl Collector for TrafficMetrics {
    fn desc(&self) -> Vec<&Desc> {
        let messages = self.messages.iter().flat_map(|(vec, _)| vec.desc());
        self.requests
            .desc()
            .into_iter()
            .chain(messages)
            .chain(self.durations.iter().map(|(desc, _)| desc))
            .collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        for traffic in &self.front_ends {
            let protocol = traffic.protocol();
            for (operation, outcome, count) in traffic.requests() {
                let labels = [protocol, operation, outcome.as_str()];
                raise(&self.requests.with_label_values(&labels), count);
            }
            for (vec, figure) in &self.messages {
                raise(&vec.with_label_values(&[protocol]), figure(traffic));
            }
        }
        let messages = self.messages.iter().flat_map(|(vec, _)| vec.collect());
        let durations = self
            .durations
            .iter()
            .map(|(desc, of)| self.histograms(desc, *of));
        self.requests
            .collect()
            .into_iter()
            .chain(messages)
            .chain(durations)
            .collect()
    }
}

//! What each front end counts, for metrics and the statistics page: requests by operation and outcome, how long they
//! take, and messages in and out.
//!
//! Plain atomics, resolved when the front end is made; nothing is looked up by name while serving. Whoever exports the figures
//! names them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The counters of one protocol.
#[derive(Debug)]
pub struct Traffic {
    protocol: &'static str,
    operations: Box<[(&'static str, [AtomicU64; Outcome::ALL.len()])]>,
    sent: AtomicU64,
    delivered: AtomicU64,
    deleted: AtomicU64,
    answers: Durations,
    waits: Durations,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As the client wanted.
    Done,
    /// Refused, by the client's fault or by a limit.
    Refused,
    /// Not done, by the service's fault.
    Failed,
}

impl Outcome {
    /// All of them, in the order of their counters.
    pub const ALL: [Self; 3] = [Self::Done, Self::Refused, Self::Failed];

    /// As a metric's label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "ok",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

/// Sums of a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests.
    pub requests: u64,
    /// Messages accepted.
    pub sent: u64,
    /// Messages given to receivers.
    pub delivered: u64,
    /// Messages deleted by their receivers.
    pub deleted: u64,
}

impl Traffic {
    /// Counters at zero. Requests of an operation that is not listed count as the last one.
    pub fn new(protocol: &'static str, operations: impl IntoIterator<Item = &'static str>) -> Self {
        Self {
            protocol,
            operations: operations
                .into_iter()
                .map(|name| (name, Default::default()))
                .collect(),
            sent: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            deleted: AtomicU64::new(0),
            answers: Durations::default(),
            waits: Durations::default(),
        }
    }

    /// The protocol, as a metric's label.
    pub const fn protocol(&self) -> &'static str {
        self.protocol
    }

    /// A request was answered. `waited` says that it was one that may wait for messages, whose time says nothing about us.
    pub fn request(&self, operation: usize, outcome: Outcome, took: Duration, waited: bool) {
        let last = self.operations.len().saturating_sub(1);
        if let Some((_, counts)) = self.operations.get(operation.min(last)) {
            counts[outcome as usize].fetch_add(1, Relaxed);
        }
        let durations = if waited { &self.waits } else { &self.answers };
        durations.observe(took);
    }

    /// Messages were accepted.
    pub fn sent(&self, count: usize) {
        self.sent.fetch_add(count as u64, Relaxed);
    }

    /// Messages were given to a receiver.
    pub fn delivered(&self, count: usize) {
        self.delivered.fetch_add(count as u64, Relaxed);
    }

    /// Messages were deleted by a receiver.
    pub fn deleted(&self, count: usize) {
        self.deleted.fetch_add(count as u64, Relaxed);
    }

    /// The sums.
    pub fn totals(&self) -> Totals {
        Totals {
            requests: self.requests().map(|(_, _, count)| count).sum(),
            sent: self.sent.load(Relaxed),
            delivered: self.delivered.load(Relaxed),
            deleted: self.deleted.load(Relaxed),
        }
    }

    /// Requests by operation and outcome.
    pub fn requests(&self) -> impl Iterator<Item = (&'static str, Outcome, u64)> + '_ {
        self.operations.iter().flat_map(|(name, counts)| {
            Outcome::ALL.map(|outcome| (*name, outcome, counts[outcome as usize].load(Relaxed)))
        })
    }

    /// How long answers took, those that may wait for messages left out.
    pub const fn answers(&self) -> &Durations {
        &self.answers
    }

    /// How long answers took that may wait for messages.
    pub const fn waits(&self) -> &Durations {
        &self.waits
    }
}

/// A histogram of times.
#[derive(Debug, Default)]
pub struct Durations {
    counts: [AtomicU64; Self::BOUNDS.len() + 1],
    micros: AtomicU64,
}

impl Durations {
    /// The upper ends of its parts in seconds; the last part has none.
    pub const BOUNDS: [f64; 14] = [
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    ];

    fn observe(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let part = Self::BOUNDS.partition_point(|bound| *bound < seconds);
        self.counts[part].fetch_add(1, Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Relaxed);
    }

    /// How many were no longer than each bound, and how many there are in all.
    pub fn cumulative(&self) -> ([u64; Self::BOUNDS.len()], u64) {
        let mut sum = 0;
        let mut cumulative = [0; Self::BOUNDS.len()];
        for (figure, count) in cumulative.iter_mut().zip(&self.counts) {
            sum += count.load(Relaxed);
            *figure = sum;
        }
        (
            cumulative,
            sum + self.counts[Self::BOUNDS.len()].load(Relaxed),
        )
    }

    /// Their sum in seconds.
    pub fn seconds(&self) -> f64 {
        Duration::from_micros(self.micros.load(Relaxed)).as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_operation_and_outcome_and_unknown_ones_as_the_last() {
        let traffic = Traffic::new("sqs", ["Send", "Receive", "other"]);
        let millisecond = Duration::from_millis(1);
        traffic.request(0, Outcome::Done, millisecond, false);
        traffic.request(0, Outcome::Done, millisecond, false);
        traffic.request(1, Outcome::Failed, millisecond, true);
        traffic.request(usize::MAX, Outcome::Refused, millisecond, false);
        let counted: Vec<_> = traffic
            .requests()
            .filter(|(_, _, count)| *count > 0)
            .collect();
        assert_eq!(
            counted,
            [
                ("Send", Outcome::Done, 2),
                ("Receive", Outcome::Failed, 1),
                ("other", Outcome::Refused, 1)
            ]
        );
        assert_eq!(traffic.totals().requests, 4);
        assert_eq!(
            (
                traffic.answers().cumulative().1,
                traffic.waits().cumulative().1
            ),
            (3, 1)
        );
    }

    #[test]
    fn times_fall_into_the_part_whose_end_they_do_not_exceed() {
        let durations = Durations::default();
        for millis in [1, 2, 3, 40_000] {
            durations.observe(Duration::from_millis(millis));
        }
        let (cumulative, all) = durations.cumulative();
        assert_eq!(
            (&cumulative[..4], cumulative[13], all),
            (&[1, 2, 3, 3][..], 3, 4)
        );
        assert!((durations.seconds() - 40.006).abs() < 1e-9);
    }
}

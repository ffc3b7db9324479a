//! What passes between a front end and the node, counted.
//!
//! A front end makes one [`Traffic`] when it starts and names its operations there; afterwards counting is an addition
//! to an atomic number. Operations are a closed set, so the number of metric series is, too.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The counters of one protocol.
#[derive(Debug)]
pub struct Traffic {
    protocol: &'static str,
    sent: AtomicU64,
    delivered: AtomicU64,
    deleted: AtomicU64,
    operations: Vec<(&'static str, [AtomicU64; Outcome::ALL.len()])>,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Done,
    /// The client's mistake, or a limit.
    Refused,
    /// Ours.
    Failed,
}

impl Outcome {
    /// All of them, in the order of their numbers.
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

/// What a request without a known operation counts as.
const NONE: &str = "none";

impl Traffic {
    /// Counters of a protocol with these operations.
    pub fn new(protocol: &'static str, operations: impl IntoIterator<Item = &'static str>) -> Self {
        let operations = std::iter::once(NONE).chain(operations);
        Self {
            protocol,
            sent: AtomicU64::default(),
            delivered: AtomicU64::default(),
            deleted: AtomicU64::default(),
            operations: operations.map(|name| (name, Default::default())).collect(),
        }
    }

    /// The protocol, as a metric's label.
    pub fn protocol(&self) -> &'static str {
        self.protocol
    }

    /// Messages that the node took.
    pub fn sent(&self, count: usize) {
        self.sent.fetch_add(count as u64, Relaxed);
    }

    /// Messages given to a client.
    pub fn delivered(&self, count: usize) {
        self.delivered.fetch_add(count as u64, Relaxed);
    }

    /// Messages that a client settled for good.
    pub fn deleted(&self, count: usize) {
        self.deleted.fetch_add(count as u64, Relaxed);
    }

    /// A request, answered. `operation` is its place in the list given at the start.
    pub fn request(&self, operation: Option<usize>, outcome: Outcome) {
        let index = operation.map_or(0, |index| index + 1);
        if let Some((_, counts)) = self.operations.get(index) {
            counts[outcome as usize].fetch_add(1, Relaxed);
        }
    }

    /// Messages sent, delivered and deleted since the start.
    pub fn messages(&self) -> [u64; 3] {
        [&self.sent, &self.delivered, &self.deleted].map(|count| count.load(Relaxed))
    }

    /// Requests since the start, by operation and outcome.
    pub fn requests(&self) -> impl Iterator<Item = (&'static str, Outcome, u64)> {
        self.operations.iter().flat_map(|(name, counts)| {
            let outcomes = Outcome::ALL.into_iter().zip(counts);
            outcomes.map(|(outcome, count)| (*name, outcome, count.load(Relaxed)))
        })
    }
}

//! The time by which addresses are judged: monotonic, with the wall clock's reading at its beginning.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use governor::nanos::Nanos;

/// A clock. Clones show the same time.
#[derive(Clone, Debug)]
pub struct Clock {
    source: Source,
    /// The wall clock at this clock's zero, in milliseconds since 1970.
    unix_ms: u64,
}

#[derive(Clone, Debug)]
enum Source {
    System(Instant),
    Hand(Arc<AtomicU64>),
}

/// Moves a clock of [`Clock::by_hand`].
#[derive(Clone, Debug)]
pub struct Hand(Arc<AtomicU64>);

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        let unix = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            source: Source::System(Instant::now()),
            unix_ms: u64::try_from(unix.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// A clock that stands still until its hand is moved, for tests. It begins at `unix_ms`.
    pub fn by_hand(unix_ms: u64) -> (Self, Hand) {
        let nanos = Arc::new(AtomicU64::new(0));
        let clock = Self {
            source: Source::Hand(Arc::clone(&nanos)),
            unix_ms,
        };
        (clock, Hand(nanos))
    }

    /// Since its beginning.
    pub(crate) fn elapsed(&self) -> Duration {
        match &self.source {
            Source::System(start) => start.elapsed(),
            Source::Hand(nanos) => Duration::from_nanos(nanos.load(Ordering::Relaxed)),
        }
    }

    /// Milliseconds since 1970.
    pub(crate) fn unix_ms(&self) -> u64 {
        let elapsed = u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.unix_ms.saturating_add(elapsed)
    }
}

impl Hand {
    /// Moves the clock ahead.
    pub fn advance(&self, by: Duration) {
        let nanos = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_add(nanos, Ordering::Relaxed);
    }
}

impl governor::clock::Clock for Clock {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        Nanos::from(self.elapsed())
    }
}

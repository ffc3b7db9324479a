//! The time by which everything is judged: the wall clock where it started, a monotonic one from there.

use std::{
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use powerqueue_engine::Millis;
use tokio::time::Instant;

/// A wall clock ahead by more than this is believed only once the system says that it is synchronised.
const LEAP: Duration = Duration::from_secs(3600);

/// Where the system says that its clock was synchronised.
const SYNCHRONISED: &str = "/run/systemd/timesync/synchronized";

#[derive(Debug)]
pub(crate) struct Clock(Mutex<Anchor>);

#[derive(Debug)]
struct Anchor {
    at: Millis,
    since: Instant,
    /// A leap was told of and not followed.
    warned: bool,
}

impl Clock {
    /// A clock that never shows less than `last`, the latest time in the journal.
    pub(crate) fn starting_at(last: Millis) -> Self {
        Self(Mutex::new(Anchor {
            at: wall().max(last),
            since: Instant::now(),
            warned: false,
        }))
    }

    pub(crate) fn now(&self) -> Millis {
        self.0.lock().now()
    }

    /// Follows a wall clock that is ahead. One that is behind is waited for.
    pub(crate) fn follow_wall(&self) {
        let mut anchor = self.0.lock();
        let (now, wall) = (anchor.now(), wall());
        let ahead = wall.since(now);
        if ahead.0 < 10 {
            return;
        }
        if u128::from(ahead.0) > LEAP.as_millis() && !Path::new(SYNCHRONISED).exists() {
            if !std::mem::replace(&mut anchor.warned, true) {
                tracing::warn!(
                    ahead_ms = ahead.0,
                    "the wall clock leapt ahead; waiting until it is synchronised"
                );
            }
            return;
        }
        if u128::from(ahead.0) > LEAP.as_millis() {
            tracing::warn!(ahead_ms = ahead.0, "following the wall clock's leap");
        }
        *anchor = Anchor {
            at: wall,
            since: Instant::now(),
            warned: false,
        };
    }
}

/// How long the node has served, over all its lives. Does not run while it is down.
#[derive(Debug)]
pub(crate) struct Serving {
    before: Millis,
    since: Instant,
}

impl Serving {
    pub(crate) fn starting_at(before: Millis) -> Self {
        Self {
            // Zero is no time that anybody was seen at.
            before: before.max(Millis(1)),
            since: Instant::now(),
        }
    }

    pub(crate) fn now(&self) -> Millis {
        let elapsed = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.before.plus(Millis(elapsed))
    }
}

impl Anchor {
    fn now(&self) -> Millis {
        let elapsed = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.at.plus(Millis(elapsed))
    }
}

/// The system's clock.
pub(crate) fn wall() -> Millis {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

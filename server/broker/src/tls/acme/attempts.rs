//! When the next order may be tried after one that failed.
//!
//! It is kept on the disk: certificate authorities count failures by the hour, and a broker that restarts all the time
//! must not use them up.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::data_dir::DataDir;
use crate::failure::Failure;

/// Where it is kept.
pub(super) const FILE: &str = "acme-attempts.json";

/// However often it failed, it is tried again after this long.
const LONGEST: Duration = Duration::from_secs(6 * 3600);

/// Failures of one order in a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempts {
    /// What was ordered, and where. Another order starts afresh.
    order: String,
    failures: u32,
    /// Seconds since 1970.
    next: i64,
}

impl Attempts {
    /// What is known of that order. A file that says nothing usable says that nothing failed.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn load(folder: &DataDir, order: &str) -> Result<Self, Failure> {
        let kept = folder
            .read(FILE)?
            .and_then(|text| serde_json::from_str::<Self>(&text).ok());
        Ok(kept
            .filter(|kept| kept.order == order)
            .unwrap_or_else(|| Self {
                order: order.to_owned(),
                ..Self::default()
            }))
    }

    /// As it is kept.
    pub(super) fn to_text(&self) -> String {
        // Text and numbers can always be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// When the next attempt is due, if the certificate is wanted at `wanted` (seconds since 1970). A clock that was
    /// wrong when it failed must not put it off for longer than the longest wait.
    pub fn due(&self, wanted: i64, now: i64) -> i64 {
        let longest = i64::try_from(LONGEST.as_secs()).unwrap_or(i64::MAX);
        wanted.max(self.next.min(now.saturating_add(longest * 2)))
    }

    /// After a failure: the next attempt is `first` later, twice that after the second, and so on; `chance` out of
    /// 2³² of a quarter is added, so that many brokers that failed together do not come back together.
    pub fn failed(&mut self, now: i64, first: Duration, chance: u32) {
        let doubled = first.saturating_mul(1_u32 << self.failures.min(20));
        let wait = doubled.min(LONGEST);
        let spread = wait.mul_f64(f64::from(chance) / f64::from(u32::MAX) / 4.0);
        // Whole seconds, upwards: a wait of none would be a busy loop against somebody else's service.
        let seconds = (wait + spread).as_secs() + 1;
        self.failures = self.failures.saturating_add(1);
        self.next = now.saturating_add(i64::try_from(seconds).unwrap_or(i64::MAX));
    }

    /// After a success. Not even a certificate that is due again at once, as by a clock that is years off, is ordered
    /// again before the wait after a first failure.
    pub fn succeeded(&mut self, now: i64, first: Duration) {
        self.failures = 0;
        let seconds = i64::try_from(first.as_secs()).unwrap_or(i64::MAX);
        self.next = now.saturating_add(seconds.max(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_secs(120);

    #[test]
    fn waits_double_up_to_six_hours_until_a_success() {
        let mut attempts = Attempts::default();
        assert_eq!(attempts.due(500, 1000), 500);
        let waits: Vec<i64> = (0..10)
            .map(|_| {
                attempts.failed(1000, FIRST, 0);
                attempts.due(0, 1000) - 1001
            })
            .collect();
        assert_eq!(
            waits,
            [120, 240, 480, 960, 1920, 3840, 7680, 15_360, 21_600, 21_600]
        );
        attempts.succeeded(1000, FIRST);
        assert_eq!(attempts.due(5000, 1000), 5000);
        assert_eq!(attempts.due(0, 1000), 1120, "two orders in a row");
    }

    #[test]
    fn at_most_five_attempts_fall_into_the_first_hour() {
        let mut attempts = Attempts::default();
        let mut now = 0;
        let mut count = 0;
        while now < 3600 {
            count += 1;
            attempts.failed(now, FIRST, 0);
            now = attempts.due(0, now);
        }
        assert_eq!(count, 5);
    }

    #[test]
    fn chance_adds_up_to_a_quarter() {
        let mut attempts = Attempts::default();
        attempts.failed(0, FIRST, u32::MAX);
        assert_eq!(attempts.due(0, 0), 151);
    }

    #[test]
    fn failures_outlive_a_restart_but_not_a_change_of_the_order() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(folder.path()).unwrap();
        let mut attempts = Attempts::load(&data, "a").unwrap();
        attempts.failed(1000, FIRST, 0);
        data.write(FILE, &attempts.to_text()).unwrap();
        assert_eq!(Attempts::load(&data, "a").unwrap(), attempts);
        assert_eq!(Attempts::load(&data, "b").unwrap().due(0, 0), 0);
        data.write(FILE, "rubbish").unwrap();
        assert_eq!(Attempts::load(&data, "a").unwrap().due(0, 0), 0);
    }

    #[test]
    fn a_clock_that_was_years_ahead_puts_it_off_for_hours_only() {
        let mut attempts = Attempts::default();
        attempts.failed(4_000_000_000, FIRST, 0);
        assert_eq!(attempts.due(0, 1000), 1000 + 12 * 3600);
    }
}

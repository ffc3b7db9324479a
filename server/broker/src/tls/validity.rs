//! From when and until when a certificate counts, and when it is time for the next one.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use powerqueue_net::tls::Certificate;

/// The longest single sleep. A machine that was suspended, or whose clock was set, is noticed after this long.
const LOOK: Duration = Duration::from_secs(600);

/// A certificate's validity, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first second.
    pub from: i64,
    /// The last second.
    pub until: i64,
}

impl Validity {
    /// A certificate's, unless it cannot be read.
    pub fn of(certificate: &Certificate) -> Option<Self> {
        let (_, parsed) = x509_parser::parse_x509_certificate(certificate.end_entity()).ok()?;
        let validity = parsed.validity();
        Some(Self {
            from: validity.not_before.timestamp(),
            until: validity.not_after.timestamp(),
        })
    }

    /// When a third of its life is left, which is when the next one is due.
    pub fn renewal(self) -> i64 {
        let life = self.until.saturating_sub(self.from).max(0);
        self.until.saturating_sub(life / 3)
    }
}

/// Seconds since 1970.
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}

/// Waits until the wall clock shows that time.
pub async fn reach(time: i64) {
    loop {
        let Ok(left @ 1..) = u64::try_from(time.saturating_sub(now())) else {
            return;
        };
        tokio::time::sleep(Duration::from_secs(left).min(LOOK)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_one_is_due_when_a_third_of_its_life_is_left() {
        let day = 86_400;
        let validity = Validity {
            from: 1000,
            until: 1000 + 90 * day,
        };
        assert_eq!(validity.renewal(), 1000 + 60 * day);
        let reversed = Validity { from: 9, until: 3 };
        assert_eq!(reversed.renewal(), 3);
    }
}

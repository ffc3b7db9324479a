//! How much an address may ask for. `None` is no limit.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::address::Network;

/// All limits by address.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Requests.
    pub requests: Option<Rate>,
    /// Requests being answered at once, long polls included.
    pub requests_at_once: Option<u32>,
    /// Streams open at once.
    pub streams: Option<u32>,
    /// New connections, where clients reach us without a proxy.
    pub new_connections: Option<Rate>,
    /// Connections open at once, over all such listeners together.
    pub connections: Option<u32>,
    /// New tenants.
    pub new_tenants: Option<Rate>,
    /// Bans for who does not heed refusals.
    pub bans: Option<Ladder>,
    /// What an IPv6 /56 and a /48 have, as multiples of one address's share.
    pub network_factors: [u32; 2],
    /// Who is not judged at all.
    pub exempt: Vec<Network>,
    /// How many addresses, and networks of each size, each budget remembers.
    pub tracked: usize,
    /// How many addresses are watched for bans at most.
    pub bans_kept: usize,
}

impl Settings {
    /// No limit at all.
    pub const OFF: Self = Self {
        requests: None,
        requests_at_once: None,
        streams: None,
        new_connections: None,
        connections: None,
        new_tenants: None,
        bans: None,
        network_factors: [4, 10],
        exempt: Vec::new(),
        tracked: 450_000,
        bans_kept: 100_000,
    };
}

/// So many at once, and one more each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// At once, after a rest.
    pub burst: NonZeroU32,
    /// How long until there is one more.
    pub period: Duration,
}

impl Rate {
    /// `per` in `time`, lasting, and `burst` at once. Zero counts as one.
    pub fn new(per: u32, time: Duration, burst: u32) -> Self {
        Self {
            burst: NonZeroU32::new(burst).unwrap_or(NonZeroU32::MIN),
            period: time / per.max(1),
        }
    }

    /// The share of many: the period and the burst.
    pub(crate) fn times(self, factor: u32) -> (Duration, NonZeroU32) {
        let factor = factor.max(1);
        (
            (self.period / factor).max(Duration::from_nanos(1)),
            self.burst
                .saturating_mul(NonZeroU32::new(factor).unwrap_or(NonZeroU32::MIN)),
        )
    }
}

/// When an address is banned, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ladder {
    /// Refusals within a minute that bring a ban.
    pub refusals: u32,
    /// How many refusals of one second count at most.
    pub counted_per_second: Option<u32>,
    /// How long: the first time, the second, and so on; the last one repeats.
    pub lengths: Vec<Duration>,
    /// How long after its last ban an address is a stranger again.
    pub forgotten_after: Duration,
}

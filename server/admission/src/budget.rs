//! A budget that refills: so many at once, so many in a time, for an address and for the networks around it.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::Clock as _;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::{Quota, RateLimiter};

use crate::address::Keys;
use crate::clock::Clock;
use crate::settings::{Rate, Settings};
use crate::table::Table;

/// One kind of budget for all addresses.
#[derive(Debug)]
pub(crate) struct Budget {
    address: Limiter,
    /// The IPv6 /56 and /48 around it, each with a multiple.
    networks: [Limiter; 2],
    /// By /24 or /48, those for whom there is no room in `address`.
    crowd: Limiter,
    /// All together, those for whom there is none in `crowd` either.
    rest: Limiter,
}

/// A budget is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spent {
    /// Whose: the address's key, or that of a network around it.
    pub(crate) key: u64,
    pub(crate) width: Width,
    /// When there is one again.
    pub(crate) wait: Duration,
}

/// How much of an address a key is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub(crate) enum Width {
    /// An IPv4 address or an IPv6 /64.
    Address,
    /// An IPv6 /56.
    Site,
    /// An IPv6 /48.
    Network,
}

pub(crate) const NETWORK_WIDTHS: [Width; 2] = [Width::Site, Width::Network];

impl Budget {
    pub(crate) fn new(rate: Rate, settings: &Settings, clock: &Clock) -> Self {
        let limiter = |factor| Limiter::new(rate, factor, settings.tracked, clock);
        let [_, widest] = settings.network_factors;
        Self {
            address: limiter(1),
            networks: settings.network_factors.map(limiter),
            crowd: limiter(widest),
            rest: Limiter::new(rate, widest, 1, clock),
        }
    }

    /// Takes one.
    pub(crate) fn take(&self, keys: Keys) -> Result<(), Spent> {
        // Whom there is no room to remember shares with the neighbours, and is not banned alone.
        if self.address.table.takes(keys.fine) {
            self.address.take(keys.fine, Width::Address)?;
        } else if self.crowd.table.takes(keys.crowd()) {
            self.crowd.take(keys.crowd(), Width::Network)?;
        } else {
            self.rest.take(u64::MAX, Width::Network)?;
        }
        for ((limiter, key), width) in self
            .networks
            .iter()
            .zip(keys.networks.iter().flatten())
            .zip(NETWORK_WIDTHS)
        {
            limiter.take(*key, width)?;
        }
        Ok(())
    }

    /// How many an address could take now.
    pub(crate) fn left(&self, address: IpAddr) -> u32 {
        let keys = Keys::of(address);
        let networks = self
            .networks
            .iter()
            .zip(keys.networks.iter().flatten())
            .map(|(limiter, key)| limiter.left(*key));
        networks.fold(self.address.left(keys.fine), u32::min)
    }

    /// How many addresses and networks are remembered.
    pub(crate) fn keys(&self) -> usize {
        self.limiters().map(|limiter| limiter.table.len()).sum()
    }

    pub(crate) fn sweep(&self) {
        for limiter in self.limiters() {
            limiter.table.sweep(limiter.clock.now());
        }
    }

    fn limiters(&self) -> impl Iterator<Item = &Limiter> {
        [&self.address, &self.crowd, &self.rest]
            .into_iter()
            .chain(&self.networks)
    }
}

#[derive(Debug)]
struct Limiter {
    limiter: RateLimiter<u64, Table, Clock, NoOpMiddleware<Nanos>>,
    table: Table,
    clock: Clock,
    /// When the limiter began: its table counts from there.
    start: Nanos,
    period: Nanos,
    burst: u32,
}

impl Limiter {
    fn new(rate: Rate, factor: u32, most: usize, clock: &Clock) -> Self {
        let (period, burst) = rate.times(factor);
        // A period of zero would be no limit at all; `Rate::times` gives a nanosecond at least.
        let quota = Quota::with_period(period)
            .unwrap_or(Quota::per_second(NonZeroU32::MIN))
            .allow_burst(burst);
        let table = Table::new(most);
        Self {
            start: clock.now(),
            limiter: RateLimiter::new(quota, table.clone(), clock.clone()),
            table,
            clock: clock.clone(),
            period: period.into(),
            burst: burst.get(),
        }
    }

    fn take(&self, key: u64, width: Width) -> Result<(), Spent> {
        self.limiter.check_key(&key).map_err(|until| Spent {
            key,
            width,
            wait: until.wait_time_from(self.clock.now()),
        })
    }

    fn left(&self, key: u64) -> u32 {
        let now = self.clock.now().saturating_sub(self.start);
        let owed = self
            .table
            .get(key)
            .unwrap_or_default()
            .saturating_sub(now)
            .as_u64();
        let taken = owed.div_ceil(self.period.as_u64().max(1));
        self.burst
            .saturating_sub(u32::try_from(taken).unwrap_or(u32::MAX))
    }
}

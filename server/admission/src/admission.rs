//! The judge that front ends ask.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::address::{Keys, judged_as};
use crate::bans::{Ban, Bans, Offender};
use crate::budget::{Budget, NETWORK_WIDTHS, Spent, Width};
use crate::clock::Clock;
use crate::open::{Open, Slot};
use crate::settings::{Rate, Settings};

/// Judges client addresses. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct Admission(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: Settings,
    requests: Option<Budget>,
    new_connections: Option<Budget>,
    new_tenants: Option<Budget>,
    requests_at_once: Option<Open>,
    streams: Option<Open>,
    connections: Option<Open>,
    bans: Option<Bans>,
    refused: [AtomicU64; Reason::ALL.len()],
}

/// Why an address was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Too many requests in a time.
    Requests,
    /// Too many requests at once.
    RequestsAtOnce,
    /// Too many streams at once.
    Streams,
    /// Too many new connections in a time.
    NewConnections,
    /// Too many connections at once.
    Connections,
    /// Too many new tenants in a time.
    NewTenants,
    /// Refused outright, for too many refusals.
    Banned,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Requests,
        Self::RequestsAtOnce,
        Self::Streams,
        Self::NewConnections,
        Self::Connections,
        Self::NewTenants,
        Self::Banned,
    ];

    /// As a metric's label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::RequestsAtOnce => "requests_at_once",
            Self::Streams => "streams",
            Self::NewConnections => "new_connections",
            Self::Connections => "connections",
            Self::NewTenants => "new_tenants",
            Self::Banned => "banned",
        }
    }
}

/// A refusal, to be answered in the protocol's own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Why.
    pub reason: Reason,
    /// How long to wait before another try can succeed. Zero where nobody can know.
    pub wait: Duration,
    /// The ban, if there is one in force.
    pub ban: Option<Ban>,
}

impl Refused {
    /// Whole seconds for a `Retry-After` header: at least one, at most an hour.
    pub fn retry_after(&self) -> u64 {
        self.wait
            .as_millis()
            .div_ceil(1000)
            .clamp(1, 3600)
            .try_into()
            .unwrap_or(3600)
    }
}

/// In words for the client.
impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wait = self.retry_after();
        match self.reason {
            Reason::Requests => {
                f.write_str("your address sends too many requests; slow down and try again")
            }
            Reason::RequestsAtOnce => {
                f.write_str("your address has too many requests in progress; let some finish first")
            }
            Reason::Streams => {
                f.write_str("your address has too many streams open; close some first")
            }
            Reason::NewConnections => {
                f.write_str("your address opens connections too fast; keep some open")
            }
            Reason::Connections => {
                f.write_str("your address has too many connections open; close some first")
            }
            Reason::NewTenants => {
                f.write_str("too many new tenants; try again later or reuse your identifier")
            }
            Reason::Banned => write!(
                f,
                "your address kept exceeding the limits and is refused for now; try again in {wait} s or later"
            ),
        }
    }
}

impl std::error::Error for Refused {}

/// Whether a refusal counts towards a ban.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// The client asked by itself.
    Yes,
    /// Somebody else's page had its browser ask: nobody must be able to get a stranger banned.
    No,
}

/// How an address stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// What is judged: the IPv4 address or the IPv6 /64.
    pub judged_as: String,
    /// Requests.
    pub requests: Option<Allowance>,
    /// New tenants.
    pub new_tenants: Option<Allowance>,
    /// Connections open, and how many may be.
    pub connections: Option<(u32, u32)>,
    /// Refusals within the last minute, and how many bring a ban.
    pub refusals: Option<(u32, u32)>,
    /// The ban in force.
    pub ban: Option<Ban>,
}

/// What is left of a budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowance {
    /// How many now.
    pub left: u32,
    /// How it refills.
    pub rate: Rate,
}

/// Figures for metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Refusals since the start, in the order of [`Reason::ALL`].
    pub refused: [u64; Reason::ALL.len()],
    /// Addresses and networks remembered.
    pub keys: usize,
    /// Bans in force by level, from the first; empty where there are no bans.
    pub bans_active: Vec<u64>,
    /// Bans since the start.
    pub bans: u64,
}

impl Admission {
    /// A judge by these settings.
    pub fn new(settings: Settings, clock: &Clock) -> Self {
        let budget = |rate: Option<Rate>| rate.map(|rate| Budget::new(rate, &settings, clock));
        let open = |most: Option<u32>| most.map(|most| Open::new(most, settings.network_factors));
        Self(Arc::new(Inner {
            requests: budget(settings.requests),
            new_connections: budget(settings.new_connections),
            new_tenants: budget(settings.new_tenants),
            requests_at_once: open(settings.requests_at_once),
            streams: open(settings.streams),
            connections: open(settings.connections),
            bans: settings
                .bans
                .clone()
                .map(|ladder| Bans::new(ladder, settings.bans_kept, clock)),
            refused: Default::default(),
            settings,
        }))
    }

    /// A judge that lets everything pass.
    pub fn off() -> Self {
        Self::new(Settings::OFF, &Clock::system())
    }

    /// A request; it counts as being answered until the slot is dropped.
    ///
    /// # Errors
    /// [`Reason::Banned`], [`Reason::Requests`], [`Reason::RequestsAtOnce`].
    pub fn request(&self, address: IpAddr, counted: Counted) -> Result<Slot, Refused> {
        let Some(keys) = self.judged(address)? else {
            return Ok(Slot::FREE);
        };
        self.spend(&self.0.requests, Reason::Requests, keys, counted)?;
        let open = &self.0.requests_at_once;
        self.occupy(open, Reason::RequestsAtOnce, keys, counted)
    }

    /// A stream, or another request that lasts; it counts until the slot is dropped.
    ///
    /// # Errors
    /// [`Reason::Banned`], [`Reason::Streams`].
    pub fn stream(&self, address: IpAddr) -> Result<Slot, Refused> {
        match self.judged(address)? {
            Some(keys) => self.occupy(&self.0.streams, Reason::Streams, keys, Counted::Yes),
            None => Ok(Slot::FREE),
        }
    }

    /// A connection that was just accepted, before any work is done for it; it counts until the slot is dropped.
    ///
    /// # Errors
    /// [`Reason::Banned`], [`Reason::NewConnections`], [`Reason::Connections`]: the socket is to be closed.
    pub fn connection(&self, address: IpAddr) -> Result<Slot, Refused> {
        let Some(keys) = self.judged(address)? else {
            return Ok(Slot::FREE);
        };
        let new = &self.0.new_connections;
        self.spend(new, Reason::NewConnections, keys, Counted::Yes)?;
        self.occupy(&self.0.connections, Reason::Connections, keys, Counted::Yes)
    }

    /// A tenant that the address is about to make.
    ///
    /// # Errors
    /// [`Reason::Banned`], [`Reason::NewTenants`].
    pub fn new_tenant(&self, address: IpAddr, counted: Counted) -> Result<(), Refused> {
        match self.judged(address)? {
            Some(keys) => self.spend(&self.0.new_tenants, Reason::NewTenants, keys, counted),
            None => Ok(()),
        }
    }

    /// The ban on an address, without counting anything.
    pub fn ban(&self, address: IpAddr) -> Option<Ban> {
        if self.is_exempt(address) {
            return None;
        }
        self.0.bans.as_ref()?.on(offenders(Keys::of(address)))
    }

    /// How an address stands, without counting anything.
    pub fn standing(&self, address: IpAddr) -> Standing {
        let inner = &*self.0;
        let exempt = self.is_exempt(address);
        let keys = Keys::of(address);
        let allowance = |budget: &Option<Budget>, rate: Option<Rate>| {
            let left = budget.as_ref()?.left(address);
            rate.filter(|_| !exempt)
                .map(|rate| Allowance { left, rate })
        };
        let itself = Offender {
            width: Width::Address,
            key: keys.fine,
        };
        let bans = inner.bans.as_ref().filter(|_| !exempt);
        let connections = inner.connections.as_ref().filter(|_| !exempt);
        Standing {
            judged_as: judged_as(address),
            requests: allowance(&inner.requests, inner.settings.requests),
            new_tenants: allowance(&inner.new_tenants, inner.settings.new_tenants),
            connections: connections.map(|open| (open.of(keys), open.most())),
            refusals: bans.map(|bans| (bans.recent(itself), bans.refusals())),
            ban: self.ban(address),
        }
    }

    /// Figures for metrics.
    pub fn totals(&self) -> Totals {
        let inner = &*self.0;
        let mut refused = [0; Reason::ALL.len()];
        for (figure, count) in refused.iter_mut().zip(&inner.refused) {
            *figure = count.load(Ordering::Relaxed);
        }
        let (bans_active, bans) = inner.bans.as_ref().map(Bans::totals).unwrap_or_default();
        Totals {
            refused,
            keys: self.budgets().map(Budget::keys).sum::<usize>()
                + self.opens().map(Open::keys).sum::<usize>(),
            bans_active,
            bans,
        }
    }

    /// Forgets whom nothing is held against any more. To be called every few seconds, where blocking for
    /// milliseconds is allowed.
    pub fn sweep(&self) {
        self.budgets().for_each(Budget::sweep);
        if let Some(bans) = &self.0.bans {
            bans.sweep();
        }
    }

    /// The bans, for [`restore`](Self::restore) after a restart; `None` if nothing changed since the last call.
    pub fn save(&self) -> Option<Vec<u8>> {
        self.0.bans.as_ref()?.save()
    }

    /// Takes up saved bans.
    pub fn restore(&self, bytes: &[u8]) {
        if let Some(bans) = &self.0.bans {
            bans.restore(bytes);
        }
    }

    /// The keys to judge by, unless the address is exempt; refused if it is banned.
    fn judged(&self, address: IpAddr) -> Result<Option<Keys>, Refused> {
        if self.is_exempt(address) {
            return Ok(None);
        }
        let keys = Keys::of(address);
        let ban = self
            .0
            .bans
            .as_ref()
            .and_then(|bans| bans.on(offenders(keys)));
        match ban {
            Some(ban) => {
                self.tally(Reason::Banned);
                Err(Refused {
                    reason: Reason::Banned,
                    wait: ban.left,
                    ban: Some(ban),
                })
            }
            None => Ok(Some(keys)),
        }
    }

    fn spend(
        &self,
        budget: &Option<Budget>,
        reason: Reason,
        keys: Keys,
        counted: Counted,
    ) -> Result<(), Refused> {
        let Some(budget) = budget else {
            return Ok(());
        };
        budget.take(keys).map_err(|Spent { key, width, wait }| {
            self.refuse(reason, wait, Offender { width, key }, counted)
        })
    }

    fn occupy(
        &self,
        open: &Option<Open>,
        reason: Reason,
        keys: Keys,
        counted: Counted,
    ) -> Result<Slot, Refused> {
        let Some(open) = open else {
            return Ok(Slot::FREE);
        };
        open.take(keys).map_err(|(width, key)| {
            self.refuse(reason, Duration::ZERO, Offender { width, key }, counted)
        })
    }

    fn refuse(
        &self,
        reason: Reason,
        wait: Duration,
        offender: Offender,
        counted: Counted,
    ) -> Refused {
        self.tally(reason);
        let bans = self.0.bans.as_ref().filter(|_| counted == Counted::Yes);
        let ban = bans.and_then(|bans| bans.count(offender));
        Refused { reason, wait, ban }
    }

    fn tally(&self, reason: Reason) {
        self.0.refused[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn is_exempt(&self, address: IpAddr) -> bool {
        let exempt = &self.0.settings.exempt;
        exempt.iter().any(|network| network.contains(address))
    }

    fn budgets(&self) -> impl Iterator<Item = &Budget> {
        let inner = &*self.0;
        [&inner.requests, &inner.new_connections, &inner.new_tenants]
            .into_iter()
            .flatten()
    }

    fn opens(&self) -> impl Iterator<Item = &Open> {
        let inner = &*self.0;
        [&inner.requests_at_once, &inner.streams, &inner.connections]
            .into_iter()
            .flatten()
    }
}

/// Whom a ban can concern that an address falls under: itself and the networks around it.
fn offenders(keys: Keys) -> impl Iterator<Item = Offender> {
    let networks = keys
        .networks
        .map(|keys| [0, 1].map(|i| (NETWORK_WIDTHS[i], keys[i])));
    std::iter::once((Width::Address, keys.fine))
        .chain(networks.into_iter().flatten())
        .map(|(width, key)| Offender { width, key })
}

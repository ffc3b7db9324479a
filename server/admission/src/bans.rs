//! The ban ladder: an address that does not heed refusals is refused outright, longer each time.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::budget::Width;
use crate::clock::Clock;
use crate::settings::Ladder;

/// Over how many seconds refusals are counted.
const WINDOW: usize = 60;

/// A ban in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ban {
    /// Its place on the ladder, from 1.
    pub level: u32,
    /// What is left of it.
    pub left: Duration,
    /// When it ends, in milliseconds since 1970.
    pub ends_ms: u64,
}

/// Whom a ban concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Offender {
    pub(crate) width: Width,
    pub(crate) key: u64,
}

#[derive(Debug)]
pub(crate) struct Bans {
    ladder: Ladder,
    most: usize,
    clock: Clock,
    records: Mutex<Records>,
}

#[derive(Debug, Default)]
struct Records {
    by_offender: HashMap<Offender, Record>,
    /// Bans so far, for the metrics.
    begun: u64,
    /// Something to save has changed.
    changed: bool,
}

#[derive(Debug)]
struct Record {
    recent: Recent,
    standing: Served,
}

/// What outlasts a restart. Times are milliseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Served {
    /// How many bans there were since the address was a stranger.
    bans: u32,
    /// When the last one ends, or ended.
    until: u64,
}

/// Refusals of the last minute, by second.
#[derive(Debug)]
struct Recent {
    counts: [u16; WINDOW],
    sum: u32,
    /// The second of the newest count.
    second: u64,
}

impl Bans {
    pub(crate) fn new(ladder: Ladder, most: usize, clock: &Clock) -> Self {
        Self {
            ladder,
            most,
            clock: clock.clone(),
            records: Mutex::default(),
        }
    }

    /// The longest ban in force on any of the offenders that an address belongs to.
    pub(crate) fn on(&self, offenders: impl Iterator<Item = Offender>) -> Option<Ban> {
        let now = self.clock.unix_ms();
        let records = self.records.lock();
        if records.by_offender.is_empty() {
            return None;
        }
        offenders
            .filter_map(|offender| records.by_offender.get(&offender)?.standing.ban(now))
            .max_by_key(|ban| ban.left)
    }

    /// Counts a refusal; the ban, if it brought one.
    pub(crate) fn count(&self, offender: Offender) -> Option<Ban> {
        let now = self.clock.unix_ms();
        let mut records = self.records.lock();
        let full = records.by_offender.len() >= self.most;
        if full && !records.by_offender.contains_key(&offender) {
            return None;
        }
        let record = records
            .by_offender
            .entry(offender)
            .or_insert_with(Record::new);
        if record.standing.ban(now).is_some() {
            return None;
        }
        record
            .recent
            .count(now / 1000, self.ladder.counted_per_second);
        if record.recent.sum < self.ladder.refusals {
            return None;
        }
        record.recent = Recent::none();
        record.standing = self.next(record.standing, now);
        let ban = record.standing.ban(now);
        records.begun += 1;
        records.changed = true;
        ban
    }

    fn next(&self, before: Served, now: u64) -> Served {
        let bans = if self.is_forgotten(before, now) {
            0
        } else {
            before.bans
        };
        let step = (bans as usize).min(self.ladder.lengths.len().saturating_sub(1));
        let length = self.ladder.lengths.get(step).copied().unwrap_or_default();
        Served {
            bans: bans.saturating_add(1),
            until: now.saturating_add(millis(length)),
        }
    }

    fn is_forgotten(&self, served: Served, now: u64) -> bool {
        now >= served
            .until
            .saturating_add(millis(self.ladder.forgotten_after))
    }

    /// Refusals within the last minute that counted against an offender.
    pub(crate) fn recent(&self, offender: Offender) -> u32 {
        let second = self.clock.unix_ms() / 1000;
        let mut records = self.records.lock();
        records.by_offender.get_mut(&offender).map_or(0, |record| {
            record.recent.advance(second);
            record.recent.sum
        })
    }

    /// How many refusals bring a ban.
    pub(crate) fn refusals(&self) -> u32 {
        self.ladder.refusals
    }

    /// Bans in force by level, the last entry being everything beyond the ladder's end; and all bans so far.
    pub(crate) fn totals(&self) -> (Vec<u64>, u64) {
        let now = self.clock.unix_ms();
        let records = self.records.lock();
        let mut active = vec![0; self.ladder.lengths.len().max(1)];
        for record in records.by_offender.values() {
            if let Some(ban) = record.standing.ban(now) {
                let step = (ban.level as usize - 1).min(active.len() - 1);
                active[step] += 1;
            }
        }
        (active, records.begun)
    }

    /// Forgets who has not been refused for a minute nor banned for long.
    pub(crate) fn sweep(&self) {
        let now = self.clock.unix_ms();
        let mut records = self.records.lock();
        records.by_offender.retain(|_, record| {
            record.recent.advance(now / 1000);
            record.recent.sum > 0
                || record.standing.bans > 0 && !self.is_forgotten(record.standing, now)
        });
        let len = records.by_offender.len();
        if records.by_offender.capacity() > 64 + 4 * len {
            records.by_offender.shrink_to(2 * len);
        }
    }

    /// What outlasts a restart, if it changed since the last call.
    pub(crate) fn save(&self) -> Option<Vec<u8>> {
        let mut records = self.records.lock();
        if !std::mem::take(&mut records.changed) {
            return None;
        }
        let banned: Vec<(Offender, Served)> = records
            .by_offender
            .iter()
            .filter(|(_, record)| record.standing.bans > 0)
            .map(|(offender, record)| (*offender, record.standing))
            .collect();
        drop(records);
        postcard::to_stdvec(&banned).ok()
    }

    /// Takes up what [`save`](Self::save) gave. Bytes that are something else are told of and left alone.
    pub(crate) fn restore(&self, bytes: &[u8]) {
        let banned: Vec<(Offender, Served)> = match postcard::from_bytes(bytes) {
            Ok(banned) => banned,
            Err(error) => {
                tracing::warn!(%error, "the saved bans cannot be read; everybody starts anew");
                return;
            }
        };
        let mut records = self.records.lock();
        for (offender, standing) in banned.into_iter().take(self.most) {
            let record = records
                .by_offender
                .entry(offender)
                .or_insert_with(Record::new);
            record.standing = standing;
        }
    }
}

impl Record {
    fn new() -> Self {
        Self {
            recent: Recent::none(),
            standing: Served::default(),
        }
    }
}

impl Served {
    fn ban(self, now: u64) -> Option<Ban> {
        (self.until > now).then(|| Ban {
            level: self.bans,
            left: Duration::from_millis(self.until - now),
            ends_ms: self.until,
        })
    }
}

impl Recent {
    const fn none() -> Self {
        Self {
            counts: [0; WINDOW],
            sum: 0,
            second: 0,
        }
    }

    /// Drops what is older than a minute.
    fn advance(&mut self, second: u64) {
        let passed = second.saturating_sub(self.second);
        if passed >= WINDOW as u64 {
            *self = Self::none();
        } else {
            for gone in self.second + 1..=second {
                let count = &mut self.counts[gone as usize % WINDOW];
                self.sum -= u32::from(std::mem::take(count));
            }
        }
        self.second = self.second.max(second);
    }

    fn count(&mut self, second: u64, most: Option<u32>) {
        self.advance(second);
        let count = &mut self.counts[self.second as usize % WINDOW];
        let most = most.unwrap_or(u32::MAX).min(u32::from(u16::MAX));
        if u32::from(*count) < most {
            *count += 1;
            self.sum += 1;
        }
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

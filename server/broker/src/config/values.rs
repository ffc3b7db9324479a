//! Values as people write them: `30s`, `64MiB`, `off`, several addresses in one line.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Span(Duration);

const SPANS: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

impl Span {
    /// Whole seconds.
    pub const fn secs(secs: u64) -> Self {
        Self(Duration::from_secs(secs))
    }

    /// As the standard library has it.
    pub const fn duration(self) -> Duration {
        self.0
    }

    fn millis(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }
}

impl FromStr for Span {
    type Err = String;

    /// One or more numbers with units: `90s`, `1h30m`.
    fn from_str(text: &str) -> Result<Self, String> {
        parse_sum(text, &SPANS)
            .map(|millis| Self(Duration::from_millis(millis)))
            .ok_or_else(|| format!("{text:?} is not a duration such as 500ms, 30s, 5m, 1h or 7d"))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_largest(f, self.millis(), &SPANS)
    }
}

/// When what an answer promises is on the disk: `always`, or a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum SyncPolicy {
    /// Before the answer.
    Always,
    /// At most so long after it: a power failure can lose what was answered in that time, the process's death cannot.
    Within(Span),
}

impl TryFrom<String> for SyncPolicy {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == "always" {
            return Ok(Self::Always);
        }
        match text.parse() {
            Ok(span) if span > Span(Duration::ZERO) => Ok(Self::Within(span)),
            _ => Err(format!(
                "{text:?} is neither \"always\" nor a duration such as 200ms or 1s"
            )),
        }
    }
}

impl From<SyncPolicy> for String {
    fn from(policy: SyncPolicy) -> Self {
        match policy {
            SyncPolicy::Always => "always".to_owned(),
            SyncPolicy::Within(span) => span.to_string(),
        }
    }
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Raw", into = "String")]
pub struct ByteSize(u64);

const SIZES: [(&str, u64); 5] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

impl ByteSize {
    /// So many KiB.
    pub const fn kib(count: u64) -> Self {
        Self(count << 10)
    }

    /// So many MiB.
    pub const fn mib(count: u64) -> Self {
        Self(count << 20)
    }

    /// In bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// In bytes, for what is held in memory.
    pub fn in_memory(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse()
            .ok()
            .or_else(|| parse_sum(text, &SIZES))
            .map(Self)
            .ok_or_else(|| format!("{text:?} is not a size such as 65536, 256KiB, 64MiB or 1GiB"))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_largest(f, self.0, &SIZES)
    }
}

/// A limit, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Raw", into = "Raw")]
#[serde(bound = "T: Quantity")]
pub enum Cap<T> {
    /// No limit.
    Off,
    /// At most this.
    At(T),
}

impl<T> Cap<T> {
    /// The limit, if there is one.
    pub fn limit(self) -> Option<T> {
        match self {
            Self::Off => None,
            Self::At(limit) => Some(limit),
        }
    }
}

/// What a [`Cap`] can limit.
pub trait Quantity: Copy {
    /// From the configuration.
    fn from_raw(raw: Raw) -> Result<Self, String>;
    /// Into it.
    fn into_raw(self) -> Raw;
}

impl Quantity for u64 {
    fn from_raw(raw: Raw) -> Result<Self, String> {
        match raw {
            Raw::Number(number) => Ok(number),
            Raw::Text(text) => text
                .parse()
                .map_err(|_| format!("{text:?} is neither a whole number nor \"off\"")),
        }
    }

    fn into_raw(self) -> Raw {
        Raw::Number(self)
    }
}

impl Quantity for ByteSize {
    fn from_raw(raw: Raw) -> Result<Self, String> {
        raw.try_into()
    }

    fn into_raw(self) -> Raw {
        Raw::Text(self.to_string())
    }
}

impl Quantity for Span {
    fn from_raw(raw: Raw) -> Result<Self, String> {
        match raw {
            Raw::Number(number) => {
                Err(format!("{number} has no unit; write {number}s for seconds"))
            }
            Raw::Text(text) => text.parse(),
        }
    }

    fn into_raw(self) -> Raw {
        Raw::Text(self.to_string())
    }
}

impl<T: Quantity> TryFrom<Raw> for Cap<T> {
    type Error = String;

    fn try_from(raw: Raw) -> Result<Self, String> {
        match raw {
            Raw::Text(text) if text == "off" => Ok(Self::Off),
            raw => T::from_raw(raw).map(Self::At),
        }
    }
}

impl<T: Quantity> From<Cap<T>> for Raw {
    fn from(cap: Cap<T>) -> Self {
        match cap {
            Cap::Off => Self::Text("off".to_owned()),
            Cap::At(limit) => limit.into_raw(),
        }
    }
}

/// The addresses of one listener; none turns it off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "OneOrMany", into = "Vec<SocketAddr>")]
pub struct Addresses(Vec<SocketAddr>);

impl Addresses {
    /// That port on both loopback addresses.
    pub fn loopback(port: u16) -> Self {
        let both: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        Self(both.map(|address| SocketAddr::new(address, port)).to_vec())
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = SocketAddr> {
        self.0.iter().copied()
    }
}

impl FromStr for Addresses {
    type Err = String;

    /// Addresses with commas between them; `localhost` is both loopback addresses.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut addresses = Vec::new();
        for one in text.split(',').map(str::trim).filter(|one| !one.is_empty()) {
            match one.strip_prefix("localhost:").map(str::parse) {
                Some(Ok(port)) => addresses.extend(Self::loopback(port).iter()),
                _ => addresses.push(one.parse().map_err(|_| {
                    format!("{one:?} is not an address with a port, such as 127.0.0.1:9324 or [::1]:9324")
                })?),
            }
        }
        Ok(Self(addresses))
    }
}

impl From<Addresses> for Vec<SocketAddr> {
    fn from(addresses: Addresses) -> Self {
        addresses.0
    }
}

impl TryFrom<OneOrMany> for Addresses {
    type Error = String;

    fn try_from(raw: OneOrMany) -> Result<Self, String> {
        match raw {
            OneOrMany::One(text) => text.parse(),
            OneOrMany::Many(texts) => texts.join(",").parse(),
        }
    }
}

/// What TOML may hold where a quantity is expected.
#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a number or text")]
pub enum Raw {
    /// A bare number.
    Number(u64),
    /// Anything in quotes.
    Text(String),
}

/// What TOML may hold where a list is expected.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected an address or a list of addresses, in quotes"
)]
pub enum OneOrMany {
    /// One text.
    One(String),
    /// A list of texts.
    Many(Vec<String>),
}

impl TryFrom<String> for Span {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Span> for String {
    fn from(span: Span) -> Self {
        span.to_string()
    }
}

impl TryFrom<Raw> for ByteSize {
    type Error = String;

    fn try_from(raw: Raw) -> Result<Self, String> {
        match raw {
            Raw::Number(bytes) => Ok(Self(bytes)),
            Raw::Text(text) => text.parse(),
        }
    }
}

impl From<ByteSize> for String {
    fn from(size: ByteSize) -> Self {
        size.to_string()
    }
}

/// The sum of numbers with units, in the smallest unit. `None` for anything else, overflow included.
fn parse_sum(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let mut rest = text;
    let mut sum = 0_u64;
    loop {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: u64 = rest[..digits].parse().ok()?;
        rest = rest[digits..].trim_start();
        let letters = rest.len()
            - rest
                .trim_start_matches(|c: char| c.is_ascii_alphabetic())
                .len();
        let (_, factor) = units
            .iter()
            .find(|(unit, _)| unit.eq_ignore_ascii_case(&rest[..letters]))?;
        sum = sum.checked_add(number.checked_mul(*factor)?)?;
        rest = rest[letters..].trim_start();
        if rest.is_empty() {
            return Some(sum);
        }
    }
}

/// In the largest unit that loses nothing.
fn write_largest(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> fmt::Result {
    let fits = |&&(_, factor): &&(&str, u64)| value >= factor && value.is_multiple_of(factor);
    match units.iter().rev().find(fits) {
        Some((unit, factor)) => write!(f, "{}{unit}", value / factor),
        None => write!(f, "0{}", units[0].0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_and_written_in_the_largest_exact_unit() {
        for (text, written) in [
            ("30s", "30s"),
            ("90 s", "90s"),
            ("120s", "2m"),
            ("1h30m", "90m"),
            ("500ms", "500ms"),
            ("7d", "7d"),
            ("0s", "0ms"),
        ] {
            assert_eq!(text.parse::<Span>().unwrap().to_string(), written);
        }
        for wrong in [
            "",
            "30",
            "s",
            "-1s",
            "1.5s",
            "30 parsecs",
            "99999999999999d",
        ] {
            assert!(wrong.parse::<Span>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn sizes_are_read_and_written_in_the_largest_exact_unit() {
        for (text, written) in [
            ("65536", "64KiB"),
            ("64MiB", "64MiB"),
            ("1 gib", "1GiB"),
            ("1025", "1025B"),
            ("1KiB1B", "1025B"),
        ] {
            assert_eq!(text.parse::<ByteSize>().unwrap().to_string(), written);
        }
        for wrong in ["", "64 megabytes", "-1", "1.5MiB", "99999999TiB"] {
            assert!(wrong.parse::<ByteSize>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_list_takes_several_addresses_and_an_empty_text_none() {
        let several: Addresses = "127.0.0.1:1, [::1]:2,localhost:3".parse().unwrap();
        let texts: Vec<String> = several.iter().map(|address| address.to_string()).collect();
        assert_eq!(texts, ["127.0.0.1:1", "[::1]:2", "127.0.0.1:3", "[::1]:3"]);
        assert_eq!("".parse::<Addresses>().unwrap(), Addresses::default());
        assert!(
            "9324"
                .parse::<Addresses>()
                .unwrap_err()
                .contains("127.0.0.1:9324")
        );
    }
}

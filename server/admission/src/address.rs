//! Addresses as they are judged: an IPv4 address by itself, an IPv6 one by its /64, with the /56 and /48 around it.
//!
//! One subscriber holds a /64 at least, and often a /56 or /48; judging single IPv6 addresses would judge nobody.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// What one address is judged by, finest first.
///
/// The upper half of an IPv6 address and a whole IPv4 address share one set of numbers: networks whose first 32 bits
/// are zero are reserved, and no client comes from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    /// The IPv4 address or the IPv6 /64.
    pub(crate) fine: u64,
    /// The IPv6 /56 and /48.
    pub(crate) networks: Option<[u64; 2]>,
}

impl Keys {
    pub(crate) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self {
                fine: u64::from(u32::from(address)),
                networks: None,
            },
            IpAddr::V6(address) => {
                let upper = upper_half(address);
                Self {
                    fine: upper,
                    networks: Some([upper & (!0 << 8), upper & (!0 << 16)]),
                }
            }
        }
    }

    /// The /24 or /48, by which addresses are judged that there is no room to remember.
    pub(crate) fn crowd(self) -> u64 {
        match self.networks {
            Some([_, widest]) => widest,
            None => self.fine & !0xff,
        }
    }
}

fn upper_half(address: Ipv6Addr) -> u64 {
    (u128::from(address) >> 64) as u64
}

/// The text of what an address is judged as: itself, or its /64.
pub fn judged_as(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            let network = u128::from(upper_half(address)) << 64;
            format!("{}/64", Ipv6Addr::from(network))
        }
    }
}

/// A network in CIDR notation, such as `10.0.0.0/8`; an address alone is a network of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

/// Why a text is no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an address or a network such as 192.0.2.0/24")]
pub struct BadNetwork(String);

impl Network {
    /// Whether an address is in it. IPv4 addresses written as IPv6 are IPv4 addresses.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                same_bits(expand(network), expand(address), self.bits)
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                same_bits(network.into(), address.into(), self.bits)
            }
            _ => false,
        }
    }
}

/// An IPv4 address in the first bits, where an IPv6 one has its own.
fn expand(address: Ipv4Addr) -> u128 {
    u128::from(u32::from(address)) << 96
}

fn same_bits(a: u128, b: u128, bits: u8) -> bool {
    (a ^ b).leading_zeros() >= u32::from(bits)
}

impl FromStr for Network {
    type Err = BadNetwork;

    fn from_str(text: &str) -> Result<Self, BadNetwork> {
        let bad = || BadNetwork(text.to_owned());
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().map_err(|_| bad())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        if bits > most {
            return Err(bad());
        }
        Ok(Self { address, bits })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_of_one_64_are_one_and_mapped_addresses_are_ipv4() {
        let one = Keys::of(ip("2001:db8:1:2::3"));
        assert_eq!(one, Keys::of(ip("2001:db8:1:2:ffff::9")));
        assert_ne!(one.fine, Keys::of(ip("2001:db8:1:3::3")).fine);
        assert_eq!(one.networks, Keys::of(ip("2001:db8:1:3::3")).networks);
        assert_eq!(Keys::of(ip("::ffff:10.1.2.3")), Keys::of(ip("10.1.2.3")));
        assert_ne!(Keys::of(ip("10.1.2.3")), Keys::of(ip("10.1.2.4")));
        assert_eq!(
            Keys::of(ip("10.1.2.3")).crowd(),
            Keys::of(ip("10.1.2.77")).crowd()
        );
    }

    #[test]
    fn what_is_judged_can_be_shown() {
        assert_eq!(judged_as(ip("::ffff:192.0.2.7")), "192.0.2.7");
        assert_eq!(judged_as(ip("2001:db8:1:2:3:4:5:6")), "2001:db8:1:2::/64");
    }

    #[test]
    fn networks_hold_what_shares_their_first_bits() {
        let lan: Network = "10.0.0.0/8".parse().unwrap();
        assert!(lan.contains(ip("10.255.1.1")) && lan.contains(ip("::ffff:10.0.0.1")));
        assert!(!lan.contains(ip("11.0.0.0")) && !lan.contains(ip("a00::1")));
        let host: Network = "2001:db8::1".parse().unwrap();
        assert!(host.contains(ip("2001:db8::1")) && !host.contains(ip("2001:db8::2")));
        let all: Network = "::/0".parse().unwrap();
        assert!(all.contains(ip("2001:db8::2")));
        for bad in [
            "",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/",
            "localhost",
            "1.2.3.4/-1",
        ] {
            assert!(bad.parse::<Network>().is_err(), "{bad:?}");
        }
        assert_eq!(lan.to_string(), "10.0.0.0/8");
    }
}

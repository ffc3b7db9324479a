//! What millions of addresses cost. A test binary of its own: it measures the process.
#![allow(clippy::unwrap_used, missing_docs)]

use std::net::Ipv6Addr;
use std::time::Duration;

use powerqueue_admission::{Admission, Clock, Counted, Ladder, Rate, Settings};

const ADDRESSES: u64 = 3_000_000;
const MIB: u64 = 1 << 20;

/// The process's resident bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// The `number`-th address, each in a /48 of its own, as somebody with a very large network would.
fn address(number: u64) -> Ipv6Addr {
    Ipv6Addr::from(u128::from(0x2001_0000_0000_0000 + (number << 16)) << 64 | 1)
}

#[test]
fn three_million_ipv6_networks_take_less_than_128_mib() {
    let before = resident();
    let (clock, hand) = Clock::by_hand(1_800_000_000_000);
    let second = Duration::from_secs(1);
    let admission = Admission::new(
        Settings {
            requests: Some(Rate::new(100, second, 200)),
            requests_at_once: Some(100),
            new_tenants: Some(Rate::new(20, Duration::from_secs(3600), 20)),
            bans: Some(Ladder {
                refusals: 100,
                counted_per_second: None,
                lengths: vec![second],
                forgotten_after: second,
            }),
            ..Settings::OFF
        },
        &clock,
    );
    for number in 0..ADDRESSES {
        let _ = admission.request(address(number).into(), Counted::Yes);
        let _ = admission.new_tenant(address(number).into(), Counted::Yes);
    }
    let held = resident() - before;
    let keys = admission.totals().keys;
    println!("{ADDRESSES} networks: {} MiB for {keys} keys", held / MIB);
    assert!(held < 128 * MIB, "{} MiB", held / MIB);

    hand.advance(Duration::from_secs(3600));
    admission.sweep();
    assert_eq!(admission.totals().keys, 0);
    let left = resident().saturating_sub(before);
    println!("after an hour: {} MiB", left / MIB);
    assert!(left < 32 * MIB, "{} MiB are not given back", left / MIB);
}

//! Budgets and open counts in simulated time, against counting by hand.
#![allow(clippy::unwrap_used, missing_docs)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use powerqueue_admission::{Admission, Clock, Counted, Rate, Reason, Settings};
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);

fn per_second(per: u32, burst: u32) -> Option<Rate> {
    Some(Rate::new(per, SECOND, burst))
}

fn v4(last: u8) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, last).into()
}

/// The address number `host` of the /64 number `subnet` of the /48 number `network`.
fn v6(network: u16, subnet: u16, host: u16) -> IpAddr {
    Ipv6Addr::new(0x2001, 0xdb8, network, subnet, 0, 0, 0, host).into()
}

fn taken(admission: &Admission, address: IpAddr, tries: u32) -> u32 {
    let passes = |_: &u32| admission.request(address, Counted::Yes).is_ok();
    (0..tries).filter(passes).count() as u32
}

#[test]
fn a_burst_passes_at_once_and_then_one_each_period() {
    let (clock, hand) = Clock::by_hand(0);
    let settings = Settings {
        requests: per_second(100, 200),
        ..Settings::OFF
    };
    let admission = Admission::new(settings, &clock);
    assert_eq!(taken(&admission, v4(1), 1000), 200);
    let refused = admission.request(v4(1), Counted::Yes).unwrap_err();
    assert_eq!(refused.reason, Reason::Requests);
    assert_eq!(refused.wait, Duration::from_millis(10));
    assert_eq!(refused.retry_after(), 1);
    hand.advance(Duration::from_millis(10));
    assert_eq!(taken(&admission, v4(1), 10), 1);
    hand.advance(SECOND);
    assert_eq!(taken(&admission, v4(1), 1000), 100);
    // A neighbour has a budget of its own.
    assert_eq!(taken(&admission, v4(2), 1000), 200);
    assert_eq!(
        admission.totals().refused[Reason::Requests as usize],
        800 + 1 + 9 + 900 + 800
    );
}

#[test]
fn what_is_left_is_what_can_be_taken() {
    let (clock, hand) = Clock::by_hand(0);
    hand.advance(Duration::from_secs(77));
    let settings = Settings {
        requests: per_second(100, 200),
        ..Settings::OFF
    };
    let admission = Admission::new(settings, &clock);
    let left = |address| admission.standing(address).requests.unwrap().left;
    assert_eq!(left(v4(1)), 200);
    assert_eq!(taken(&admission, v4(1), 150), 150);
    assert_eq!(left(v4(1)), 50);
    hand.advance(Duration::from_millis(500));
    assert_eq!(left(v4(1)), 100);
    assert_eq!(taken(&admission, v4(1), 500), 100);
    assert_eq!(left(v4(1)), 0);
    // One address of a /56 cannot show more than the /56 has.
    for subnet in 0..4 {
        assert_eq!(taken(&admission, v6(1, subnet, 1), 200), 200);
    }
    assert_eq!(left(v6(1, 9, 1)), 0);
    assert_eq!(left(v6(1, 0x100, 1)), 200);
}

#[test]
fn holders_of_wide_networks_get_a_multiple_and_no_more() {
    let (clock, _hand) = Clock::by_hand(0);
    let settings = Settings {
        requests: per_second(100, 200),
        ..Settings::OFF
    };
    let admission = Admission::new(settings, &clock);
    // Addresses within one /64 share.
    assert_eq!(taken(&admission, v6(0, 0, 1), 150), 150);
    assert_eq!(taken(&admission, v6(0, 0, 2), 150), 50);
    // 256 /64s of one /56: four shares.
    let site: u32 = (0..256).map(|s| taken(&admission, v6(1, s, 1), 201)).sum();
    assert_eq!(site, 4 * 200);
    // 512 /64s of one /48, in as many /56s as it takes: ten shares.
    let network: u32 = (0..512)
        .map(|s| taken(&admission, v6(2, s << 7, 1), 201))
        .sum();
    assert_eq!(network, 10 * 200);
    assert_eq!(taken(&admission, v6(3, 0, 1), 201), 200);
}

#[test]
fn addresses_beyond_the_table_share_with_their_neighbours() {
    let (clock, hand) = Clock::by_hand(0);
    let settings = Settings {
        requests: per_second(1, 5),
        tracked: 64,
        ..Settings::OFF
    };
    let admission = Admission::new(settings, &clock);
    for number in 0..10_000u32 {
        let _ = admission.request(Ipv4Addr::from(number << 8).into(), Counted::Yes);
    }
    assert!(
        admission.totals().keys <= 2 * 64 + 1,
        "{}",
        admission.totals().keys
    );
    // A newcomer is still judged, with everybody else who is.
    assert!(taken(&admission, v4(1), 1000) <= 50);
    hand.advance(Duration::from_secs(60));
    admission.sweep();
    assert_eq!(admission.totals().keys, 0);
    assert_eq!(taken(&admission, v4(1), 100), 5);
}

#[test]
fn what_is_open_counts_until_it_is_closed() {
    let settings = Settings {
        connections: Some(3),
        streams: Some(1),
        requests_at_once: Some(2),
        ..Settings::OFF
    };
    let admission = Admission::new(settings, &Clock::system());
    let mut open: Vec<_> = (0..3)
        .map(|_| admission.connection(v4(1)).unwrap())
        .collect();
    assert_eq!(
        admission.connection(v4(1)).unwrap_err().reason,
        Reason::Connections
    );
    assert_eq!(admission.standing(v4(1)).connections, Some((3, 3)));
    assert!(admission.connection(v4(2)).is_ok());
    open.pop();
    let _again = admission.connection(v4(1)).unwrap();
    let _one = admission.request(v4(1), Counted::Yes).unwrap();
    let _two = admission.request(v4(1), Counted::Yes).unwrap();
    let third = admission.request(v4(1), Counted::Yes).unwrap_err();
    assert_eq!(third.reason, Reason::RequestsAtOnce);
    let _stream = admission.stream(v4(1)).unwrap();
    assert_eq!(admission.stream(v4(1)).unwrap_err().reason, Reason::Streams);
    drop((open, _again, _one, _two, _stream));
    assert_eq!(
        admission.totals().keys,
        0,
        "nothing open, nothing remembered"
    );
}

#[test]
fn an_exempt_network_is_not_judged() {
    let settings = Settings {
        requests: per_second(1, 1),
        exempt: vec!["192.0.2.0/25".parse().unwrap()],
        ..Settings::OFF
    };
    let admission = Admission::new(settings, &Clock::system());
    assert_eq!(taken(&admission, v4(1), 100), 100);
    assert_eq!(admission.standing(v4(1)).requests, None);
    assert!(taken(&admission, v4(129), 100) < 5);
}

proptest! {
    /// Whatever the order of asking: what passes in any span is at most the burst and what the span refills, and nobody is
    /// refused to whom a bucket that refills continuously would give.
    #[test]
    fn budgets_agree_with_a_bucket_that_refills(
        steps in prop::collection::vec((0u64..400, 1u32..40), 1..60),
        per in 1u32..50,
        burst in 1u32..30,
    ) {
        let (clock, hand) = Clock::by_hand(0);
        let settings = Settings { requests: per_second(per, burst), ..Settings::OFF };
        let admission = Admission::new(settings, &clock);
        let period = (SECOND / per).as_nanos() as u64;
        let (mut tokens, most) = (u64::from(burst) * period, u64::from(burst) * period);
        for (wait_ms, tries) in steps {
            hand.advance(Duration::from_millis(wait_ms));
            tokens = most.min(tokens + wait_ms * 1_000_000);
            for _ in 0..tries {
                let left = admission.standing(v4(1)).requests.unwrap().left;
                prop_assert_eq!(u64::from(left), tokens / period);
                let passes = admission.request(v4(1), Counted::Yes);
                prop_assert_eq!(passes.is_ok(), tokens >= period);
                match passes {
                    Ok(_) => tokens -= period,
                    Err(refused) => prop_assert_eq!(refused.wait.as_nanos() as u64, period - tokens),
                }
            }
        }
    }

    /// Open counts are those of a list of what is open.
    #[test]
    fn open_counts_agree_with_a_list(steps in prop::collection::vec((any::<bool>(), 0u8..4), 1..200)) {
        let settings = Settings { connections: Some(5), ..Settings::OFF };
        let admission = Admission::new(settings, &Clock::system());
        let mut open: Vec<(u8, powerqueue_admission::Slot)> = Vec::new();
        for (opens, who) in steps {
            let of = |open: &[(u8, _)]| open.iter().filter(|(owner, _)| *owner == who).count();
            if opens {
                let before = of(&open);
                let outcome = admission.connection(v4(who));
                prop_assert_eq!(outcome.is_ok(), before < 5);
                open.extend(outcome.ok().map(|slot| (who, slot)));
            } else if let Some(at) = open.iter().position(|(owner, _)| *owner == who) {
                drop(open.swap_remove(at));
            }
            prop_assert_eq!(admission.standing(v4(who)).connections, Some((of(&open) as u32, 5)));
        }
    }
}

//! The ban ladder in simulated time.
#![allow(clippy::unwrap_used, missing_docs)]

use std::net::IpAddr;
use std::time::Duration;

use powerqueue_admission::{Admission, Clock, Counted, Hand, Ladder, Rate, Reason, Settings};
use proptest::prelude::*;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

fn ladder() -> Ladder {
    Ladder {
        refusals: 100,
        counted_per_second: None,
        lengths: vec![MINUTE, 10 * MINUTE, HOUR, DAY],
        forgotten_after: DAY,
    }
}

/// Every request but one a day is refused, so that each try is a refusal.
fn strict(ladder: Ladder) -> Settings {
    Settings {
        requests: Some(Rate::new(1, 365 * DAY, 1)),
        bans: Some(ladder),
        ..Settings::OFF
    }
}

fn admission(ladder: Ladder) -> (Admission, Hand) {
    let (clock, hand) = Clock::by_hand(1_800_000_000_000);
    (Admission::new(strict(ladder), &clock), hand)
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn refuse(admission: &Admission, address: IpAddr, times: u32) {
    for _ in 0..times {
        let _ = admission.request(address, Counted::Yes);
    }
}

#[test]
fn a_hundred_refusals_within_a_minute_bring_a_ban() {
    let (admission, hand) = admission(ladder());
    let address = ip("203.0.113.7");
    assert!(admission.request(address, Counted::Yes).is_ok());
    refuse(&admission, address, 99);
    assert_eq!(admission.ban(address), None);
    assert_eq!(admission.standing(address).refusals, Some((99, 100)));
    refuse(&admission, address, 1);
    let ban = admission.ban(address).unwrap();
    assert_eq!((ban.level, ban.left), (1, MINUTE));
    assert_eq!(ban.ends_ms, 1_800_000_060_000);
    let refused = admission.request(address, Counted::Yes).unwrap_err();
    assert_eq!((refused.reason, refused.wait), (Reason::Banned, MINUTE));
    assert_eq!(
        admission.connection(address).unwrap_err().reason,
        Reason::Banned
    );
    assert_eq!(
        admission
            .new_tenant(address, Counted::Yes)
            .unwrap_err()
            .reason,
        Reason::Banned
    );
    assert!(admission.request(ip("203.0.113.8"), Counted::Yes).is_ok());
    hand.advance(MINUTE - Duration::from_millis(1));
    assert!(admission.ban(address).is_some());
    hand.advance(Duration::from_millis(1));
    assert_eq!(admission.ban(address), None);
    assert_eq!(
        admission.request(address, Counted::Yes).unwrap_err().reason,
        Reason::Requests
    );
}

#[test]
fn refusals_that_are_spread_over_more_than_a_minute_bring_none() {
    let (admission, hand) = admission(ladder());
    let address = ip("203.0.113.7");
    for _ in 0..3000 {
        refuse(&admission, address, 1);
        hand.advance(Duration::from_millis(620));
    }
    assert_eq!(admission.ban(address), None);
}

#[test]
fn each_ban_is_longer_until_a_day_has_passed_without_one() {
    let (admission, hand) = admission(ladder());
    let address = ip("203.0.113.7");
    let ban_again = || {
        refuse(&admission, address, 101);
        admission.ban(address).unwrap()
    };
    for (level, length) in [(1, MINUTE), (2, 10 * MINUTE), (3, HOUR), (4, DAY), (5, DAY)] {
        let ban = ban_again();
        assert_eq!((ban.level, ban.left), (level, length));
        hand.advance(length);
    }
    hand.advance(DAY - Duration::from_secs(1));
    assert_eq!(ban_again().level, 6);
    hand.advance(DAY + DAY);
    admission.sweep();
    assert_eq!(ban_again().level, 1);
}

#[test]
fn refusals_during_a_ban_do_not_count() {
    let (admission, hand) = admission(ladder());
    let address = ip("203.0.113.7");
    refuse(&admission, address, 10_000);
    assert_eq!(admission.ban(address).unwrap().level, 1);
    hand.advance(MINUTE);
    refuse(&admission, address, 99);
    assert_eq!(admission.ban(address), None);
}

#[test]
fn requests_that_a_strangers_page_made_do_not_count() {
    let (admission, _hand) = admission(ladder());
    let address = ip("203.0.113.7");
    for _ in 0..1000 {
        let _ = admission.request(address, Counted::No);
    }
    assert_eq!(admission.ban(address), None);
    assert_eq!(admission.standing(address).refusals, Some((0, 100)));
}

#[test]
fn one_second_counts_no_more_than_it_may() {
    let (admission, hand) = admission(Ladder {
        counted_per_second: Some(5),
        ..ladder()
    });
    let address = ip("203.0.113.7");
    for second in 0..20 {
        assert_eq!(admission.ban(address), None, "after {second} s");
        refuse(&admission, address, 300);
        hand.advance(Duration::from_secs(1));
    }
    assert_eq!(admission.ban(address).unwrap().level, 1);
}

#[test]
fn a_network_whose_own_share_is_spent_is_banned_as_a_whole() {
    let (clock, _hand) = Clock::by_hand(1_800_000_000_000);
    let settings = Settings {
        requests: Some(Rate::new(1, DAY, 10)),
        bans: Some(ladder()),
        ..Settings::OFF
    };
    let admission = Admission::new(settings, &clock);
    let member = |subnet: u32| ip(&format!("2001:db8:7:{subnet:x}::1"));
    // Each /64 asks only twice, far below its own budget; their /48 has 100.
    for subnet in 0..300 {
        refuse(&admission, member(subnet << 8 & 0xffff | subnet >> 8), 2);
    }
    assert!(admission.ban(ip("2001:db8:7:ffff::1")).is_some());
    assert!(admission.ban(ip("2001:db8:8::1")).is_none());
}

#[test]
fn bans_outlast_a_restart_and_refusals_do_not() {
    let (before, _hand) = admission(ladder());
    let (banned, refused) = (ip("203.0.113.7"), ip("203.0.113.8"));
    refuse(&before, banned, 101);
    refuse(&before, refused, 60);
    let saved = before.save().unwrap();
    assert_eq!(before.save(), None, "nothing new to save");

    let (clock, _) = Clock::by_hand(1_800_000_030_000);
    let after = Admission::new(strict(ladder()), &clock);
    after.restore(&saved);
    assert_eq!(after.ban(banned).unwrap().left, MINUTE / 2);
    refuse(&after, refused, 60);
    assert_eq!(after.ban(refused), None);
    after.restore(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xffnot what was saved");
    assert!(after.ban(banned).is_some());
}

#[test]
fn only_so_many_offenders_are_watched() {
    let (clock, hand) = Clock::by_hand(1_800_000_000_000);
    let settings = Settings {
        bans_kept: 100,
        ..strict(ladder())
    };
    let admission = Admission::new(settings, &clock);
    for number in 0..1000u32 {
        refuse(&admission, std::net::Ipv4Addr::from(number).into(), 2);
    }
    refuse(&admission, ip("203.0.113.7"), 200);
    assert_eq!(admission.ban(ip("203.0.113.7")), None, "there is no room");
    hand.advance(2 * MINUTE);
    admission.sweep();
    refuse(&admission, ip("203.0.113.7"), 200);
    assert!(admission.ban(ip("203.0.113.7")).is_some());
}

/// The ladder by the letter: a list of refusal times.
struct Naive {
    refusals: Vec<u64>,
    bans: usize,
    until: u64,
}

impl Naive {
    fn refuse(&mut self, ladder: &Ladder, second: u64) {
        if second < self.until {
            return;
        }
        self.refusals.push(second);
        self.refusals.retain(|at| at + 60 > second);
        if self.refusals.len() < ladder.refusals as usize {
            return;
        }
        if second >= self.until + ladder.forgotten_after.as_secs() {
            self.bans = 0;
        }
        let step = self.bans.min(ladder.lengths.len() - 1);
        self.until = second + ladder.lengths[step].as_secs();
        self.bans += 1;
        self.refusals.clear();
    }
}

proptest! {
    #[test]
    fn the_ladder_agrees_with_a_list_of_refusals(
        steps in prop::collection::vec((prop_oneof![4 => 0u64..3, 2 => 0u64..90, 1 => 0u64..100_000], 1u32..12), 1..200),
        refusals in 5u32..40,
        sweeps in any::<bool>(),
    ) {
        let ladder = Ladder { refusals, forgotten_after: HOUR, ..ladder() };
        let (admission, hand) = admission(ladder.clone());
        let address = ip("2001:db8::1");
        let _ = admission.request(address, Counted::Yes);
        let mut naive = Naive { refusals: Vec::new(), bans: 0, until: 0 };
        let mut second = 1_800_000_000;
        for (wait, tries) in steps {
            second += wait;
            hand.advance(Duration::from_secs(wait));
            if sweeps {
                admission.sweep();
            }
            for _ in 0..tries {
                refuse(&admission, address, 1);
                naive.refuse(&ladder, second);
                let left = naive.until.saturating_sub(second);
                let ban = admission.ban(address);
                prop_assert_eq!(ban.map_or(0, |ban| ban.left.as_secs()), left);
                if left > 0 {
                    prop_assert_eq!(ban.unwrap().level as usize, naive.bans);
                }
            }
        }
    }
}

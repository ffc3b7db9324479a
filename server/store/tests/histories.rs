//! Thousands of seeded histories over the shipped code. `POWERQUEUE_HISTORIES` sets how many, `POWERQUEUE_SEED`
//! repeats one.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says no by panicking"
)]

mod history;

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use history::Stats;

#[test]
fn no_history_loses_or_invents_anything() {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    if let Some(seed) = number("POWERQUEUE_SEED") {
        let stats = history::run(seed, None).unwrap();
        println!("{stats:?}");
        return;
    }
    let histories = number("POWERQUEUE_HISTORIES").unwrap_or(2000);
    let first = number("POWERQUEUE_FIRST_SEED").unwrap_or(0);
    let next = AtomicU64::new(first);
    let workers = thread::available_parallelism().map_or(2, |n| n.get());
    let (mut total, mut failures) = (Stats::default(), Vec::new());
    thread::scope(|scope| {
        let work = || {
            let (mut total, mut failures) = (Stats::default(), Vec::new());
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= first + histories || failures.len() > 5 {
                    return (total, failures);
                }
                match history::run(seed, None) {
                    Ok(stats) => total.add(&stats),
                    Err(what) => failures.push((seed, what)),
                }
            }
        };
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            let (stats, found) = thread.join().unwrap();
            total.add(&stats);
            failures.extend(found);
        }
    });
    println!("{histories} histories: {total:?}");
    assert!(
        failures.is_empty(),
        "POWERQUEUE_SEED=<seed> repeats: {failures:#?}"
    );
    // A proof that never reaches the interesting places proves nothing.
    if histories >= 1000 {
        assert!(
            total.rotated > histories && total.deleted > histories,
            "{total:?}"
        );
        assert!(total.power_cuts > histories && total.kills > histories / 2);
        assert!(total.relocated > 0 && total.elided > 0 && total.needless > 0);
        assert!(total.led > histories);
        assert!(total.flips > 0 && total.damaged > 0 && total.failed_syncs > 0 && total.full > 0);
    }
}

//! Seeded random histories: a shard, a plain model of it and a journal that crashes, compared after every step.
//!
//! `POWERQUEUE_HISTORIES` says how many are played, `POWERQUEUE_SEED` names the first; alone it plays that one and tells
//! its steps.

mod compare;
mod crash;
mod entities;
mod history;
mod invariants;
mod journal;
mod message;
mod messages;
mod model;
mod receivers;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn random_histories_agree_with_the_model() {
    let (first, count) = (number("POWERQUEUE_SEED"), number("POWERQUEUE_HISTORIES"));
    let count = count.unwrap_or(if first.is_some() { 1 } else { 15_000 });
    for seed in (first.unwrap_or(0)..).take(count as usize) {
        let alone = first.is_some() && count == 1;
        if let Err(panic) = std::panic::catch_unwind(|| history::play(seed, alone)) {
            eprintln!("failed with POWERQUEUE_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

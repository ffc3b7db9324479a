//! Seeded random histories: a shard, a plain model of it and a journal that crashes, compared after every step.
//!
//! `POWERQUEUE_HISTORIES` says how many, `POWERQUEUE_SEED` names one to play again.

mod compare;
mod crash;
mod history;
mod invariants;
mod journal;
mod model;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn random_histories_agree_with_the_model() {
    if let Some(seed) = number("POWERQUEUE_SEED") {
        return history::play(seed);
    }
    for seed in 0..number("POWERQUEUE_HISTORIES").unwrap_or(1500) {
        if let Err(panic) = std::panic::catch_unwind(|| history::play(seed)) {
            eprintln!("failed with POWERQUEUE_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

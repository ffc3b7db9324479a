//! Each rule of the store, switched off, must make some history fail: otherwise the proof does not cover it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says no by panicking"
)]

mod history;

use powerqueue_store::Mutation;

const ENOUGH: u64 = 20_000;

fn is_caught(mutation: Mutation) {
    for seed in 0..ENOUGH {
        if let Err(what) = history::run(seed, Some(mutation)) {
            println!("{mutation:?}: caught by seed {seed}: {what}");
            return;
        }
    }
    panic!("{mutation:?} goes unnoticed through {ENOUGH} histories");
}

#[test]
fn answering_without_a_sync_is_caught() {
    is_caught(Mutation::NoSync);
}

#[test]
fn taking_any_header_is_caught() {
    is_caught(Mutation::NoHeaderCheck);
}

#[test]
fn handing_out_unchecked_bodies_is_caught() {
    is_caught(Mutation::NoBodyCheck);
}

#[test]
fn deleting_what_a_checkpoint_needs_is_caught() {
    is_caught(Mutation::ReclaimWithoutCheckpoint);
}

#[test]
fn forgetting_the_directory_is_caught() {
    is_caught(Mutation::NoDirectorySync);
}

#[test]
fn trusting_the_page_cache_is_caught() {
    is_caught(Mutation::TrustPageCache);
}

#[test]
fn eliding_beyond_the_cut_is_caught() {
    is_caught(Mutation::ElideBeyondCut);
}

#[test]
fn taking_corruption_for_a_torn_tail_is_caught() {
    is_caught(Mutation::IgnoreSyncedThrough);
}

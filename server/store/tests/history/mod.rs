//! Seeded histories over the shipped store and the simulated disk, with an oracle.
#![allow(dead_code, reason = "each test binary uses its part")]

mod model;
mod oracle;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use powerqueue_store::Mutation;
pub use world::{Stats, World};

/// Runs one history; `Err` says what the oracle saw.
pub fn run(seed: u64, mutation: Option<Mutation>) -> Result<Stats, String> {
    let outcome = catch_unwind(AssertUnwindSafe(|| World::new(seed, mutation).run()));
    match outcome {
        Ok(outcome) => outcome,
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            Err(format!("panic: {}", text.unwrap_or_default()))
        }
    }
}

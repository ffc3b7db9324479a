//! PowerQueue: one queue engine, many protocol front ends, one binary.

mod admission;
mod backup;
mod cli;
mod config;
mod control;
mod data_dir;
mod endpoints;
mod failure;
mod front_ends;
mod health;
mod identifier;
mod listeners;
mod logging;
mod metrics;
mod node;
mod probe;
mod readiness;
mod repair;
mod selftest;
mod serve;
mod service_manager;
mod signals;
mod statistics;
mod tls;
mod website;

use std::process::ExitCode;

/// Messages are made on one thread and freed on another, which the C library's allocator does under a lock that threads
/// wait for.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match cli::run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("powerqueue: {error:#}");
            failure::exit_code(&error)
        }
    }
}

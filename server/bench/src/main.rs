//! Measurements, not assertions: each command prints one table, with what the machine was doing meanwhile.
//!
//! `load` is the closed loop that all in-process commands share, `bare` repeats a journal's writes without the store,
//! `process` asks the kernel what a process used, `table` and `spread` are how figures are shown. Every command is
//! bounded in count and in time.

mod bare;
mod broker;
mod depth;
mod engine;
mod load;
mod memory;
mod process;
mod recovery;
mod spread;
mod sqs;
mod table;
mod tenants;

use clap::{Parser, Subcommand};

/// The broker's, so that what runs in this process is measured as it is there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures PowerQueue and prints tables.
#[derive(Parser)]
#[command(name = "powerqueue-bench", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Sends, and receives and deletes, at growing numbers of clients, beside the bare writes of the same commits.
    Engine(engine::Args),
    /// Bytes of memory a queued message and a queue.
    Memory(memory::Args),
    /// One deep queue against an empty one.
    Depth(depth::Args),
    /// Many tenants with many queues against one queue.
    Tenants(tenants::Args),
    /// The time from a kill to being open again.
    Recovery(recovery::Args),
    /// HTTP load on any SQS endpoint, in AWS JSON.
    Sqs(sqs::Args),
    #[command(hide = true)]
    RecoveryFill(recovery::FillArgs),
    #[command(hide = true)]
    RecoveryOpen(recovery::OpenArgs),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Engine(args) => engine::run(args).await,
        Command::Memory(args) => memory::run(args).await,
        Command::Depth(args) => depth::run(args).await,
        Command::Tenants(args) => tenants::run(args).await,
        Command::Recovery(args) => recovery::run(args).await,
        Command::Sqs(args) => sqs::run(args).await,
        Command::RecoveryFill(args) => recovery::fill(args).await,
        Command::RecoveryOpen(args) => recovery::open(args).await,
    }
}

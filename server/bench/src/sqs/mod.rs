//! `sqs`: closed-loop HTTP load on any SQS endpoint, in AWS JSON and unsigned, which local servers accept.
//!
//! Each client has one connection, kept alive where the server does. The server's processor time and memory are read
//! from /proc when its process is named.

mod connection;
mod load;

use std::{path::PathBuf, time::Duration};

use serde::Serialize;

use crate::{
    process::{Usage, load_average, print_load},
    table::{Table, number},
};

use self::{
    connection::Connection,
    load::{Job, Kind},
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where it listens, for example 127.0.0.1:9324.
    #[arg(long)]
    address: String,
    /// The Authorization header to send; moto finds the service by it, and checks no signature.
    #[arg(long)]
    authorization: Option<String>,
    /// The server's process, for its processor time and memory.
    #[arg(long)]
    pid: Option<u32>,
    /// Requests of one measurement (a receive with its delete counts as one here).
    #[arg(long, default_value_t = 20_000)]
    requests: u64,
    /// Requests before the first measurement that do not count.
    #[arg(long, default_value_t = 1000)]
    warm_up: u64,
    /// The most seconds that one measurement takes.
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,
    /// Clients at once.
    #[arg(long, value_delimiter = ',', default_value = "1,32,256")]
    clients: Vec<usize>,
    /// Queues that the clients share.
    #[arg(long, default_value_t = 1)]
    queues: usize,
    /// Also writes the figures there, as a list in JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// One measurement.
#[derive(Serialize)]
struct Cell {
    work: &'static str,
    clients: usize,
    requests: u64,
    failures: u64,
    requests_per_second: f64,
    messages_per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    worst_ms: f64,
    server_cpu_seconds_per_100k_requests: Option<f64>,
    server_resident_mb: Option<f64>,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let before = load_average();
    let mut cells = Vec::new();
    if args.warm_up > 0 {
        for kind in Kind::ALL {
            measure(&args, kind, 8, args.warm_up).await?;
        }
    }
    for kind in Kind::ALL {
        for clients in &args.clients {
            cells.push(measure(&args, kind, *clients, args.requests).await?);
        }
    }
    let mut table = Table::new([
        "work",
        "clients",
        "requests/s",
        "messages/s",
        "p50 ms",
        "p99 ms",
        "worst ms",
        "server CPU s/100k req",
        "server RSS MB",
        "failures",
    ]);
    for cell in &cells {
        let or_none = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), number);
        table.row([
            cell.work.to_owned(),
            cell.clients.to_string(),
            number(cell.requests_per_second),
            number(cell.messages_per_second),
            number(cell.p50_ms),
            number(cell.p99_ms),
            number(cell.worst_ms),
            or_none(cell.server_cpu_seconds_per_100k_requests),
            or_none(cell.server_resident_mb),
            cell.failures.to_string(),
        ]);
    }
    println!(
        "SQS over AWS JSON at {}, 1 KiB bodies\n{table}",
        args.address
    );
    print_load(&before);
    if let Some(path) = &args.json {
        std::fs::write(path, serde_json::to_vec(&cells)?)?;
    }
    Ok(())
}

async fn measure(args: &Args, kind: Kind, clients: usize, requests: u64) -> anyhow::Result<Cell> {
    let mut control = Connection::new(&args.address, args.authorization.as_deref());
    let mut queues = Vec::new();
    for number in 0..args.queues.max(1) {
        // A name deleted just now may not be used again, so each run has its own.
        let (run, kind) = (std::process::id(), kind.name().replace('+', "-"));
        let name = format!("bench-{run}-{kind}-{clients}-{number}");
        queues.push(load::make_queue(&mut control, &name).await?);
    }
    if kind == Kind::Take {
        load::fill(&mut control, &queues, requests).await?;
    }
    let usage = |pid| args.pid.map(pid).transpose();
    let before = usage(Usage::of)?;
    let job = Job {
        address: args.address.clone(),
        authorization: args.authorization.clone(),
        queues: queues.clone(),
        kind,
        clients,
        operations: requests,
        time: Duration::from_secs_f64(args.seconds),
    };
    let outcome = job.run().await?;
    let after = usage(Usage::of)?;
    for queue in &queues {
        load::delete_queue(&mut control, queue).await?;
    }
    let sent = outcome.requests as f64;
    let seconds = outcome.elapsed.as_secs_f64();
    let [p50_ms, p99_ms, worst_ms] = outcome.latencies.quantiles([0.5, 0.99, 1.0]);
    let cpu = before.zip(after).map(|(before, after)| {
        after.cpu.saturating_sub(before.cpu).as_secs_f64() * 100_000.0 / sent
    });
    Ok(Cell {
        work: kind.name(),
        clients,
        requests: outcome.requests,
        failures: outcome.failures,
        requests_per_second: sent / seconds,
        messages_per_second: outcome.messages as f64 / seconds,
        p50_ms,
        p99_ms,
        worst_ms,
        server_cpu_seconds_per_100k_requests: cpu,
        server_resident_mb: after.map(|after| after.resident as f64 / 1e6),
    })
}

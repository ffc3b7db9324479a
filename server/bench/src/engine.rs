//! `engine`: closed-loop rates through node, engine and store, and the bare disk beside them in the same run.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    bare::{self, Bare, Prepared, Recorder},
    broker::{self, POLICIES, Place, Setup, Target},
    load::{self, Bounds, Outcome, Work},
    process::{load_average, print_load},
    spread::Spread,
    table::{Table, number, percent},
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where data goes; a temporary directory otherwise.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Rounds, in each of which every row is measured once.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// The most seconds that one measurement takes.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// The most messages of one measurement.
    #[arg(long, default_value_t = 100_000)]
    messages: u64,
    /// Clients that wait at once.
    #[arg(long, value_delimiter = ',', default_value = "1,100,1000,10000")]
    clients: Vec<usize>,
}

/// One row over all rounds.
#[derive(Clone, Default)]
struct Figures {
    rate: Spread,
    p50: Spread,
    p99: Spread,
    cpu: Spread,
    grouped: Spread,
    ours: Spread,
    bare: Spread,
    share: Spread,
    zeroed: Spread,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let before = load_average();
    let rows = POLICIES.len() * args.clients.len() * Work::BOTH.len();
    let mut figures = vec![Figures::default(); rows];
    for _ in 0..args.rounds {
        let mut row = figures.iter_mut();
        for (_, sync) in POLICIES {
            for clients in &args.clients {
                let place = Place::new(args.dir.as_deref())?;
                let recorder = Recorder::default();
                let setup = Setup {
                    trace: Some(recorder.trace()),
                    ..Setup::synced(sync)
                };
                let node = setup.open(&place.path().join("store"))?;
                let targets: Arc<[Target]> = broker::make_tenants(&node, 16, 1).await?.into();
                let mut bounds = Bounds {
                    operations: args.messages,
                    time: Duration::from_secs_f64(args.seconds),
                };
                for work in Work::BOTH {
                    recorder.take();
                    let started = Instant::now();
                    let outcome = load::drive(&node, &targets, *clients, work, bounds).await?;
                    let commits = recorder.take();
                    bounds.operations = outcome.done;
                    let repeat =
                        |prepared| bare::repeat(place.path(), &commits, prepared, 2 * bounds.time);
                    let (same, zeroed) = (repeat(Prepared::Allocated)?, repeat(Prepared::Zeroed)?);
                    let ours = |bare: Bare| {
                        let last = bare
                            .commits
                            .checked_sub(1)
                            .and_then(|last| commits.get(last));
                        last.map_or(f64::NAN, |(at, _)| at.duration_since(started).as_secs_f64())
                    };
                    if let Some(row) = row.next() {
                        row.add(outcome, same, ours(same), zeroed, commits.len());
                    }
                }
                broker::close(node).await?;
            }
        }
    }
    print(&args, &figures);
    print_load(&before);
    Ok(())
}

impl Figures {
    fn add(&mut self, outcome: Outcome, bare: Bare, ours: f64, zeroed: Bare, commits: usize) {
        let each = |bare: Bare| bare.elapsed.as_secs_f64() * 1e6 / bare.commits as f64;
        self.rate.add(outcome.rate());
        self.cpu.add(outcome.cpu_micros_each());
        self.grouped.add(outcome.done as f64 / commits as f64);
        self.ours.add(ours * 1e6 / bare.commits as f64);
        self.bare.add(each(bare));
        self.share.add(bare.elapsed.as_secs_f64() / ours);
        self.zeroed.add(each(zeroed));
        let [p50, p99] = outcome.latencies.quantiles([0.5, 0.99]);
        self.p50.add(p50);
        self.p99.add(p99);
    }
}

fn print(args: &Args, figures: &[Figures]) {
    println!(
        "engine and store, 1 KiB messages, 16 tenants, closed loop; medians of {} rounds",
        args.rounds
    );
    let mut table = Table::new([
        "sync",
        "work",
        "clients",
        "msgs/s",
        "min..max",
        "p50 ms",
        "p99 ms",
        "CPU µs/msg",
        "msgs/commit",
        "µs/commit",
        "bare µs",
        "bare/ours",
        "bare zeroed µs",
    ]);
    let mut row = figures.iter();
    for (name, _) in POLICIES {
        for clients in &args.clients {
            for work in Work::BOTH {
                let Some(f) = row.next() else { return };
                table.row([
                    name.to_owned(),
                    work.name().to_owned(),
                    clients.to_string(),
                    number(f.rate.median()),
                    f.rate.range(),
                    number(f.p50.median()),
                    number(f.p99.median()),
                    number(f.cpu.median()),
                    number(f.grouped.median()),
                    number(f.ours.median()),
                    number(f.bare.median()),
                    percent(f.share.median()),
                    number(f.zeroed.median()),
                ]);
            }
        }
    }
    println!("{table}");
}

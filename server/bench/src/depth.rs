//! `depth`: whether a queue's depth slows it down.

use std::{path::PathBuf, sync::Arc, time::Duration};

use crate::{
    broker::{self, POLICIES, Place, Setup, Target},
    load::{self, Bounds, Work},
    process::{load_average, print_load},
    spread::Spread,
    table::{Table, number, percent},
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where data goes; a temporary directory otherwise.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Messages in the deep queue.
    #[arg(long, default_value_t = 1_000_000)]
    depth: u64,
    /// Messages sent and taken in one measurement.
    #[arg(long, default_value_t = 50_000)]
    messages: u64,
    /// Clients at once.
    #[arg(long, default_value_t = 100)]
    clients: usize,
    /// Rounds, in each of which both queues are measured.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// The most seconds that one measurement takes.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let before = load_average();
    println!(
        "a queue {} deep against an empty one, 1 KiB messages, {} clients, medians of {} rounds",
        number(args.depth as f64),
        args.clients,
        args.rounds
    );
    let mut table = Table::new([
        "sync",
        "work",
        "empty msgs/s",
        "min..max",
        "deep msgs/s",
        "min..max",
        "deep/empty",
        "empty CPU µs",
        "deep CPU µs",
    ]);
    for (name, sync) in POLICIES {
        let place = Place::new(args.dir.as_deref())?;
        let node = Setup::synced(sync).open(place.path())?;
        let empty: Arc<[Target]> = broker::make_queues(&node, "empty", 1).await?.into();
        let deep: Arc<[Target]> = broker::make_queues(&node, "deep", 1).await?.into();
        broker::fill(&node, &deep, args.depth, 1024).await?;
        let mut rates: [[Spread; 2]; 2] = Default::default();
        let mut cpu: [[Spread; 2]; 2] = Default::default();
        for _ in 0..args.rounds {
            for (queue, targets) in [&empty, &deep].into_iter().enumerate() {
                let mut bounds = Bounds {
                    operations: args.messages,
                    time: Duration::from_secs_f64(args.seconds),
                };
                for (kind, work) in Work::BOTH.into_iter().enumerate() {
                    let outcome = load::drive(&node, targets, args.clients, work, bounds).await?;
                    bounds.operations = outcome.done;
                    rates[kind][queue].add(outcome.rate());
                    cpu[kind][queue].add(outcome.cpu_micros_each());
                }
            }
        }
        for (kind, work) in Work::BOTH.into_iter().enumerate() {
            let [empty, deep] = &rates[kind];
            table.row([
                name.to_owned(),
                work.name().to_owned(),
                number(empty.median()),
                empty.range(),
                number(deep.median()),
                deep.range(),
                percent(deep.median() / empty.median()),
                number(cpu[kind][0].median()),
                number(cpu[kind][1].median()),
            ]);
        }
        broker::close(node).await?;
    }
    println!("{table}");
    print_load(&before);
    Ok(())
}

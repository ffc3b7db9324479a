//! `tenants`: what many tenants with many queues cost, against one tenant with one queue.

use std::{path::PathBuf, sync::Arc, time::Duration};

use crate::{
    broker::{self, POLICIES, Place, Setup, Target},
    load::{self, Bounds, Work},
    process::{Usage, load_average, print_load},
    spread::Spread,
    table::{Table, number, percent},
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where data goes; a temporary directory otherwise.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Tenants.
    #[arg(long, default_value_t = 10_000)]
    tenants: usize,
    /// Queues of each tenant.
    #[arg(long, default_value_t = 10)]
    queues: usize,
    /// Messages sent and taken in one measurement.
    #[arg(long, default_value_t = 100_000)]
    messages: u64,
    /// Clients at once.
    #[arg(long, default_value_t = 100)]
    clients: usize,
    /// Rounds, in each of which both are measured.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// The most seconds that one measurement takes.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let before = load_average();
    println!(
        "{} tenants of {} queues against one of one, 1 KiB messages, {} clients, medians of {} rounds",
        number(args.tenants as f64),
        args.queues,
        args.clients,
        args.rounds
    );
    let mut table = Table::new([
        "sync",
        "work",
        "one msgs/s",
        "min..max",
        "many msgs/s",
        "min..max",
        "many/one",
        "one CPU µs",
        "many CPU µs",
    ]);
    let mut memory = Vec::new();
    for (name, sync) in POLICIES {
        let (alone, crowd) = (
            Place::new(args.dir.as_deref())?,
            Place::new(args.dir.as_deref())?,
        );
        let one = Setup::synced(sync).open(alone.path())?;
        let one_target: Arc<[Target]> = broker::make_queues(&one, "one", 1).await?.into();
        let start = Usage::own()?.resident as f64;
        let many = Setup::synced(sync).open(crowd.path())?;
        let targets: Arc<[Target]> = make(&many, &args).await?.into();
        memory.push((name, Usage::own()?.resident as f64 - start));
        let mut rates: [[Spread; 2]; 2] = Default::default();
        let mut cpu: [[Spread; 2]; 2] = Default::default();
        for _ in 0..args.rounds {
            for (which, (node, targets)) in [(&one, &one_target), (&many, &targets)]
                .into_iter()
                .enumerate()
            {
                let mut bounds = Bounds {
                    operations: args.messages,
                    time: Duration::from_secs_f64(args.seconds),
                };
                for (kind, work) in Work::BOTH.into_iter().enumerate() {
                    let outcome = load::drive(node, targets, args.clients, work, bounds).await?;
                    bounds.operations = outcome.done;
                    rates[kind][which].add(outcome.rate());
                    cpu[kind][which].add(outcome.cpu_micros_each());
                }
            }
        }
        for (kind, work) in Work::BOTH.into_iter().enumerate() {
            let [one, many] = &rates[kind];
            table.row([
                name.to_owned(),
                work.name().to_owned(),
                number(one.median()),
                one.range(),
                number(many.median()),
                many.range(),
                percent(many.median() / one.median()),
                number(cpu[kind][0].median()),
                number(cpu[kind][1].median()),
            ]);
        }
        broker::close(one).await?;
        broker::close(many).await?;
    }
    println!("{table}");
    for (name, bytes) in memory {
        let queues = (args.tenants * args.queues) as f64;
        println!(
            "memory of the many ({name}): {} MB, {} bytes a tenant, its queues included; {} bytes a queue, its share of \
             the tenant included",
            number(bytes / 1e6),
            number(bytes / args.tenants as f64),
            number(bytes / queues)
        );
    }
    print_load(&before);
    Ok(())
}

/// Makes tenants side by side: each waits for its own commit.
async fn make(node: &powerqueue_node::Node, args: &Args) -> anyhow::Result<Vec<Target>> {
    let mut targets = Vec::with_capacity(args.tenants * args.queues);
    for first in (0..args.tenants).step_by(256) {
        let mut tasks = tokio::task::JoinSet::new();
        for number in first..args.tenants.min(first + 256) {
            let (node, queues) = (node.clone(), args.queues);
            let name = format!("tenant-{number:06}");
            tasks.spawn(async move { broker::make_queues(&node, &name, queues).await });
        }
        while let Some(made) = tasks.join_next().await {
            targets.extend(made??);
        }
    }
    Ok(targets)
}

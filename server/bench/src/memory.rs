//! `memory`: what a queued message and a queue take beside the message's body, from the process's resident memory.

use std::path::PathBuf;

use crate::{
    broker::{self, Place, Setup},
    process::{Usage, load_average, print_load},
    table::{Table, number, percent},
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where data goes; a temporary directory otherwise.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Messages to queue.
    #[arg(long, default_value_t = 1_000_000)]
    messages: u64,
    /// Queues to make.
    #[arg(long, default_value_t = 100_000)]
    queues: usize,
}

/// Small, so that what is on its way to the disk does not blur the figures.
const BODY: usize = 64;
/// Operations before the first look, after which buffers have the size they keep.
const WARM: u64 = 20_000;
const TARGET_MESSAGE: f64 = 128.0;
const TARGET_QUEUE: f64 = 256.0;

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let before = load_average();
    let place = Place::new(args.dir.as_deref())?;
    // Without a cache no body stays in memory.
    let setup = Setup {
        cache_bytes: 0,
        checkpoint_bytes: u64::MAX,
        ..Setup::default()
    };
    let node = setup.open(place.path())?;
    let warm = broker::make_queues(&node, "warm", 1000).await?;
    broker::fill(&node, &warm, WARM, BODY).await?;
    node.checkpoint().await?;
    let start = resident()?;
    broker::make_queues(&node, "queues", args.queues).await?;
    let queues = resident()?;
    let target = broker::make_queues(&node, "messages", 1).await?;
    let empty = resident()?;
    broker::fill(&node, &target, args.messages, BODY).await?;
    let full = resident()?;
    node.checkpoint().await?;
    let checkpointed = resident()?;
    println!("memory by /proc/self/stat, bodies of {BODY} bytes on the disk only");
    let mut table = Table::new(["what", "count", "MB", "bytes each", "target", "of target"]);
    let mut row = |what: &str, count: f64, bytes: f64, target: f64| {
        table.row([
            what.to_owned(),
            number(count),
            number(bytes / 1e6),
            number(bytes / count),
            number(target),
            percent(bytes / count / target),
        ]);
    };
    let messages = args.messages as f64;
    row("queues", args.queues as f64, queues - start, TARGET_QUEUE);
    row("messages", messages, full - empty, TARGET_MESSAGE);
    row(
        "messages, after a checkpoint",
        messages,
        checkpointed - empty,
        TARGET_MESSAGE,
    );
    println!("{table}");
    print_load(&before);
    broker::close(node).await
}

fn resident() -> anyhow::Result<f64> {
    Ok(Usage::own()?.resident as f64)
}

//! `recovery`: fills a store in a process of its own, kills that process, and opens the store again in others.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::Context;
use rustix::fs::Advice;
use serde::{Deserialize, Serialize};

use crate::{
    broker::{self, Place, Setup},
    process::{Usage, load_average, print_load},
    spread::Spread,
    table::{Table, number, percent},
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where data goes; a temporary directory otherwise.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Live messages of 1 KiB.
    #[arg(long, default_value_t = 1_000_000)]
    messages: u64,
    /// How often it is opened.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

#[derive(clap::Args)]
pub(crate) struct FillArgs {
    #[arg(long)]
    dir: PathBuf,
    #[arg(long)]
    messages: u64,
    #[arg(long)]
    checkpoint_bytes: u64,
}

#[derive(clap::Args)]
pub(crate) struct OpenArgs {
    #[arg(long)]
    dir: PathBuf,
}

/// What opening took, as the opening process tells it.
#[derive(Debug, Serialize, Deserialize)]
struct Opened {
    entries: u64,
    /// Finding the log's end.
    store: f64,
    /// Reading it back.
    node: f64,
    cpu: f64,
    resident: u64,
}

/// Fills, says so, and waits to be killed.
pub(crate) async fn fill(args: FillArgs) -> anyhow::Result<()> {
    let setup = Setup {
        checkpoint_bytes: args.checkpoint_bytes,
        ..Setup::default()
    };
    let node = setup.open(&args.dir)?;
    let targets = broker::make_tenants(&node, 16, 1).await?;
    broker::fill(&node, &targets, args.messages, 1024).await?;
    println!("filled");
    tokio::time::sleep(Duration::from_secs(600)).await;
    Ok(())
}

/// Opens, tells how long it took, and ends without closing.
pub(crate) async fn open(args: OpenArgs) -> anyhow::Result<()> {
    let setup = Setup {
        checkpoint_bytes: u64::MAX,
        ..Setup::default()
    };
    let before = Usage::own()?;
    let started = Instant::now();
    let store = setup.store(&args.dir)?;
    let found = started.elapsed();
    let node = setup.node(store)?;
    let elapsed = started.elapsed();
    let after = Usage::own()?;
    let opened = Opened {
        entries: node.stats().shards.entries,
        store: found.as_secs_f64(),
        node: (elapsed - found).as_secs_f64(),
        cpu: after.cpu.saturating_sub(before.cpu).as_secs_f64(),
        resident: after.resident,
    };
    println!("{}", serde_json::to_string(&opened)?);
    std::process::exit(0)
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    tokio::task::spawn_blocking(move || measure(&args)).await?
}

fn measure(args: &Args) -> anyhow::Result<()> {
    let before = load_average();
    println!(
        "recovery of {} live messages of 1 KiB after SIGKILL, medians of {} openings",
        number(args.messages as f64),
        args.rounds
    );
    let mut table = Table::new([
        "checkpoints",
        "page cache",
        "journal MB",
        "seconds",
        "min..max",
        "of it the log's end",
        "MB/s",
        "msgs/s",
        "CPU s",
        "CPU share",
        "bare read MB/s",
        "RSS MB",
    ]);
    for (kind, checkpoint_bytes) in [("none", u64::MAX), ("every 256 MiB", 256 << 20)] {
        let place = Place::new(args.dir.as_deref())?;
        fill_and_kill(place.path(), args.messages, checkpoint_bytes)?;
        let journal = journal_bytes(place.path())?;
        for cold in [false, true] {
            let mut spreads: [Spread; 5] = Default::default();
            let [seconds, store, cpu, bare, resident] = &mut spreads;
            for _ in 0..args.rounds {
                if cold {
                    forget(place.path())?;
                }
                bare.add(journal / 1e6 / read_all(place.path())?);
                if cold {
                    forget(place.path())?;
                }
                let opened = open_in_child(place.path())?;
                anyhow::ensure!(
                    opened.entries == args.messages,
                    "{} messages came back",
                    opened.entries
                );
                seconds.add(opened.store + opened.node);
                store.add(opened.store);
                cpu.add(opened.cpu);
                resident.add(opened.resident as f64 / 1e6);
            }
            let took = seconds.median();
            table.row([
                kind.to_owned(),
                if cold { "cold" } else { "warm" }.to_owned(),
                number(journal / 1e6),
                number(took),
                seconds.range(),
                number(store.median()),
                number(journal / 1e6 / took),
                number(args.messages as f64 / took),
                number(cpu.median()),
                percent(cpu.median() / took),
                number(bare.median()),
                number(resident.median()),
            ]);
        }
    }
    println!("{table}");
    print_load(&before);
    Ok(())
}

fn fill_and_kill(dir: &Path, messages: u64, checkpoint_bytes: u64) -> anyhow::Result<()> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["recovery-fill", "--messages", &messages.to_string()])
        .args(["--checkpoint-bytes", &checkpoint_bytes.to_string()])
        .arg("--dir")
        .arg(dir)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    let output = child.stdout.take().context("no output")?;
    let read = BufReader::new(output).read_line(&mut line);
    child.kill()?;
    child.wait()?;
    read?;
    anyhow::ensure!(line.trim() == "filled", "the fill did not end well");
    Ok(())
}

fn open_in_child(dir: &Path) -> anyhow::Result<Opened> {
    let output = Command::new(std::env::current_exe()?)
        .arg("recovery-open")
        .arg("--dir")
        .arg(dir)
        .stderr(Stdio::inherit())
        .output()?;
    anyhow::ensure!(output.status.success(), "it did not open");
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn files(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir)?.collect::<Result<Vec<_>, _>>()?;
    let mut paths: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
    paths.sort();
    Ok(paths)
}

/// Segments, by what they are named.
fn segments(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut paths = files(dir)?;
    paths.retain(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.ends_with(SEGMENT))
    });
    Ok(paths)
}

fn journal_bytes(dir: &Path) -> anyhow::Result<f64> {
    let mut bytes = 0;
    for path in segments(dir)? {
        bytes += fs::metadata(path)?.len();
    }
    Ok(bytes as f64)
}

/// Reads the journal once through; the seconds it took.
fn read_all(dir: &Path) -> anyhow::Result<f64> {
    let started = Instant::now();
    let mut buffer = vec![0; 1 << 20];
    for path in segments(dir)? {
        let mut file = File::open(path)?;
        while file.read(&mut buffer)? > 0 {}
    }
    Ok(started.elapsed().as_secs_f64())
}

/// Drops the files from the page cache.
fn forget(dir: &Path) -> anyhow::Result<()> {
    for path in files(dir)? {
        let file = File::open(path)?;
        file.sync_all()?;
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

/// What the names of the store's segment files end with.
const SEGMENT: &str = ".seg";

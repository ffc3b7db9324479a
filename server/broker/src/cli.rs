//! The command line.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::config::{self, Sources, Span};
use crate::{backup, probe, repair, selftest, serve};

/// A message broker: one queue engine, many protocols, the official client libraries unmodified.
///
/// Without a command it serves until it gets SIGTERM or SIGINT. Settings come from the mode's defaults, then the
/// file, then the environment (POWERQUEUE_LISTEN__SQS sets listen.sqs), then the command line.
///
/// Exit codes: 0 after a clean stop, 78 if the configuration or its surroundings have to be changed first (a key, a
/// port, the data directory), 130 if a second signal cut the stop short, 1 for anything else.
#[derive(Parser)]
#[command(name = "powerqueue", version)]
struct Cli {
    #[command(flatten)]
    sources: SourceArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Args)]
struct SourceArgs {
    /// The configuration file (TOML).
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where everything is kept; made if it is missing.
    #[arg(long, global = true, value_name = "DIR")]
    data: Option<PathBuf>,
    /// local, private or public.
    #[arg(long, global = true)]
    mode: Option<String>,
    /// Sets one key, for example listen.sqs=127.0.0.1:9324; repeatable.
    #[arg(long, global = true, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

#[derive(Subcommand)]
enum Command {
    /// Says whether the configuration is valid.
    Check,
    /// Prints the effective configuration as TOML that loads again. Secrets are in it.
    PrintConfig,
    /// Asks the running broker for its readiness and prints the report.
    Health,
    /// Waits until the running broker is ready.
    Wait {
        /// For how long.
        #[arg(long, default_value = "60s", value_name = "DURATION")]
        timeout: Span,
    },
    /// Lists what of the journal cannot be read. The broker must not be running.
    Repair {
        /// Go on without it. What is lost is lost; damaged files are kept.
        #[arg(long)]
        accept_loss: bool,
    },
    /// Sends and receives through every front end of the running broker, under an identifier of its own.
    ///
    /// Exit codes: 0 if every front end works, 1 if one does not, 78 if there is nothing that it can test.
    Selftest {
        /// The identifier to use; a new one without it.
        #[arg(long, value_name = "ID")]
        identifier: Option<String>,
    },
    /// Copies the data directory to a new one, consistently, whether or not the broker runs.
    ///
    /// Everything that was durable when it began is in the copy. A broker that starts on the copy refuses the receipt
    /// handles that the original gave out.
    Backup {
        /// Where to; must not exist yet.
        #[arg(value_name = "DIR")]
        into: PathBuf,
    },
    /// Prints the version.
    Version {
        /// Prints the store's format instead: a number. A broker opens stores of its own format and older ones.
        #[arg(long)]
        store_format: bool,
    },
}

/// Does what the command line says.
///
/// # Errors
/// With one sentence for the operator.
pub fn run() -> anyhow::Result<ExitCode> {
    let Cli { sources, command } = Cli::parse();
    if let Some(Command::Version { store_format }) = command {
        if store_format {
            println!("{}", powerqueue_store::FORMAT);
        } else {
            println!("powerqueue {}", env!("CARGO_PKG_VERSION"));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let loaded = config::load(&Sources {
        file: sources.config,
        environment: std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
        data: sources.data,
        mode: sources.mode,
        set: sources.set,
    })?;
    match command {
        None => return serve::run(&loaded),
        Some(Command::Health) => return probe::health(&loaded.config),
        Some(Command::Wait { timeout }) => return probe::wait(&loaded.config, timeout.duration()),
        Some(Command::Repair { accept_loss }) => return repair::run(&loaded.config, accept_loss),
        Some(Command::Selftest { identifier }) => return selftest::run(&loaded.config, identifier),
        Some(Command::Backup { into }) => return backup::run(&loaded.config, &into),
        Some(Command::Check) => {
            println!(
                "the configuration is valid ({} mode)",
                loaded.config.mode.as_str()
            );
        }
        Some(Command::PrintConfig) => print!("{}", loaded.to_toml()?),
        Some(Command::Version { .. }) => {}
    }
    Ok(ExitCode::SUCCESS)
}

//! Logs: to standard error, for a person, a journal or a machine.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::config::{Log, LogFormat};
use crate::failure::Failure;

/// The filter for a level or a list of directives.
///
/// # Errors
/// A sentence about the directive that cannot be read.
pub fn filter(level: &str) -> Result<EnvFilter, String> {
    EnvFilter::try_new(level).map_err(|error| error.to_string())
}

/// Starts logging, once in the process.
///
/// # Errors
/// If the level cannot be read.
pub fn start(log: &Log) -> Result<(), Failure> {
    let filter = filter(&log.level).map_err(Failure::Config)?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal());
    // The journal has the time of every line already.
    let journal = std::env::var_os("JOURNAL_STREAM").is_some();
    // A second subscriber in one process is a test's; the first one stays.
    let _ = match (log.format, journal) {
        (LogFormat::Json, _) => builder.json().flatten_event(true).try_init(),
        (LogFormat::Text, true) => builder.without_time().with_ansi(false).try_init(),
        (LogFormat::Text, false) => builder.try_init(),
    };
    Ok(())
}

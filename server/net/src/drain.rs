//! The one way in which everything that serves is told to finish.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// Told to whoever serves. Clones hear the same signal.
#[derive(Clone, Debug)]
pub struct Drain(watch::Receiver<Option<Instant>>);

/// The end that gives the signal. Dropping it gives none.
#[derive(Debug)]
pub struct DrainSignal(watch::Sender<Option<Instant>>);

impl Drain {
    /// A signal not yet given.
    #[allow(clippy::new_ret_no_self, reason = "a channel is both of its ends")]
    pub fn new() -> (DrainSignal, Self) {
        let (sender, receiver) = watch::channel(None);
        (DrainSignal(sender), Self(receiver))
    }

    /// Whether the signal was given.
    pub fn started(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Waits for the signal. Answers when everything must have finished.
    pub async fn signalled(&mut self) -> Instant {
        let signalled = self
            .0
            .wait_for(Option::is_some)
            .await
            .map(|deadline| *deadline);
        match signalled {
            Ok(Some(deadline)) => deadline,
            // The other end is gone: the signal will never be given.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }
}

impl DrainSignal {
    /// Gives the signal: finish within `grace`. A second call changes nothing.
    pub fn start(&self, grace: Duration) {
        self.0.send_if_modified(|deadline| {
            let first = deadline.is_none();
            if first {
                *deadline = Some(Instant::now() + grace);
            }
            first
        });
    }
}

//! Keeps the certificate fresh while the broker serves.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use powerqueue_net::Drain;
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval};

use super::acme::{Acme, Attempts};
use super::files::{Files, Look};
use super::self_signed::LocalAuthority;
use super::validity::{Validity, now, reach};
use super::{Seat, Source};
use crate::config;

/// How long after a certificate of our own could not be made it is tried again.
const MAKE_AGAIN: Duration = Duration::from_secs(3600);

/// The work that follows opening.
pub struct Upkeep {
    seat: Seat,
    source: Source,
    poll: Duration,
    retry: Duration,
}

impl Upkeep {
    pub(super) fn new(seat: Seat, source: Source, tls: &config::Tls) -> Self {
        Self {
            seat,
            source,
            poll: tls.poll.duration(),
            retry: tls.acme_retry.duration(),
        }
    }

    /// Works until the drain begins. A nudge means: look, or try, now.
    ///
    /// # Errors
    /// None; the type is that of everything that serves until the drain.
    pub async fn run(self, nudge: Arc<Notify>, mut drain: Drain) -> io::Result<()> {
        let Self {
            seat,
            source,
            poll,
            retry,
        } = self;
        let work = async {
            match source {
                Source::SelfSigned(authority, names) => issue(&seat, &authority, &names).await,
                Source::Files(files) => watch(&seat, files, poll, &nudge).await,
                Source::Acme(acme, attempts) => renew(&seat, &acme, attempts, retry, &nudge).await,
            }
        };
        tokio::select! {
            never = work => match never {},
            _ = drain.signalled() => Ok(()),
        }
    }
}

/// Issues a new certificate when a third of the old one's life is left.
async fn issue(seat: &Seat, authority: &LocalAuthority, names: &[String]) -> Infallible {
    loop {
        reach(renewal(seat)).await;
        match authority.issue(names, now()) {
            Ok(certificate) => seat.install(certificate),
            Err(error) => {
                seat.standing.failed();
                tracing::error!(%error, "the old certificate stays");
                tokio::time::sleep(MAKE_AGAIN).await;
            }
        }
    }
}

/// Looks at the files from time to time, and when nudged.
async fn watch(seat: &Seat, mut files: Files, poll: Duration, nudge: &Notify) -> Infallible {
    let mut ticks = interval(poll);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = nudge.notified() => {}
        }
        // The files may be on a network.
        let looked = tokio::task::spawn_blocking(move || {
            let look = files.look();
            (files, look)
        });
        let Ok((back, look)) = looked.await else {
            // The runtime is ending.
            return std::future::pending().await;
        };
        files = back;
        match look {
            Look::Unchanged => {}
            Look::Changed(certificate) => {
                let until = Validity::of(&certificate).map(|validity| validity.until);
                seat.install(certificate);
                tracing::info!(not_after = until, "serving the certificate from the files");
                if until.is_some_and(|until| until < now()) {
                    tracing::warn!("the certificate from the files is no longer valid");
                }
            }
            Look::Unusable(error) => {
                seat.standing.failed();
                tracing::warn!(%error, "the certificate files cannot be used; what was served stays");
            }
        }
    }
}

/// Orders a certificate when there is none, or a third of the old one's life is left, and waits longer after each
/// failure. A nudge tries at once: somebody has put right what was wrong.
async fn renew(
    seat: &Seat,
    acme: &Acme,
    mut attempts: Attempts,
    first_wait: Duration,
    nudge: &Notify,
) -> Infallible {
    loop {
        let due = attempts.due(renewal(seat), now());
        tokio::select! {
            () = reach(due) => {}
            // It ends a wait after a failure, but does not order what is not due.
            () = nudge.notified() => {
                if renewal(seat) > now() {
                    continue;
                }
            }
        }
        match acme.order().await {
            Ok(certificate) => {
                attempts.succeeded(now(), first_wait);
                seat.install(certificate);
                tracing::info!(
                    not_after = seat.standing.served().not_after,
                    "serving a new certificate"
                );
            }
            Err(error) => {
                seat.standing.failed();
                attempts.failed(now(), first_wait, chance());
                let wait = attempts.due(0, now()).saturating_sub(now());
                // What failed is often told only by the cause of the cause.
                let error = format!("{:#}", anyhow::Error::new(error));
                tracing::warn!(%error, "no new certificate; trying again in {wait} s, or at SIGHUP");
            }
        }
        if let Err(error) = acme.keep_attempts(&attempts).await {
            tracing::warn!(%error, "a restart will not know of the attempts");
        }
    }
}

/// When the served certificate has to be followed by another one: at once, if it is a temporary one.
fn renewal(seat: &Seat) -> i64 {
    seat.standing.served().renewal
}

/// A number that other brokers do not have. Without the system's randomness, none.
fn chance() -> u32 {
    getrandom::u32().unwrap_or(0)
}

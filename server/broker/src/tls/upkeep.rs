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

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::pin::{Pin, pin};

    use powerqueue_net::tls::Resolver;

    use super::*;
    use crate::config::{Mode, TlsSource, defaults};
    use crate::data_dir::DataDir;
    use crate::tls::self_signed::temporary;
    use crate::tls::{Served, Standing};

    const LONG: Duration = Duration::from_secs(3 * 3600);

    /// Where a temporary certificate stands in, or the real one is.
    fn seat(source: TlsSource, standing_in: bool) -> Seat {
        let certificate = temporary(&[], now()).unwrap();
        let served = Served::new(&certificate, standing_in);
        let standing = Standing::new(source, vec!["sqs".to_owned()], served);
        Seat {
            resolver: Resolver::new(certificate),
            standing: Arc::new(standing),
        }
    }

    /// Lets the work go on for that long.
    async fn go_on(work: &mut Pin<&mut impl Future<Output = Infallible>>, time: Duration) {
        tokio::select! {
            never = work => match never {},
            () = tokio::time::sleep(time) => {}
        }
    }

    fn put_pair(certificate: &Path, key: &Path) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(certificate, made.cert.pem()).unwrap();
        std::fs::write(key, made.signing_key.serialize_pem()).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_due_is_issued_once() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(folder.path()).unwrap();
        let authority = LocalAuthority::open(&data, now()).unwrap();
        let seat = seat(TlsSource::SelfSigned, true);
        let mut work = pin!(issue(&seat, &authority, &[]));
        go_on(&mut work, LONG).await;
        let served = seat.standing.served();
        assert!(!served.temporary && served.renewal > now());
        assert_eq!(seat.standing.failures(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn files_are_looked_at_every_so_often_and_when_nudged() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("chain"), folder.path().join("key"));
        let seat = seat(TlsSource::Files, true);
        let nudge = Notify::new();
        let files = Files::new(certificate.clone(), key.clone());
        let poll = Duration::from_secs(30);
        let mut work = pin!(watch(&seat, files, poll, &nudge));
        go_on(&mut work, LONG).await;
        assert_eq!(
            seat.standing.failures(),
            1,
            "told once that they are missing"
        );

        put_pair(&certificate, &key);
        go_on(&mut work, poll).await;
        assert!(!seat.standing.served().temporary);

        std::fs::remove_file(&key).unwrap();
        nudge.notify_one();
        go_on(&mut work, Duration::from_secs(1)).await;
        assert_eq!(seat.standing.failures(), 2);
        assert!(!seat.standing.served().temporary, "the old one stays");
    }

    /// Nobody answers on that port.
    fn away(folder: &Path) -> (Acme, Arc<DataDir>) {
        let mut tls = defaults(Mode::Local).tls;
        tls.acme_directory = "https://127.0.0.1:1/directory".to_owned();
        tls.names = vec!["queue.example".to_owned()];
        let data = Arc::new(DataDir::open(folder).unwrap());
        (Acme::new(&tls, Arc::clone(&data)), data)
    }

    #[tokio::test(start_paused = true)]
    async fn a_nudge_ends_the_wait_after_a_failure() {
        let folder = tempfile::tempdir().unwrap();
        let (acme, data) = away(folder.path());
        let attempts = Attempts::load(&data, &acme.identity()).unwrap();
        let seat = seat(TlsSource::Acme, true);
        let nudge = Notify::new();
        let mut work = pin!(renew(&seat, &acme, attempts.clone(), LONG, &nudge));
        go_on(&mut work, LONG / 2).await;
        assert_eq!(seat.standing.failures(), 1);
        nudge.notify_one();
        go_on(&mut work, LONG / 2).await;
        assert_eq!(seat.standing.failures(), 2);
        assert!(seat.standing.served().temporary);
        // Whoever starts again goes on waiting.
        assert_ne!(Attempts::load(&data, &acme.identity()).unwrap(), attempts);
    }

    #[tokio::test(start_paused = true)]
    async fn a_nudge_orders_nothing_that_is_not_due() {
        let folder = tempfile::tempdir().unwrap();
        let (acme, data) = away(folder.path());
        let attempts = Attempts::load(&data, &acme.identity()).unwrap();
        let seat = seat(TlsSource::Acme, false);
        let nudge = Notify::new();
        let mut work = pin!(renew(&seat, &acme, attempts, LONG, &nudge));
        nudge.notify_one();
        go_on(&mut work, LONG).await;
        assert_eq!(seat.standing.failures(), 0, "somebody was asked");
    }
}

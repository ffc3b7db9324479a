//! TLS of the broker's own listeners: one certificate for all of them, from the configured source, replaced while they
//! serve.
//!
//! What it guarantees: a listener that is to speak TLS always speaks it. Where the certificate that was asked for is not
//! there (yet), a temporary one stands in that nobody trusts, and readiness, metrics and log say so; a certificate is
//! only ever replaced by one that can be served, so that a failed renewal leaves the old one in place.

mod acme;
mod files;
mod metrics;
mod self_signed;
mod standing;
pub mod unverified;
mod upkeep;
mod validity;

use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use powerqueue_net::tls::{Certificate, Handshakes, Resolver};

pub use metrics::TlsMetrics;
pub use standing::{Served, Standing};

use crate::config::{Config, TlsSource};
use crate::data_dir::DataDir;
use acme::{Acme, Attempts};
use files::{Files, Look};
use self_signed::LocalAuthority;
use upkeep::Upkeep;
use validity::now;

/// Our folder in the data directory.
const FOLDER: &str = "tls";

/// What an HTTP listener offers, the best first.
const HTTP: [&str; 2] = ["h2", "http/1.1"];

/// What every client has for this machine.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// TLS of all listeners that speak it.
pub struct Tls {
    seat: Seat,
    handshakes: Handshakes,
    source: Source,
}

/// The served certificate's place.
#[derive(Clone, Debug)]
struct Seat {
    resolver: Resolver,
    standing: Arc<Standing>,
}

/// Where the next certificate comes from.
enum Source {
    SelfSigned(Box<LocalAuthority>, Vec<String>),
    Files(Files),
    Acme(Acme, Attempts),
}

/// What clients are told to trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// Its certificate's file.
    pub path: PathBuf,
    /// Its SHA-256.
    pub fingerprint: String,
}

impl Tls {
    /// Prepares the configured source; `None` if it is off. Nobody is asked over the network yet.
    ///
    /// # Errors
    /// [`Failure`](crate::failure::Failure) if the data directory does not hold what it should. Certificate files that
    /// are missing are no error.
    pub fn open(config: &Config, data: &DataDir) -> anyhow::Result<Option<Self>> {
        let tls = &config.tls;
        let at = now();
        let folder = || DataDir::open(&data.path().join(FOLDER));
        let (source, certificate) = match tls.source {
            TlsSource::Off => return Ok(None),
            TlsSource::SelfSigned => {
                let authority = LocalAuthority::open(&folder()?, at)?;
                let names = own_names(config);
                let issued = authority.issue(&names, at)?;
                (Source::SelfSigned(Box::new(authority), names), Some(issued))
            }
            TlsSource::Files => {
                let mut files = Files::new(tls.certificate.clone(), tls.key.clone());
                let found = match files.look() {
                    Look::Changed(certificate) => Some(certificate),
                    Look::Unusable(error) => {
                        tracing::warn!(%error, "a temporary certificate stands in until the files can be used");
                        None
                    }
                    Look::Unchanged => None,
                };
                (Source::Files(files), found)
            }
            TlsSource::Acme => {
                let folder = Arc::new(folder()?);
                let acme = Acme::new(tls, Arc::clone(&folder));
                let attempts = Attempts::load(&folder, &acme.identity())?;
                let kept = acme.kept()?;
                if kept.is_none() {
                    tracing::warn!(
                        "a temporary certificate stands in until the first one is ordered"
                    );
                }
                (Source::Acme(acme, attempts), kept)
            }
        };
        let temporary = certificate.is_none();
        let certificate = match certificate {
            Some(certificate) => certificate,
            None => self_signed::temporary(&own_names(config), at)?,
        };
        let listeners = tls.listeners.clone();
        let served = Served::new(&certificate, temporary);
        Ok(Some(Self {
            seat: Seat {
                standing: Arc::new(Standing::new(tls.source, listeners, served)),
                resolver: Resolver::new(certificate),
            },
            handshakes: Handshakes::new(tls.max_handshakes),
            source,
        }))
    }

    /// That HTTP listener's side of it, if it speaks TLS.
    ///
    /// # Errors
    /// If this build cannot do TLS at all.
    pub fn http(&self, listener: &str) -> Result<Option<powerqueue_net::tls::Tls>, rustls::Error> {
        let covered = |name: &String| name == listener;
        if !self.seat.standing.listeners().iter().any(covered) {
            return Ok(None);
        }
        let handshakes = self.handshakes.clone();
        powerqueue_net::tls::Tls::new(&self.seat.resolver, &HTTP, handshakes).map(Some)
    }

    /// What is served now, for whoever reports it.
    pub fn standing(&self) -> Arc<Standing> {
        Arc::clone(&self.seat.standing)
    }

    /// The authority that clients have to be told of, if it is ours.
    pub fn authority(&self) -> Option<Authority> {
        match &self.source {
            Source::SelfSigned(authority, _) => Some(Authority {
                path: authority.path(),
                fingerprint: authority.fingerprint(),
            }),
            Source::Files(_) | Source::Acme(..) => None,
        }
    }

    /// The route by which an authority sees that our names are ours.
    pub fn challenges(&self) -> Option<Router> {
        match &self.source {
            Source::Acme(acme, _) => Some(acme.challenges().route()),
            Source::SelfSigned(..) | Source::Files(_) => None,
        }
    }

    /// What keeps the certificate fresh while the broker serves.
    pub fn upkeep(self, config: &Config) -> Upkeep {
        Upkeep::new(self.seat, self.source, &config.tls)
    }
}

impl Seat {
    /// Serves that certificate from the next handshake on.
    fn install(&self, certificate: Certificate) {
        let served = Served::new(&certificate, false);
        self.resolver.install(certificate);
        self.standing.serves(served);
    }
}

/// The names of a certificate of our own making: this machine's, the listeners' addresses, the configured ones.
fn own_names(config: &Config) -> Vec<String> {
    let addresses = config
        .tls
        .listeners
        .iter()
        .flat_map(|listener| config.addresses(listener))
        .map(|address| address.ip())
        .filter(|ip| !ip.is_unspecified() && !ip.is_loopback())
        .map(|ip| ip.to_string());
    let mut names: Vec<String> = LOOPBACK.map(str::to_owned).to_vec();
    for name in config.tls.names.iter().cloned().chain(addresses) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

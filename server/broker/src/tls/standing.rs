//! What the listeners are served with now, for readiness and metrics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use powerqueue_net::tls::Certificate;
use serde_json::{Value, json};

use super::validity::Validity;
use crate::config::TlsSource;

/// Written by whoever keeps the certificate, read by whoever reports.
#[derive(Debug)]
pub struct Standing {
    source: TlsSource,
    listeners: Vec<String>,
    now: Mutex<Served>,
    failures: AtomicU64,
}

/// The certificate that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Whether it only stands in until the one that was asked for is there.
    pub temporary: bool,
    /// Its last second, since 1970; 0 if that cannot be read.
    pub not_after: i64,
    /// When the next one is due: at once after a temporary one.
    pub renewal: i64,
}

impl Served {
    /// What it means to serve that certificate.
    pub fn new(certificate: &Certificate, temporary: bool) -> Self {
        let validity = Validity::of(certificate);
        let renewal = validity.filter(|_| !temporary).map_or(0, Validity::renewal);
        Self {
            temporary,
            not_after: validity.map_or(0, |validity| validity.until),
            renewal,
        }
    }
}

impl Standing {
    /// The standing of these listeners at the start.
    pub fn new(source: TlsSource, listeners: Vec<String>, served: Served) -> Self {
        Self {
            source,
            listeners,
            now: Mutex::new(served),
            failures: AtomicU64::new(0),
        }
    }

    /// The listeners that speak TLS.
    pub fn listeners(&self) -> &[String] {
        &self.listeners
    }

    /// What is served now.
    pub fn served(&self) -> Served {
        *self.now.lock()
    }

    /// How often a newer certificate could not be had.
    pub fn failures(&self) -> u64 {
        self.failures.load(Relaxed)
    }

    pub(super) fn serves(&self, served: Served) {
        *self.now.lock() = served;
    }

    pub(super) fn failed(&self) {
        self.failures.fetch_add(1, Relaxed);
    }

    /// For the readiness report. Why something failed is in the log: this answer may be public.
    pub fn report(&self) -> Value {
        let Served {
            temporary,
            not_after,
            renewal: _,
        } = self.served();
        json!({
            "source": self.source.as_str(),
            "certificate": if temporary { "temporary" } else { "installed" },
            "not_after": not_after,
            "failures": self.failures(),
            "listeners": self.listeners,
        })
    }
}

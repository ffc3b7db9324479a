//! The `tls` table: which listeners speak TLS themselves, and where their certificate comes from.

use std::net::IpAddr;
use std::path::PathBuf;

use rustls::pki_types::DnsName;
use serde::{Deserialize, Serialize};

use super::{Config, LISTENERS, Mode, Span};

/// TLS of the broker's own listeners. A proxy in front of them has its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// Where the certificate comes from.
    pub source: TlsSource,
    /// The listeners that speak TLS, and TLS only.
    pub listeners: Vec<String>,
    /// Source `files`: the chain in PEM, the server's own certificate first.
    pub certificate: PathBuf,
    /// Source `files`: its private key in PEM.
    pub key: PathBuf,
    /// The names clients use. `acme` orders a certificate for them; `self-signed` adds them to this machine's own.
    pub names: Vec<String>,
    /// How often the files are looked at. SIGHUP does it at once.
    pub poll: Span,
    /// The time a handshake may take.
    pub handshake: Span,
    /// Handshakes worked on at once, over all listeners; further ones wait within their time.
    pub max_handshakes: usize,
    /// Source `acme`: the certificate authority's directory.
    pub acme_directory: String,
    /// Source `acme`: the mail address it may write to, or nothing.
    pub acme_contact: String,
    /// Source `acme`: the certificate that vouches for the authority itself (PEM), where the system does not.
    pub acme_root: PathBuf,
    /// Source `acme`: the wait after a first failure; it doubles with each further one, up to six hours.
    pub acme_retry: Span,
}

/// Where the certificate comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TlsSource {
    /// Nowhere: every listener speaks plain text.
    Off,
    /// Two files, which others replace.
    Files,
    /// A certificate authority that speaks ACME, by HTTP-01. Using it accepts the authority's terms of service.
    Acme,
    /// A certificate authority of the broker's own, kept in the data directory.
    SelfSigned,
}

impl TlsSource {
    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Files => "files",
            Self::Acme => "acme",
            Self::SelfSigned => "self-signed",
        }
    }
}

/// Where the challenge is answered.
const CHALLENGED: &str = "http";

impl Tls {
    /// What holds where nothing is said. In the public mode the proxy speaks TLS for the HTTP listeners.
    pub(super) fn defaults(mode: Mode) -> Self {
        Self {
            source: TlsSource::Off,
            listeners: match mode {
                Mode::Local | Mode::Private => vec!["sqs".to_owned()],
                Mode::Public => Vec::new(),
            },
            certificate: PathBuf::new(),
            key: PathBuf::new(),
            names: Vec::new(),
            poll: Span::secs(30),
            handshake: Span::secs(5),
            max_handshakes: 256,
            acme_directory: "https://acme-v02.api.letsencrypt.org/directory".to_owned(),
            acme_contact: String::new(),
            acme_root: PathBuf::new(),
            acme_retry: Span::secs(120),
        }
    }

    /// Whether that listener speaks TLS.
    pub fn covers(&self, listener: &str) -> bool {
        self.source != TlsSource::Off && self.listeners.iter().any(|name| name == listener)
    }

    /// Settings that contradict each other, in a sentence.
    pub(super) fn contradiction(&self, config: &Config) -> Option<String> {
        let unknown = |name: &&String| !LISTENERS.contains(&name.as_str());
        if let Some(name) = self.listeners.iter().find(unknown) {
            let known = LISTENERS.join(", ");
            return Some(format!(
                "tls.listeners names {name:?}; the listeners are {known}"
            ));
        }
        if self.max_handshakes == 0 {
            return Some("tls.max_handshakes must be at least 1".to_owned());
        }
        for (key, span) in [
            ("tls.poll", self.poll),
            ("tls.handshake", self.handshake),
            ("tls.acme_retry", self.acme_retry),
        ] {
            if span.duration().is_zero() {
                return Some(format!("{key} must be longer than nothing"));
            }
        }
        if self.source != TlsSource::Off && self.listeners.is_empty() {
            let source = self.source.as_str();
            return Some(format!(
                "tls.source is {source:?} but tls.listeners names no listener"
            ));
        }
        for name in &self.names {
            if !is_name(name) {
                return Some(format!(
                    "tls.names: {name:?} is neither a host name nor an address"
                ));
            }
        }
        let (chain, key) = (
            self.certificate.as_os_str().is_empty(),
            self.key.as_os_str().is_empty(),
        );
        match self.source {
            TlsSource::Files if chain || key => Some(
                "tls.source is \"files\", which needs both tls.certificate and tls.key".to_owned(),
            ),
            TlsSource::Files => None,
            source if !chain || !key => Some(format!(
                "tls.certificate and tls.key would not be read while tls.source is {:?}; set it to \"files\"",
                source.as_str()
            )),
            TlsSource::Acme => self.acme_contradiction(config),
            TlsSource::Off | TlsSource::SelfSigned => None,
        }
    }

    fn acme_contradiction(&self, config: &Config) -> Option<String> {
        if self.names.is_empty() {
            return Some(
                "tls.source is \"acme\" but tls.names has no name to order a certificate for"
                    .to_owned(),
            );
        }
        let unfit = |name: &&String| name.starts_with("*.") || name.parse::<IpAddr>().is_ok();
        if let Some(name) = self.names.iter().find(unfit) {
            return Some(format!(
                "tls.names: a certificate for {name:?} cannot be had by HTTP-01, which needs a plain host name"
            ));
        }
        if !self.acme_directory.starts_with("https://") {
            return Some("tls.acme_directory must be an https URL".to_owned());
        }
        if config.addresses(CHALLENGED).is_empty() {
            return Some(
                "tls.source is \"acme\", whose challenges the http listener answers, but listen.http is off"
                    .to_owned(),
            );
        }
        self.covers(CHALLENGED).then(|| {
            "tls.listeners names \"http\", but ACME's challenges come to it in plain text"
                .to_owned()
        })
    }

    /// What is allowed and probably not meant.
    pub(super) fn doubts(&self, config: &Config) -> Vec<String> {
        let proxied = |name: &&String| self.covers(name) && config.proxy.listeners.contains(name);
        self.listeners
            .iter()
            .filter(proxied)
            .map(|name| {
                format!("{name} is in proxy.listeners and in tls.listeners: the proxy must speak TLS to it")
            })
            .collect()
    }
}

fn is_name(name: &str) -> bool {
    let host = name.strip_prefix("*.").unwrap_or(name);
    name.parse::<IpAddr>().is_ok() || DnsName::try_from(host).is_ok()
}

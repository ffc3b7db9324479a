//! What a user needs to know once the broker is ready: where everything is, and the lines to paste.

use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use powerqueue_net::Listener;
use serde_json::{Map, Value, json};

use crate::config::Mode;
use crate::tls::Authority;

/// Where the broker can be reached.
#[derive(Debug)]
pub struct Endpoints {
    /// The mode.
    pub mode: Mode,
    /// The data directory.
    pub data: PathBuf,
    /// For the printed examples.
    pub identifier: String,
    /// Addresses by listener.
    pub listeners: Vec<(String, Vec<SocketAddr>)>,
    /// The listeners that speak TLS.
    pub tls: Vec<String>,
    /// Whom clients have to trust for it, if the certificates are of our own making.
    pub authority: Option<Authority>,
    /// What is not as it should be.
    pub warnings: Vec<String>,
}

/// The addresses of the listeners, by name.
pub fn addresses(listeners: &[Listener]) -> Vec<(String, Vec<SocketAddr>)> {
    listeners
        .iter()
        .map(|listener| (listener.name().to_owned(), listener.addresses()))
        .collect()
}

impl Endpoints {
    /// A table for a person on standard error; a JSON line on standard output where a program reads along.
    pub fn announce(&self) {
        let (out, err) = (io::stdout(), io::stderr());
        if err.is_terminal() {
            let _ = writeln!(err.lock(), "{self}");
        }
        if !err.is_terminal() || !out.is_terminal() {
            let mut out = out.lock();
            let _ = writeln!(out, "{}", self.json());
            let _ = out.flush();
        }
    }

    /// The JSON line. The identifier is a credential and this line ends up in logs: it is there in local mode only.
    pub fn json(&self) -> Value {
        let endpoints: Map<String, Value> = self
            .listeners
            .iter()
            .map(|(name, addresses)| (name.clone(), json!(self.urls(name, addresses))))
            .collect();
        let mut line = json!({
            "event": "ready",
            "version": env!("CARGO_PKG_VERSION"),
            "mode": self.mode.as_str(),
            "pid": std::process::id(),
            "data": self.data,
            "endpoints": endpoints,
            "warnings": self.warnings,
        });
        if let Some(Authority { path, fingerprint }) = &self.authority {
            line["certificate_authority"] = json!({ "path": path, "sha256": fingerprint });
        }
        if self.mode == Mode::Local {
            line["identifier"] = json!(self.identifier);
        }
        line
    }

    /// The first URL of a listener.
    pub fn url(&self, listener: &str) -> Option<String> {
        let (name, addresses) = self.listeners.iter().find(|(name, _)| name == listener)?;
        self.urls(name, addresses).into_iter().next()
    }

    /// URLs for addresses. A wildcard is reached from this machine by its loopback address.
    fn urls(&self, listener: &str, addresses: &[SocketAddr]) -> Vec<String> {
        let tls = self.tls.iter().any(|name| name == listener);
        let scheme = if tls { "https" } else { "http" };
        addresses
            .iter()
            .map(|&address| format!("{scheme}://{}", reachable(address)))
            .collect()
    }

    fn sqs(&self, f: &mut fmt::Formatter<'_>, url: &str) -> fmt::Result {
        writeln!(f, "  Amazon SQS  {url}")?;
        let (key, secret) = match self.mode {
            Mode::Local => (self.identifier.as_str(), "any"),
            Mode::Private => ("<an id from auth.keys>", "<its secret>"),
            Mode::Public => ("<your identifier>", "any"),
        };
        writeln!(f, "    shell     export AWS_ENDPOINT_URL_SQS={url}")?;
        writeln!(
            f,
            "              export AWS_ACCESS_KEY_ID={key} AWS_SECRET_ACCESS_KEY={secret} AWS_REGION=us-east-1"
        )?;
        writeln!(
            f,
            "    boto3     boto3.client(\"sqs\", endpoint_url=\"{url}\")"
        )?;
        if let Some(authority) = &self.authority {
            writeln!(
                f,
                "    trust     export AWS_CA_BUNDLE={}",
                authority.path.display()
            )?;
        }
        // Version 1 of the CLI does not read the endpoint from the environment.
        writeln!(f, "    AWS CLI   aws --endpoint-url {url} sqs list-queues")
    }
}

impl fmt::Display for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "PowerQueue {} is ready ({} mode)\n",
            env!("CARGO_PKG_VERSION"),
            self.mode.as_str()
        )?;
        if let Some(url) = self.url("sqs") {
            self.sqs(f, &url)?;
        }
        if let Some(url) = self.url("http") {
            writeln!(f, "  Website     {url}/")?;
            writeln!(f, "  Health      {url}/healthz/ready")?;
        }
        if let Some(url) = self.url("metrics") {
            writeln!(f, "  Metrics     {url}/metrics")?;
        }
        writeln!(f, "  Data        {}", self.data.display())?;
        if let Some(Authority { path, fingerprint }) = &self.authority {
            writeln!(f, "  TLS         trust {}", path.display())?;
            writeln!(f, "              SHA-256 {fingerprint}")?;
        }
        let mut notes = String::new();
        for warning in &self.warnings {
            writeln!(notes, "  Warning     {warning}")?;
        }
        write!(f, "{notes}\nStop with Ctrl-C.")
    }
}

/// The address to connect to for an address that is listened on.
pub fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoints(mode: Mode) -> Endpoints {
        let at = |text: &str| vec![text.parse().unwrap(), "[::]:1".parse().unwrap()];
        Endpoints {
            mode,
            data: "/data".into(),
            identifier: "a23456789012345678901234".into(),
            listeners: vec![
                ("http".into(), at("127.0.0.1:9325")),
                ("sqs".into(), at("0.0.0.0:9324")),
                ("metrics".into(), at("127.0.0.1:9464")),
            ],
            tls: Vec::new(),
            authority: None,
            warnings: vec!["something is off".into()],
        }
    }

    #[test]
    fn over_tls_the_urls_and_the_authority_say_so() {
        let endpoints = Endpoints {
            tls: vec!["sqs".into()],
            authority: Some(Authority {
                path: "/data/tls/ca.pem".into(),
                fingerprint: "AB:CD".into(),
            }),
            ..endpoints(Mode::Local)
        };
        let table = endpoints.to_string();
        for line in [
            "  Amazon SQS  https://127.0.0.1:9324",
            "    trust     export AWS_CA_BUNDLE=/data/tls/ca.pem",
            "  Health      http://127.0.0.1:9325/healthz/ready",
            "  TLS         trust /data/tls/ca.pem",
            "              SHA-256 AB:CD",
        ] {
            assert!(table.lines().any(|printed| printed == line), "{table}");
        }
        let line = endpoints.json();
        assert_eq!(line["endpoints"]["sqs"][0], "https://127.0.0.1:9324");
        assert_eq!(line["certificate_authority"]["sha256"], "AB:CD");
    }

    #[test]
    fn the_table_shows_addresses_and_lines_to_paste() {
        let table = endpoints(Mode::Local).to_string();
        for line in [
            "PowerQueue 0.1.0 is ready (local mode)",
            "  Amazon SQS  http://127.0.0.1:9324",
            "    shell     export AWS_ENDPOINT_URL_SQS=http://127.0.0.1:9324",
            "              export AWS_ACCESS_KEY_ID=a23456789012345678901234 AWS_SECRET_ACCESS_KEY=any AWS_REGION=us-east-1",
            "    boto3     boto3.client(\"sqs\", endpoint_url=\"http://127.0.0.1:9324\")",
            "    AWS CLI   aws --endpoint-url http://127.0.0.1:9324 sqs list-queues",
            "  Website     http://127.0.0.1:9325/",
            "  Health      http://127.0.0.1:9325/healthz/ready",
            "  Metrics     http://127.0.0.1:9464/metrics",
            "  Data        /data",
            "  Warning     something is off",
            "Stop with Ctrl-C.",
        ] {
            assert!(
                table.lines().any(|printed| printed == line),
                "{line:?} is not in\n{table}"
            );
        }
    }

    #[test]
    fn the_identifier_is_shown_in_local_mode_only() {
        let shown = |mode| {
            let endpoints = endpoints(mode);
            let identifier = &endpoints.identifier;
            (
                endpoints.to_string().contains(identifier),
                endpoints.json().to_string().contains(identifier),
            )
        };
        assert_eq!(shown(Mode::Local), (true, true));
        assert_eq!(shown(Mode::Private), (false, false));
        assert_eq!(shown(Mode::Public), (false, false));
    }

    #[test]
    fn the_json_line_has_every_url() {
        let line = endpoints(Mode::Local).json();
        assert_eq!(
            line["endpoints"]["sqs"],
            json!(["http://127.0.0.1:9324", "http://[::1]:1"])
        );
        assert_eq!(line["event"], "ready");
    }
}

//! The binary with TLS, and a client that says whom it trusts.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;

/// More than anything here takes on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running broker, ended when it is dropped.
pub struct Broker {
    child: Child,
    pub line: Value,
}

/// `powerqueue` on ports of the system's choice, with these settings.
pub fn powerqueue(data: &Path, set: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_powerqueue"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("POWERQUEUE_") {
            command.env_remove(name);
        }
    }
    command.arg("--data").arg(data);
    for listener in ["http", "sqs", "metrics"] {
        command
            .arg("--set")
            .arg(format!("listen.{listener}=127.0.0.1:0"));
    }
    for pair in set {
        command.args(["--set", pair]);
    }
    command
}

impl Broker {
    /// Starts it and waits until it says that it is ready.
    pub fn start(data: &Path, set: &[&str]) -> Self {
        let mut child = powerqueue(data, set)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let line = serde_json::from_str(&line).unwrap_or_else(|error| {
            let _ = child.kill();
            panic!("{error}: {line:?}")
        });
        Self { child, line }
    }

    /// The first URL of a listener, as announced.
    pub fn url(&self, listener: &str) -> &str {
        self.line["endpoints"][listener][0].as_str().unwrap()
    }

    /// Where a listener listens.
    pub fn address(&self, listener: &str) -> SocketAddr {
        let (_, address) = self.url(listener).split_once("://").unwrap();
        address.parse().unwrap()
    }

    /// The body of a page in plain text.
    pub fn page(&self, listener: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(self.address(listener)).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\nHost: x\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.0 200 "), "{head}");
        body.to_owned()
    }

    /// What readiness says of TLS.
    pub fn tls(&self) -> Value {
        let report: Value = serde_json::from_str(&self.page("http", "/healthz/ready")).unwrap();
        report["tls"].clone()
    }

    /// Asks again and again until readiness says it of TLS.
    pub fn until(&self, what: &str, says: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let tls = self.tls();
            if says(&tls) {
                return tls;
            }
            assert!(Instant::now() < deadline, "{what}: still {tls}");
            std::thread::yield_now();
        }
    }

    /// The value of a metric's series.
    pub fn metric(&self, series: &str) -> f64 {
        let text = self.page("metrics", "/metrics");
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value
            .unwrap_or_else(|| panic!("no {series} in\n{text}"))
            .parse()
            .unwrap()
    }

    pub fn signal(&self, signal: &str) {
        let sent = Command::new("kill")
            .args([signal, &self.child.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
    }

    /// Ends it politely.
    pub fn stop(mut self) {
        self.signal("-TERM");
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client's connection over TLS.
pub struct Connection(StreamOwned<ClientConnection, TcpStream>);

impl Connection {
    /// Shakes hands with whoever shows a certificate for that name from one of these authorities (PEM).
    pub fn open(address: SocketAddr, name: &str, roots: &str) -> io::Result<Self> {
        let mut trusted = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(roots.as_bytes()) {
            trusted.add(root.unwrap()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(trusted)
            .with_no_client_auth();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let client = ClientConnection::new(Arc::new(config), name).unwrap();
        let socket = TcpStream::connect(address)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut stream = StreamOwned::new(client, socket);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Self(stream))
    }

    /// The certificate that was shown.
    pub fn certificate(&self) -> Vec<u8> {
        self.0.conn.peer_certificates().unwrap()[0].to_vec()
    }

    /// Sends one request and reads its answer; the connection stays open. The body of an answer with status 200.
    pub fn ask(&mut self, request: &str) -> io::Result<String> {
        self.0.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        let mut piece = [0; 4096];
        loop {
            if let Some(body) = whole(&answer) {
                return Ok(body);
            }
            let read = self.0.read(&mut piece)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            answer.extend_from_slice(&piece[..read]);
        }
    }

    /// Lists the queues, over SQS's JSON protocol.
    pub fn list_queues(&mut self) -> io::Result<String> {
        self.ask(
            "POST / HTTP/1.1\r\nHost: x\r\nX-Amz-Target: AmazonSQS.ListQueues\r\n\
             Content-Type: application/x-amz-json-1.0\r\nContent-Length: 2\r\n\r\n{}",
        )
    }
}

/// The body, once the answer is whole.
fn whole(answer: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(answer).unwrap();
    let (head, body) = text.split_once("\r\n\r\n")?;
    assert!(head.starts_with("HTTP/1.1 200 "), "{text}");
    let length = head
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .map_or(0, |(_, length)| length.trim().parse().unwrap());
    (body.len() >= length).then(|| body.to_owned())
}

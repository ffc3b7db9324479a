//! The binary as a process of a test.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub mod tls;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// More than anything here takes on the slowest machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Between two questions.
const BETWEEN: Duration = Duration::from_millis(20);

/// A running broker, ended when it is dropped.
pub struct Broker {
    child: Child,
    /// What it says when it is ready.
    pub line: Value,
}

/// `powerqueue`, whatever the environment says.
pub fn powerqueue() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_powerqueue"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("POWERQUEUE_") {
            command.env_remove(name);
        }
    }
    command
}

/// The same with every listener on a port of the system's choice, and these settings.
pub fn on_free_ports(data: &Path, set: &[&str]) -> Command {
    let mut command = powerqueue();
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
    pub fn start(command: &mut Command) -> Self {
        let mut child = command
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

    /// Starts it on free ports with these settings.
    pub fn on(data: &Path, set: &[&str]) -> Self {
        Self::start(&mut on_free_ports(data, set))
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

    /// Status and body of a page in plain text, from whoever asks without a proxy.
    pub fn get(&self, listener: &str, path: &str) -> (u16, String) {
        self.ask(listener, path, "")
    }

    /// The body of a page that there is; behind a proxy we stand in for it, elsewhere the header is removed unread.
    pub fn page(&self, listener: &str, path: &str) -> String {
        let (status, body) = self.ask(listener, path, "X-PQ-Client-IP: 127.0.0.1\r\n");
        assert_eq!(status, 200, "{body}");
        body
    }

    fn ask(&self, listener: &str, path: &str, fields: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address(listener)).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\nHost: x\r\n{fields}\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), body.to_owned())
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
            // Nothing announces the change; asking without a pause would use up the machine's ports.
            std::thread::sleep(BETWEEN);
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

    /// Waits for the end, which must come within ten seconds.
    pub fn exit_code(mut self) -> Option<i32> {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < deadline, "still running");
            std::thread::yield_now();
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

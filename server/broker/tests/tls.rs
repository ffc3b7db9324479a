//! The real binary with TLS of its own: a local authority, certificates in files, and what its operator is told.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

mod support;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use support::tls::Connection;
use support::{Broker, on_free_ports};

const SELF_SIGNED: &str = "tls.source=self-signed";

/// The certificate of the broker's own authority.
fn authority(broker: &Broker) -> String {
    let path = broker.line["certificate_authority"]["path"]
        .as_str()
        .unwrap();
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn whoever_trusts_the_local_authority_can_use_sqs() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::on(folder.path(), &[SELF_SIGNED, "tls.names=queue.example"]);
    assert!(broker.url("sqs").starts_with("https://127.0.0.1:"));
    assert!(broker.url("http").starts_with("http://"));
    for name in ["localhost", "127.0.0.1", "::1", "queue.example"] {
        let mut connection =
            Connection::open(broker.address("sqs"), name, &authority(&broker)).unwrap();
        assert!(connection.list_queues().unwrap().starts_with('{'));
    }
    assert!(Connection::open(broker.address("sqs"), "other.example", &authority(&broker)).is_err());
    let tls = broker.tls();
    assert_eq!(tls["certificate"], "installed");
    assert_eq!(tls["source"], "self-signed");
    let not_after = "powerqueue_tls_certificate_not_after_timestamp_seconds{listener=\"sqs\"}";
    assert_eq!(Some(broker.metric(not_after)), tls["not_after"].as_f64());
    let failures = "powerqueue_tls_handshake_failures_total{listener=\"sqs\"}";
    assert!((broker.metric(failures) - 1.0).abs() < f64::EPSILON);
}

#[test]
fn the_local_authority_survives_a_restart_and_its_certificates_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let first = Broker::on(folder.path(), &[SELF_SIGNED]);
    let (trusted, told) = (
        authority(&first),
        first.line["certificate_authority"].clone(),
    );
    let shown = |broker: &Broker| {
        Connection::open(broker.address("sqs"), "localhost", &trusted)
            .unwrap()
            .certificate()
    };
    let before = shown(&first);
    first.stop();
    let second = Broker::on(folder.path(), &[SELF_SIGNED]);
    assert_eq!(second.line["certificate_authority"], told);
    assert_ne!(shown(&second), before);
}

/// Two files that somebody else writes.
struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

impl Files {
    fn below(folder: &Path) -> Self {
        Self {
            certificate: folder.join("chain.pem"),
            key: folder.join("key.pem"),
        }
    }

    fn settings(&self) -> [String; 3] {
        [
            "tls.source=files".to_owned(),
            format!("tls.certificate={}", self.certificate.display()),
            format!("tls.key={}", self.key.display()),
        ]
    }

    /// A new certificate for localhost; the chain.
    fn issue(&self) -> String {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(&self.certificate, made.cert.pem()).unwrap();
        std::fs::write(&self.key, made.signing_key.serialize_pem()).unwrap();
        made.cert.pem()
    }
}

fn start_on(files: &Files, data: &Path, more: &[&str]) -> Broker {
    let settings = files.settings();
    let mut set: Vec<&str> = settings.iter().map(String::as_str).collect();
    set.extend(more);
    Broker::on(data, &set)
}

#[test]
fn files_that_come_later_are_served_after_sighup_and_until_then_readiness_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::below(folder.path());
    let broker = start_on(&files, &folder.path().join("data"), &["tls.poll=1h"]);
    assert_eq!(broker.tls()["certificate"], "temporary");
    let warning = broker.line["warnings"][0].as_str().unwrap();
    assert!(warning.contains("temporary certificate"), "{warning}");
    let temporary = "powerqueue_tls_certificate_temporary{listener=\"sqs\"}";
    assert!(broker.metric(temporary) > 0.0);

    let chain = files.issue();
    assert!(Connection::open(broker.address("sqs"), "localhost", &chain).is_err());
    broker.signal("-HUP");
    broker.until("the files are there", |tls| {
        tls["certificate"] == "installed"
    });
    let mut connection = Connection::open(broker.address("sqs"), "localhost", &chain).unwrap();
    connection.list_queues().unwrap();
    assert!(broker.metric(temporary) < 1.0);
}

#[test]
fn files_are_replaced_while_a_connection_is_open_and_a_key_of_another_certificate_is_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::below(folder.path());
    let old = files.issue();
    let broker = start_on(&files, &folder.path().join("data"), &["tls.poll=20ms"]);
    let mut open = Connection::open(broker.address("sqs"), "localhost", &old).unwrap();
    open.list_queues().unwrap();

    std::fs::write(&files.key, "").unwrap();
    broker.until("the key is gone", |tls| tls["failures"].as_u64() >= Some(1));
    assert_eq!(broker.tls()["certificate"], "installed");
    Connection::open(broker.address("sqs"), "localhost", &old).unwrap();
    assert!(broker.metric("powerqueue_tls_reload_failures_total") >= 1.0);

    let new = files.issue();
    while Connection::open(broker.address("sqs"), "localhost", &new).is_err() {
        std::thread::yield_now();
    }
    assert!(Connection::open(broker.address("sqs"), "localhost", &old).is_err());
    open.list_queues().unwrap();
}

#[test]
fn health_and_wait_ask_over_tls_where_the_listener_speaks_it() {
    let folder = tempfile::tempdir().unwrap();
    let set = [SELF_SIGNED, "tls.listeners=http"];
    let broker = Broker::on(folder.path(), &set);
    assert!(broker.url("http").starts_with("https://"));
    assert!(broker.url("sqs").starts_with("http://"));
    let http = format!("listen.http={}", broker.address("http"));
    for command in ["health", "wait"] {
        let mut asked = on_free_ports(folder.path(), &set);
        asked.args(["--set", &http, command]).stdout(Stdio::null());
        assert!(asked.status().unwrap().success(), "{command}");
    }
    let plain = on_free_ports(folder.path(), &[])
        .args(["--set", &http, "health"])
        .output()
        .unwrap();
    assert_eq!(plain.status.code(), Some(1));
}

#[test]
fn sighup_does_not_end_a_broker_without_tls() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::on(folder.path(), &[]);
    broker.signal("-HUP");
    assert_eq!(broker.tls(), serde_json::Value::Null);
    broker.stop();
}

#[test]
fn a_damaged_local_authority_is_an_error_that_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    Broker::on(folder.path(), &[SELF_SIGNED]).stop();
    std::fs::write(folder.path().join("tls/ca.key"), "").unwrap();
    let output = on_free_ports(folder.path(), &[SELF_SIGNED])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(78));
    let sentence = String::from_utf8(output.stderr).unwrap();
    assert!(
        sentence.contains("tls/ca.key does not hold the local certificate authority"),
        "{sentence}"
    );
}

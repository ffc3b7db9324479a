//! The real binary, started as users start it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Broker, on_free_ports, powerqueue};

fn refused(command: &mut Command) -> String {
    let Output { status, stderr, .. } = command.output().unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(78), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    stderr
}

#[test]
fn it_is_ready_within_a_second_and_says_where() {
    let folder = tempfile::tempdir().unwrap();
    let started = Instant::now();
    let broker = Broker::on(&folder.path().join("data"), &[]);
    assert!(
        started.elapsed() < Duration::from_secs(1),
        "{:?}",
        started.elapsed()
    );

    assert_eq!(broker.line["mode"], "local");
    assert_eq!(broker.get("http", "/healthz/live").0, 200);
    assert_eq!(
        broker.get("http", "/version"),
        (
            200,
            "{\"name\":\"powerqueue\",\"version\":\"0.1.0\"}\n".into()
        )
    );
    assert_eq!(broker.get("http", "/").0, 200);
    assert_eq!(broker.get("http", "/nothing").0, 404);
    let (status, report) = broker.get("http", "/healthz/ready");
    assert_eq!(status, 200);
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["status"], "ready");
    assert_eq!(report["listeners"]["sqs"]["state"], "listening");
    assert_eq!(
        report["listeners"]["sqs"]["addresses"][0],
        broker.address("sqs").to_string()
    );
    let (status, metrics) = broker.get("metrics", "/metrics");
    assert_eq!(status, 200);
    assert!(
        metrics.contains("powerqueue_state{state=\"ready\"} 1\n"),
        "{metrics}"
    );
    assert!(
        metrics.contains("powerqueue_connections_opened_total{listener=\"http\"} 5\n"),
        "{metrics}"
    );
}

#[test]
fn the_identifier_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let first = Broker::on(folder.path(), &[]);
    let identifier = first.line["identifier"].as_str().unwrap().to_owned();
    assert_eq!(identifier.len(), 24);
    first.signal("-TERM");
    assert_eq!(first.exit_code(), Some(0));
    let second = Broker::on(folder.path(), &[]);
    assert_eq!(second.line["identifier"], identifier);
}

#[test]
fn a_drain_finishes_the_request_in_flight_while_readiness_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::on(folder.path(), &[]);
    let mut stream = TcpStream::connect(broker.address("sqs")).unwrap();
    write!(
        stream,
        "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"
    )
    .unwrap();
    // "100 Continue" says that the request is being read.
    stream.read_exact(&mut [0; 25]).unwrap();
    write!(stream, "ab").unwrap();

    broker.signal("-TERM");
    while broker.get("http", "/healthz/ready").0 != 503 {
        std::thread::yield_now();
    }
    assert!(
        broker
            .get("http", "/healthz/ready")
            .1
            .contains("\"status\":\"draining\"")
    );
    assert_eq!(broker.get("http", "/healthz/live").0, 200);
    write!(stream, "cd").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 "), "{answer}");
    assert!(answer.contains("connection: close\r\n"), "{answer}");
    assert_eq!(broker.exit_code(), Some(0));
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::on(folder.path(), &[]);
    let mut stream = TcpStream::connect(broker.address("sqs")).unwrap();
    write!(
        stream,
        "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"
    )
    .unwrap();
    stream.read_exact(&mut [0; 25]).unwrap();
    broker.signal("-INT");
    while broker.get("http", "/healthz/ready").0 != 503 {
        std::thread::yield_now();
    }
    broker.signal("-INT");
    assert_eq!(broker.exit_code(), Some(130));
}

#[test]
fn health_and_wait_ask_the_running_broker() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::on(folder.path(), &[]);
    let http = format!("listen.http={}", broker.address("http"));
    let health = powerqueue()
        .args(["--set", &http, "health"])
        .output()
        .unwrap();
    assert!(health.status.success());
    assert!(
        String::from_utf8(health.stdout)
            .unwrap()
            .starts_with("{\"listeners\":")
    );
    let wait = powerqueue()
        .args(["wait", "--timeout", "5s", "--set", &http])
        .status()
        .unwrap();
    assert!(wait.success());

    broker.signal("-TERM");
    broker.exit_code();
    let health = powerqueue()
        .args(["--set", &http, "health"])
        .output()
        .unwrap();
    assert_eq!(health.status.code(), Some(1));
    let wait = powerqueue()
        .args(["wait", "--timeout", "200ms", "--set", &http])
        .output()
        .unwrap();
    assert_eq!(wait.status.code(), Some(1));
}

#[test]
fn health_is_asked_behind_the_proxy_too() {
    let folder = tempfile::tempdir().unwrap();
    let proxied = ["--set", "proxy.listeners=http,sqs"];
    let broker = Broker::start(on_free_ports(folder.path(), &[]).args(proxied));
    assert_eq!(broker.get("http", "/healthz/ready").0, 400);
    let http = format!("listen.http={}", broker.address("http"));
    let health = powerqueue()
        .args(["--set", &http, "health"])
        .status()
        .unwrap();
    assert!(health.success());
}

#[test]
fn a_configured_port_in_use_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let sentence = refused(
        on_free_ports(folder.path(), &[]).args(["--set", &format!("listen.sqs={address}")]),
    );
    assert_eq!(
        sentence,
        format!(
            "powerqueue: cannot listen on {address}: the port is in use by another program \
             (set listen.sqs to another address, or to \"\" to turn it off)\n"
        )
    );
}

#[test]
fn a_default_port_in_use_is_a_warning() {
    // Whoever holds the port, this test or another program, it is taken.
    let _taken = TcpListener::bind("127.0.0.1:9324");
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::start(powerqueue().arg("--data").arg(folder.path()).args([
        "--set",
        "listen.http=127.0.0.1:0",
        "--set",
        "listen.metrics=",
    ]));
    let warning = broker.line["warnings"][0].as_str().unwrap();
    assert!(
        warning.contains("127.0.0.1:9324") && warning.contains("listen.sqs"),
        "{warning}"
    );
    assert!(broker.line["endpoints"].get("metrics").is_none());
    broker.signal("-TERM");
    assert_eq!(broker.exit_code(), Some(0));
}

#[test]
fn a_data_directory_in_use_newer_or_unwritable_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::on(folder.path(), &[]);
    assert!(
        refused(&mut on_free_ports(folder.path(), &[])).contains("is in use by another powerqueue")
    );
    drop(broker);

    let format = std::fs::read_to_string(folder.path().join("store/FORMAT")).unwrap();
    std::fs::write(
        folder.path().join("store/FORMAT"),
        format.replace('1', "9999"),
    )
    .unwrap();
    assert!(
        refused(&mut on_free_ports(folder.path(), &[])).contains("written by a newer powerqueue")
    );

    let below_a_file = folder.path().join("identifier/data");
    assert!(
        refused(&mut on_free_ports(&below_a_file, &[]))
            .contains("cannot write to the data directory")
    );
}

#[test]
fn a_wrong_configuration_is_an_error_for_every_command() {
    for command in [&[][..], &["check"], &["print-config"], &["health"]] {
        let sentence = refused(powerqueue().args(["--set", "listen.sqz=x"]).args(command));
        assert_eq!(
            sentence,
            "powerqueue: --set: unknown key listen.sqz; did you mean listen.sqs?\n"
        );
    }
    let sentence = refused(
        powerqueue()
            .env("POWERQUEUE_STORAGE__SYNC", "never")
            .arg("check"),
    );
    assert!(
        sentence.starts_with("powerqueue: POWERQUEUE_STORAGE__SYNC: storage.sync: "),
        "{sentence}"
    );
}

#[test]
fn the_printed_configuration_loads_again() {
    let folder = tempfile::tempdir().unwrap();
    let print = |arguments: &[&str]| {
        let output = powerqueue()
            .args(arguments)
            .arg("print-config")
            .output()
            .unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| format!("{line}\n"))
            .collect::<String>()
    };
    let printed = print(&[
        "--mode",
        "public",
        "--set",
        "limits.lifetime=90m",
        "--set",
        "listen.sqs=127.0.0.1:1",
    ]);
    assert!(printed.contains("lifetime = \"90m\""), "{printed}");
    let file = folder.path().join("powerqueue.toml");
    std::fs::write(&file, &printed).unwrap();
    assert_eq!(print(&["--config", file.to_str().unwrap()]), printed);
}

#[test]
fn a_socket_from_the_service_manager_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    // The shell moves the socket to the first place that systemd uses and says for which process it is.
    let script =
        "exec 3<&0; export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=sqs; exec \"$0\" \"$@\"";
    let mut shell = Command::new("sh");
    shell
        .args(["-c", script, env!("CARGO_BIN_EXE_powerqueue"), "--data"])
        .arg(folder.path())
        .args([
            "--set",
            "listen.http=127.0.0.1:0",
            "--set",
            "listen.metrics=",
        ])
        .stdin(Stdio::from(OwnedFd::from(socket)));
    let broker = Broker::start(&mut shell);
    assert_eq!(broker.address("sqs"), address);
    broker.get("sqs", "/");
    broker.signal("-TERM");
    assert_eq!(broker.exit_code(), Some(0));
}

#[test]
fn the_service_manager_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let until = |expected: &str| {
        let mut buf = [0; 256];
        loop {
            let length = manager.recv(&mut buf).unwrap();
            let text = std::str::from_utf8(&buf[..length]).unwrap();
            if text.lines().any(|line| line.starts_with(expected)) {
                return;
            }
        }
    };
    let mut command = on_free_ports(&folder.path().join("data"), &[]);
    let broker = Broker::start(
        command
            .env("NOTIFY_SOCKET", &path)
            .env("WATCHDOG_USEC", "9000000"),
    );
    until("READY=1");
    until("WATCHDOG=1");
    broker.signal("-TERM");
    until("STOPPING=1");
    assert_eq!(broker.exit_code(), Some(0));
}

#[test]
fn repair_names_what_is_damaged_and_goes_on_without_it_only_when_told() {
    let folder = tempfile::tempdir().unwrap();
    let repair = |accept: &[&str]| {
        let mut command = powerqueue();
        command.arg("--data").arg(folder.path()).arg("repair");
        let Output { status, stdout, .. } = command.args(accept).output().unwrap();
        (status.code(), String::from_utf8(stdout).unwrap())
    };
    let broker = Broker::on(folder.path(), &[]);
    broker.signal("-TERM");
    assert_eq!(broker.exit_code(), Some(0));
    let intact = "the journal can be read from end to end\n".to_owned();
    assert_eq!(repair(&[]), (Some(0), intact));

    std::fs::write(
        folder.path().join("store/checkpoint.redb"),
        "not a database",
    )
    .unwrap();
    let (code, said) = repair(&[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.starts_with("checkpoint.redb: "), "{said}");
    assert!(said.contains("nothing was changed"), "{said}");
    let (code, said) = repair(&["--accept-loss"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("the loss is accepted"), "{said}");
    drop(Broker::on(folder.path(), &[]));
}

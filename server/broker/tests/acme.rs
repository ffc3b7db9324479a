//! Certificates by ACME, against Let's Encrypt's test server `pebble`: from the first order to a renewal, while
//! connections are open and requests flow.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

mod support;

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::json;
use support::Broker;
use support::tls::Connection;

const NAME: &str = "queue.example";

/// How long pebble's certificates are valid, in seconds. The renewal is due after two thirds of it; the last third must be
/// enough for it on a busy machine.
const LIFE: u64 = 18;

/// A process that ends with the test.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(command: &mut Command) -> io::Result<Ending> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map(Ending)
}

fn free_port() -> u16 {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap().port()
}

/// Pebble's place in the world: its ports, and the authority that vouches for its API.
struct Pebble {
    api: SocketAddr,
    management: SocketAddr,
    folder: PathBuf,
    root: PathBuf,
}

impl Pebble {
    fn prepare(folder: &Path) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = folder.join("api-root.pem");
        std::fs::write(&root, params.self_signed(&key).unwrap().pem()).unwrap();
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let chain = params.signed_by(&key, &issuer).unwrap().pem();
        std::fs::write(folder.join("api.pem"), chain).unwrap();
        std::fs::write(folder.join("api.key"), key.serialize_pem()).unwrap();
        Self {
            api: ([127, 0, 0, 1], free_port()).into(),
            management: ([127, 0, 0, 1], free_port()).into(),
            folder: folder.to_owned(),
            root,
        }
    }

    /// Starts it, with a name server that knows every name to be here. Challenges go to that port.
    fn start(&self, challenges: u16) -> (Ending, Ending) {
        let dns = UdpSocket::bind("127.0.0.1:0")
            .and_then(|socket| socket.local_addr())
            .unwrap();
        let names = start(
            Command::new("pebble-challtestsrv")
                .args(["-defaultIPv4", "127.0.0.1", "-defaultIPv6", ""])
                .args(["-dns01", &dns.to_string(), "-http01", "", "-https01", ""])
                .args(["-tlsalpn01", "", "-management", ""]),
        )
        .unwrap();
        let config = json!({ "pebble": {
            "listenAddress": self.api.to_string(),
            "managementListenAddress": self.management.to_string(),
            "certificate": self.folder.join("api.pem"),
            "privateKey": self.folder.join("api.key"),
            "httpPort": challenges,
            "tlsPort": 1,
            "ocspResponderURL": "",
            "externalAccountBindingRequired": false,
            "certificateValidityPeriod": LIFE,
        }});
        let path = self.folder.join("pebble.json");
        std::fs::write(&path, config.to_string()).unwrap();
        let pebble = start(
            Command::new("pebble")
                .arg("-config")
                .arg(&path)
                .args(["-strict", "-dnsserver", &dns.to_string()])
                .env("PEBBLE_VA_NOSLEEP", "1")
                .env("PEBBLE_WFE_NONCEREJECT", "20"),
        )
        .unwrap();
        for address in [self.api, self.management] {
            while TcpStream::connect(address).is_err() {
                thread::yield_now();
            }
        }
        (pebble, names)
    }

    /// The root of the certificates that it issues; another one each time it is started.
    fn issuing_root(&self) -> String {
        let trusted = std::fs::read_to_string(&self.root).unwrap();
        Connection::open(self.management, "localhost", &trusted)
            .unwrap()
            .ask("GET /roots/0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .unwrap()
    }
}

/// A proxy as in front of a real broker: port 80 to the `http` listener, with the client's address. Its port.
fn proxy(to: SocketAddr) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in listener.incoming() {
            // A client that hangs up is no concern of the proxy's.
            let _ = client.and_then(|client| pass_on(client, to));
        }
    });
    port
}

fn pass_on(mut client: TcpStream, to: SocketAddr) -> io::Result<()> {
    let mut head = String::new();
    let mut lines = BufReader::new(client.try_clone()?);
    while lines.read_line(&mut head)? > 2 {}
    let head = head.trim_end();
    let mut broker = TcpStream::connect(to)?;
    write!(
        broker,
        "{head}\r\nX-PQ-Client-IP: {}\r\n\r\n",
        client.peer_addr()?.ip()
    )?;
    // Pebble asks for the connection to be closed after each answer.
    io::copy(&mut broker, &mut client)?;
    Ok(())
}

/// Clients that open one connection after another, until told to stop.
fn flow(address: SocketAddr, root: &str, stop: &AtomicBool, answers: &AtomicU64) {
    while !stop.load(Relaxed) {
        let mut connection = Connection::open(address, NAME, root).unwrap();
        for _ in 0..3 {
            connection.list_queues().unwrap();
            answers.fetch_add(1, Relaxed);
        }
    }
}

#[test]
fn a_certificate_is_ordered_and_renewed_while_requests_flow() {
    if Command::new("pebble").arg("-h").output().is_err() {
        // Not by `eprintln!`, which a passing test keeps to itself.
        let _ = writeln!(
            io::stderr(),
            "\nLEFT OUT: ordering and renewing a certificate, because pebble is not installed \
             (Debian: apt-get install pebble)\n"
        );
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let pebble = Pebble::prepare(folder.path());
    let set = [
        "tls.source=acme",
        &format!("tls.names={NAME}"),
        &format!(
            "tls.acme_directory=https://localhost:{}/dir",
            pebble.api.port()
        ),
        &format!("tls.acme_root={}", pebble.root.display()),
        "tls.acme_contact=operator@queue.example",
        "tls.acme_retry=1s",
        "proxy.listeners=http",
    ];
    let broker = Broker::on(&data, &set);
    let sqs = broker.address("sqs");

    // The authority is away: a temporary certificate, and another try later.
    let tls = broker.until("the first order fails", |tls| {
        tls["failures"].as_u64() >= Some(1)
    });
    assert_eq!(tls["certificate"], "temporary");
    let _running = pebble.start(proxy(broker.address("http")));
    let root = pebble.issuing_root();
    assert!(Connection::open(sqs, NAME, &root).is_err());

    // It is back, and whoever put it right says so.
    broker.signal("-HUP");
    let first = broker.until("the first order", |tls| tls["certificate"] == "installed");
    let mut open = Connection::open(sqs, NAME, &root).unwrap();
    let shown = open.certificate();
    open.list_queues().unwrap();

    // Not a request fails while the next one is ordered and put in its place.
    let (stop, answers) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let clients = [0, 1].map(|_| scope.spawn(|| flow(sqs, &root, &stop, &answers)));
        let renewed = broker.until("a renewal", |tls| tls["not_after"] != first["not_after"]);
        assert!(renewed["not_after"].as_i64() > first["not_after"].as_i64());
        let before = answers.load(Relaxed);
        while answers.load(Relaxed) < before + 10 {
            assert!(clients.iter().all(|client| !client.is_finished()));
            thread::yield_now();
        }
        stop.store(true, Relaxed);
        for client in clients {
            client.join().unwrap();
        }
    });
    assert_ne!(
        Connection::open(sqs, NAME, &root).unwrap().certificate(),
        shown
    );
    open.list_queues().unwrap();
    let not_after = "powerqueue_tls_certificate_not_after_timestamp_seconds{listener=\"sqs\"}";
    assert_eq!(
        Some(broker.metric(not_after)),
        broker.tls()["not_after"].as_f64()
    );

    for name in ["acme-account.json", "acme-certificate.json"] {
        let kept = std::fs::metadata(data.join("tls").join(name)).unwrap();
        assert_eq!(kept.permissions().mode() & 0o777, 0o600, "{name}");
    }
    broker.stop();
    let account = || std::fs::read_to_string(data.join("tls/acme-account.json")).unwrap();
    let before = account();
    let again = Broker::on(&data, &set);
    assert_eq!(again.tls()["certificate"], "installed");
    assert_eq!(account(), before, "another account was opened");
}

#[test]
fn another_order_does_not_serve_the_old_certificate_as_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let tls = folder.path().join("tls");
    std::fs::create_dir_all(&tls).unwrap();
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
    let kept = json!({
        "directory": "https://127.0.0.1:1/dir",
        "names": [NAME],
        "chain": made.cert.pem(),
        "key": made.signing_key.serialize_pem(),
    });
    std::fs::write(tls.join("acme-certificate.json"), kept.to_string()).unwrap();
    let start = |name: &str| {
        let name = format!("tls.names={name}");
        let directory = "tls.acme_directory=https://127.0.0.1:1/dir";
        Broker::on(folder.path(), &["tls.source=acme", directory, &name])
    };
    let same = start(NAME);
    assert_eq!(same.tls()["certificate"], "installed");
    same.stop();
    let other = start("other.example");
    assert_eq!(other.tls()["certificate"], "temporary");
    other.stop();
}

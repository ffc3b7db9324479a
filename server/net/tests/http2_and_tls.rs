//! HTTP/2 with prior knowledge, TLS with a certificate that changes, and how both end.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request as HttpRequest, Response, Version};
use http_body_util::{BodyExt, Empty, Full};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use powerqueue_net::tls::{Certificate, CertificateError, Handshakes, Resolver, Tls};
use powerqueue_net::{Drain, DrainSignal, Listener, Request, Settings, bind, serve};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

type Serving = JoinHandle<std::io::Result<()>>;

/// Answers with the scheme; `/wait` waits for `release`.
fn start(settings: Settings, release: Arc<Notify>) -> (SocketAddr, DrainSignal, Serving) {
    let socket = bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    let (stop, drain) = Drain::new();
    let handler = move |request: Request| {
        let release = Arc::clone(&release);
        async move {
            if request.parts.uri.path() == "/wait" {
                release.notified().await;
            }
            Response::new(Full::new(Bytes::from(request.client.scheme.as_str())))
        }
    };
    let task = tokio::spawn(serve(
        Listener::new("test", vec![socket]),
        settings,
        drain,
        handler,
    ));
    (address, stop, task)
}

async fn http2(address: SocketAddr) -> (SendRequest<Empty<Bytes>>, JoinHandle<hyper::Result<()>>) {
    let io = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (sender, connection) = handshake(TokioExecutor::new(), io).await.unwrap();
    (sender, tokio::spawn(connection))
}

fn get(path: &str) -> HttpRequest<Empty<Bytes>> {
    HttpRequest::get(format!("http://x{path}"))
        .body(Empty::new())
        .unwrap()
}

#[tokio::test]
async fn http2_is_spoken_to_whoever_begins_with_its_preface() {
    let (address, _stop, _task) = start(Settings::default(), Arc::default());
    let (mut sender, _connection) = http2(address).await;
    let answer = sender.send_request(get("/")).await.unwrap();
    assert_eq!(answer.version(), Version::HTTP_2);
    assert_eq!(
        answer.into_body().collect().await.unwrap().to_bytes(),
        "http"
    );
}

#[tokio::test]
async fn a_drain_finishes_http2_streams_and_takes_no_new_ones() {
    let release = Arc::new(Notify::new());
    let (address, stop, task) = start(Settings::default(), Arc::clone(&release));
    let (mut sender, connection) = http2(address).await;
    sender.send_request(get("/")).await.unwrap();
    let waiting = sender.send_request(get("/wait"));
    tokio::pin!(waiting);
    tokio::select! {
        biased;
        answer = &mut waiting => unreachable!("{answer:?}"),
        () = tokio::task::yield_now() => {}
    }
    sender.send_request(get("/")).await.unwrap();

    stop.start(Duration::from_secs(30));
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    release.notify_one();
    assert!(waiting.await.unwrap().status().is_success());
    connection.await.unwrap().unwrap();
    task.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_resting_http2_connection_is_closed_politely_after_two_minutes() {
    let (address, _stop, _task) = start(Settings::default(), Arc::default());
    let (mut sender, connection) = http2(address).await;
    sender
        .send_request(get("/"))
        .await
        .unwrap()
        .into_body()
        .collect()
        .await
        .unwrap();
    let started = tokio::time::Instant::now();
    connection.await.unwrap().unwrap();
    assert_eq!(started.elapsed().as_secs(), 120);
}

/// A certificate for `localhost` and its key, in PEM.
struct Issued {
    chain: String,
    key: String,
}

impl Issued {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        Self {
            chain: made.cert.pem(),
            key: made.signing_key.serialize_pem(),
        }
    }

    fn certificate(&self) -> Certificate {
        Certificate::from_pem(self.chain.as_bytes(), self.key.as_bytes()).unwrap()
    }

    /// Shakes hands as a client that trusts this certificate only.
    async fn connect(&self, address: SocketAddr) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = rustls::RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(self.chain.as_bytes()).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let stream = TcpStream::connect(address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
    }

    async fn ask(&self, address: SocketAddr) -> std::io::Result<String> {
        let mut stream = self.connect(address).await?;
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }
}

/// Serves over TLS with that many places for handshakes.
fn over_tls(resolver: &Resolver, places: usize) -> Settings {
    let tls = Tls::new(resolver, &["h2", "http/1.1"], Handshakes::new(places)).unwrap();
    Settings {
        tls: Some(tls),
        ..Settings::default()
    }
}

#[tokio::test]
async fn a_certificate_is_replaced_while_a_connection_is_open() {
    let (old, new) = (Issued::new(), Issued::new());
    let resolver = Resolver::new(old.certificate());
    let (address, _stop, _task) = start(over_tls(&resolver, 8), Arc::default());
    let mut open = old.connect(address).await.unwrap();
    assert_eq!(open.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    assert!(old.ask(address).await.unwrap().ends_with("https"));
    assert!(new.ask(address).await.is_err());

    resolver.install(new.certificate());
    assert!(old.ask(address).await.is_err(), "the old one is served");
    assert!(new.ask(address).await.unwrap().ends_with("https"));
    open.write_all(b"GET / HTTP/1.0\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    open.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("https"), "{answer}");
}

#[tokio::test]
async fn a_key_of_another_certificate_is_refused() {
    let (one, other) = (Issued::new(), Issued::new());
    let refused = Certificate::from_pem(one.chain.as_bytes(), other.key.as_bytes());
    assert!(matches!(refused, Err(CertificateError::Mismatch)));
}

#[tokio::test]
async fn clients_that_only_connect_take_no_place_from_those_that_shake_hands() {
    let issued = Issued::new();
    let resolver = Resolver::new(issued.certificate());
    let (address, _stop, _task) = start(over_tls(&resolver, 1), Arc::default());
    let mut idle = Vec::new();
    for beginning in [&b""[..], b"\x16", b"\x16\x03\x01\x02\x00\x01"] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(beginning).await.unwrap();
        idle.push(stream);
    }
    let started = std::time::Instant::now();
    assert!(issued.ask(address).await.unwrap().ends_with("https"));
    assert!(started.elapsed() < Duration::from_secs(1), "it had to wait");
    drop(idle);
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_does_not_come_is_given_up_after_five_seconds() {
    let resolver = Resolver::new(Issued::new().certificate());
    let (address, _stop, _task) = start(over_tls(&resolver, 8), Arc::default());
    let mut stream = TcpStream::connect(address).await.unwrap();
    let started = tokio::time::Instant::now();
    let _ = stream.read(&mut [0; 1]).await;
    assert_eq!(started.elapsed().as_secs(), 5);
}

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
use powerqueue_net::tls::{Files, Tls};
use powerqueue_net::{Drain, DrainSignal, Listener, Request, Settings, bind, serve};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

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

struct Certificates {
    folder: tempfile::TempDir,
    files: Files,
}

impl Certificates {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = Files {
            certificate: folder.path().join("server.crt"),
            key: folder.path().join("server.key"),
        };
        let certificates = Self { folder, files };
        certificates.issue();
        certificates
    }

    /// Replaces both files by a new certificate for `localhost`.
    fn issue(&self) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(&self.files.certificate, made.cert.pem()).unwrap();
        std::fs::write(&self.files.key, made.signing_key.serialize_pem()).unwrap();
    }

    /// Asks over TLS, trusting only the certificate that is in the file now.
    async fn ask(&self, address: SocketAddr) -> std::io::Result<String> {
        let mut roots = rustls::RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(&self.files.certificate).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await?;
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }
}

#[tokio::test]
async fn a_certificate_is_replaced_while_serving_and_kept_if_the_new_one_is_of_no_use() {
    let certificates = Certificates::new();
    let tls = Tls::new(&certificates.files, &["h2", "http/1.1"]).unwrap();
    let settings = Settings {
        tls: Some(tls.clone()),
        ..Settings::default()
    };
    let (address, _stop, _task) = start(settings, Arc::default());
    assert!(certificates.ask(address).await.unwrap().ends_with("https"));

    certificates.issue();
    assert!(
        certificates.ask(address).await.is_err(),
        "the old one is still served"
    );
    tls.reload(&certificates.files).unwrap();
    assert!(certificates.ask(address).await.unwrap().ends_with("https"));

    // Key and certificate out of step, as in the middle of a replacement.
    let certificate = std::fs::read(&certificates.files.certificate).unwrap();
    certificates.issue();
    std::fs::write(&certificates.files.certificate, certificate).unwrap();
    assert!(tls.reload(&certificates.files).is_err());
    assert!(certificates.ask(address).await.unwrap().ends_with("https"));
    drop(certificates.folder);
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_does_not_come_is_given_up_after_five_seconds() {
    let certificates = Certificates::new();
    let tls = Tls::new(&certificates.files, &[]).unwrap();
    let settings = Settings {
        tls: Some(tls),
        ..Settings::default()
    };
    let (address, _stop, _task) = start(settings, Arc::default());
    let mut stream = TcpStream::connect(address).await.unwrap();
    let started = tokio::time::Instant::now();
    let _ = stream.read(&mut [0; 1]).await;
    assert_eq!(started.elapsed().as_secs(), 5);
}

//! A client over TLS that says whom it trusts.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::PATIENCE;

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

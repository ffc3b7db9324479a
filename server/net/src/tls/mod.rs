//! The listener's side of TLS: a certificate that can be replaced while connections are open, and a bound on how many
//! handshakes are worked on at once.
//!
//! What it guarantees: TLS 1.2 and 1.3 and nothing older; no early data; a certificate is never served with a key that
//! is not its own; a client that connects and says nothing takes no place from those that shake hands.
//!
//! What it must not do: know where certificates come from.

mod certificate;
mod handshakes;

use std::fmt;
use std::io;
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::crypto::ring;
use rustls::server::{Acceptor, ClientHello, ResolvesServerCert, ServerSessionMemoryCache};
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

pub use certificate::{Certificate, CertificateError};
pub use handshakes::Handshakes;

/// How many TLS sessions are remembered for resumption.
const SESSIONS: usize = 4096;

/// One listener's side of TLS. Clones share the certificate and the places for handshakes.
#[derive(Clone)]
pub struct Tls {
    config: Arc<rustls::ServerConfig>,
    handshakes: Handshakes,
}

/// The certificate that handshakes are answered with. Clones are the same one; any number of listeners may share it.
#[derive(Clone, Debug)]
pub struct Resolver(Arc<Current>);

#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl Tls {
    /// TLS with the resolver's certificate, offering `alpn` in that order (`h2`, `http/1.1`; none for AMQP).
    ///
    /// # Errors
    /// If the cryptography at hand cannot do both versions of TLS; a mistake of the build, not of the operator.
    pub fn new(
        resolver: &Resolver,
        alpn: &[&str],
        handshakes: Handshakes,
    ) -> Result<Self, rustls::Error> {
        let mut config =
            rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?
                .with_no_client_auth()
                .with_cert_resolver(Arc::clone(&resolver.0) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        config.session_storage = ServerSessionMemoryCache::new(SESSIONS);
        // Early data can be replayed; no protocol of ours could tell.
        config.max_early_data_size = 0;
        Ok(Self {
            config: Arc::new(config),
            handshakes,
        })
    }

    /// Shakes hands. The caller sets the deadline.
    pub(crate) async fn accept<S>(&self, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        // A client takes a place once all of its hello is there: until then it costs us no cryptography, and whoever
        // only connects cannot fill the places.
        let hello = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
        let handshake = hello.into_stream(Arc::clone(&self.config));
        self.handshakes.with_place(handshake).await
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Resolver {
    /// Answers with that certificate until another one is installed.
    pub fn new(certificate: Certificate) -> Self {
        Self(Arc::new(Current(RwLock::new(certificate.into_key()))))
    }

    /// Answers with that certificate from the next handshake on. Open connections keep what they agreed on.
    pub fn install(&self, certificate: Certificate) {
        *self.0.0.write() = certificate.into_key();
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read()))
    }
}

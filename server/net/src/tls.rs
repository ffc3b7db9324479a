//! TLS with a certificate that can be replaced while connections are open.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert, ServerSessionMemoryCache};
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How many TLS sessions are remembered for resumption.
const SESSIONS: usize = 4096;

/// The listener's side of TLS. Clones share the certificate.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    current: Arc<Current>,
}

/// Two files in PEM: a certificate chain and its private key.
#[derive(Clone, Debug)]
pub struct Files {
    /// The chain, the server's own certificate first.
    pub certificate: PathBuf,
    /// The key.
    pub key: PathBuf,
}

/// Why TLS could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file could not be read, or is not PEM.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Key and certificate do not belong together, or are of no use.
    #[error("the certificate cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
}

#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl Tls {
    /// TLS 1.2 and 1.3 with the files' certificate, offering `alpn` in that order (`h2`, `http/1.1`; none for AMQP).
    ///
    /// # Errors
    /// [`TlsError`] if the files cannot be read or do not belong together.
    pub fn new(files: &Files, alpn: &[&str]) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let current = Arc::new(Current(RwLock::new(Arc::new(files.load(&provider)?))));
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&current) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        config.session_storage = ServerSessionMemoryCache::new(SESSIONS);
        // Early data can be replayed; no protocol of ours could tell.
        config.max_early_data_size = 0;
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            current,
        })
    }

    /// Reads the files again. Handshakes from now on see the new certificate; after an error, still the old one.
    ///
    /// # Errors
    /// [`TlsError`], for example while key and certificate are being replaced one after the other.
    pub fn reload(&self, files: &Files) -> Result<(), TlsError> {
        let loaded = files.load(&ring::default_provider())?;
        *self.current.0.write() = Arc::new(loaded);
        Ok(())
    }

    pub(crate) async fn accept<S>(&self, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.acceptor.accept(stream).await
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read()))
    }
}

impl Files {
    fn load(&self, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
        let unreadable = |path: &Path, error: rustls::pki_types::pem::Error| TlsError::Unreadable {
            path: path.to_owned(),
            reason: error.to_string(),
        };
        let chain = CertificateDer::pem_file_iter(&self.certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| unreadable(&self.certificate, error))?;
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|error| unreadable(&self.key, error))?;
        Ok(CertifiedKey::from_der(chain, key, provider)?)
    }
}

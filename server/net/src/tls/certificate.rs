//! A certificate and its key, known to belong together.

use std::fmt;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

/// A certificate chain with the private key of its first certificate.
#[derive(Clone)]
pub struct Certificate(Arc<CertifiedKey>);

/// Why a certificate and a key are of no use.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The chain is not PEM.
    #[error("the certificate cannot be read: {0}")]
    Chain(String),
    /// The chain is empty.
    #[error("there is no certificate in it")]
    Empty,
    /// The key is not PEM, or there is none.
    #[error("the private key cannot be read: {0}")]
    Key(String),
    /// The key belongs to another certificate.
    #[error("the private key does not belong to the certificate")]
    Mismatch,
    /// Neither can be used, for another reason.
    #[error("the certificate cannot be used: {0}")]
    Unusable(rustls::Error),
}

impl Certificate {
    /// From PEM: the chain, the server's own certificate first, and its key (PKCS #8, SEC 1 or PKCS #1).
    ///
    /// # Errors
    /// [`CertificateError`].
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, CertificateError> {
        let chain = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| CertificateError::Chain(error.to_string()))?;
        if chain.is_empty() {
            return Err(CertificateError::Empty);
        }
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| CertificateError::Key(error.to_string()))?;
        match CertifiedKey::from_der(chain, key, &ring::default_provider()) {
            Ok(pair) => Ok(Self(Arc::new(pair))),
            Err(rustls::Error::InconsistentKeys(_)) => Err(CertificateError::Mismatch),
            Err(error) => Err(CertificateError::Unusable(error)),
        }
    }

    /// The server's own certificate, in DER.
    pub fn end_entity(&self) -> &[u8] {
        self.0.cert.first().map_or(&[], |first| first.as_ref())
    }

    pub(crate) fn into_key(self) -> Arc<CertifiedKey> {
        self.0
    }
}

// The key stays out of it.
impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate")
            .field("chain", &self.0.cert.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    fn read(chain: &str, key: &str) -> Result<Certificate, CertificateError> {
        Certificate::from_pem(chain.as_bytes(), key.as_bytes())
    }

    #[test]
    fn a_pair_is_read_and_its_key_not_shown() {
        let (chain, key) = pair();
        let certificate = read(&chain, &key).unwrap();
        assert!(!certificate.end_entity().is_empty());
        assert_eq!(format!("{certificate:?}"), "Certificate { chain: 1, .. }");
    }

    #[test]
    fn what_is_not_a_pair_is_refused_for_its_reason() {
        let (chain, key) = pair();
        let (_, other) = pair();
        let half = &chain[..chain.len() / 2];
        assert!(matches!(
            read(&chain, &other),
            Err(CertificateError::Mismatch)
        ));
        assert!(matches!(read("", &key), Err(CertificateError::Empty)));
        assert!(matches!(read(&key, &key), Err(CertificateError::Empty)));
        assert!(matches!(read(half, &key), Err(CertificateError::Chain(_))));
        assert!(matches!(read(&chain, ""), Err(CertificateError::Key(_))));
        assert!(matches!(
            read(&chain, &chain),
            Err(CertificateError::Key(_))
        ));
        let rubbish = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(matches!(
            read(rubbish, &key),
            Err(CertificateError::Unusable(_))
        ));
    }
}

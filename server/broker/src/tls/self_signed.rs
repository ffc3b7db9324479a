//! Certificates of our own making: a small certificate authority kept in the data directory, which clients can be told
//! to trust, and a temporary certificate that nobody trusts, for the time until a real one is there.

use std::fmt::Write as _;
use std::path::PathBuf;

use powerqueue_net::tls::{Certificate, CertificateError};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;

use crate::data_dir::DataDir;

/// The authority's certificate and key in its folder.
const CERTIFICATE: &str = "ca.pem";
const KEY: &str = "ca.key";

const DAY: i64 = 86_400;
/// The authority outlives the machine it is for; a certificate does not outlive a forgotten process by much.
const AUTHORITY_LIFE: i64 = 3650 * DAY;
const CERTIFICATE_LIFE: i64 = 90 * DAY;
/// Clients' clocks may be behind ours.
const BACKDATED: i64 = 3600;

/// Why a certificate could not be made.
#[derive(Debug, thiserror::Error)]
pub enum MakingError {
    /// The names, the time or the system's randomness are not usable.
    #[error("cannot make a certificate: {0}")]
    Refused(#[from] rcgen::Error),
    /// The clock is centuries off.
    #[error("cannot make a certificate: the clock shows no usable time")]
    Clock,
    /// What was made cannot be served.
    #[error(transparent)]
    Useless(#[from] CertificateError),
}

/// A certificate authority for this data directory alone.
pub struct LocalAuthority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
    path: PathBuf,
}

impl LocalAuthority {
    /// The authority in that folder; made, and its key readable by its owner only, if there is none.
    ///
    /// # Errors
    /// [`Failure::Damaged`](crate::failure::Failure::Damaged) if its files do not hold it any more: clients trust it, so it is not quietly replaced.
    pub fn open(folder: &DataDir, now: i64) -> anyhow::Result<Self> {
        let certificate = match folder.read(CERTIFICATE)? {
            Some(certificate) => certificate,
            None => Self::make(folder, now)?,
        };
        let key = folder.read(KEY)?.unwrap_or_default();
        let damaged = |name| folder.damaged(name, "the local certificate authority");
        let key = KeyPair::from_pem(&key).map_err(|_| damaged(KEY))?;
        let issuer =
            Issuer::from_ca_cert_pem(&certificate, key).map_err(|_| damaged(CERTIFICATE))?;
        Certificate::from_pem(
            certificate.as_bytes(),
            issuer.key().serialize_pem().as_bytes(),
        )
        .map_err(|_| damaged(KEY))?;
        Ok(Self {
            issuer,
            certificate,
            path: folder.path().join(CERTIFICATE),
        })
    }

    /// The key first: a certificate that is there has its key.
    fn make(folder: &DataDir, now: i64) -> anyhow::Result<String> {
        let key = KeyPair::generate().map_err(MakingError::from)?;
        let mut params = params(&[], now, AUTHORITY_LIFE)?;
        params
            .distinguished_name
            .push(DnType::CommonName, "PowerQueue local CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let made = params.self_signed(&key).map_err(MakingError::from)?.pem();
        folder.write(KEY, &key.serialize_pem())?;
        folder.write(CERTIFICATE, &made)?;
        Ok(made)
    }

    /// A certificate for these names and addresses, for 90 days, with a fresh key that is written nowhere.
    ///
    /// # Errors
    /// [`MakingError`].
    pub fn issue(&self, names: &[String], now: i64) -> Result<Certificate, MakingError> {
        let key = KeyPair::generate()?;
        let mut params = params(names, now, CERTIFICATE_LIFE)?;
        params
            .distinguished_name
            .push(DnType::CommonName, "PowerQueue");
        params.use_authority_key_identifier_extension = true;
        server(&mut params);
        let chain = params.signed_by(&key, &self.issuer)?.pem() + &self.certificate;
        let key = key.serialize_pem();
        Ok(Certificate::from_pem(chain.as_bytes(), key.as_bytes())?)
    }

    /// The file that clients are told to trust.
    pub fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Its certificate's SHA-256, as tools print it: pairs of capital digits with colons between them.
    pub fn fingerprint(&self) -> String {
        let der = CertificateDer::from_pem_slice(self.certificate.as_bytes());
        let hash = Sha256::digest(der.as_deref().unwrap_or_default());
        let mut text = String::with_capacity(95);
        for (at, byte) in hash.iter().enumerate() {
            let colon = if at == 0 { "" } else { ":" };
            let _ = write!(text, "{colon}{byte:02X}");
        }
        text
    }
}

/// A certificate that nobody trusts: it lets handshakes end in the clients' own words for that, instead of in silence.
///
/// # Errors
/// [`MakingError`].
pub fn temporary(names: &[String], now: i64) -> Result<Certificate, MakingError> {
    let key = KeyPair::generate()?;
    let mut params = params(names, now, CERTIFICATE_LIFE)?;
    params
        .distinguished_name
        .push(DnType::CommonName, "PowerQueue temporary certificate");
    server(&mut params);
    let chain = params.self_signed(&key)?.pem();
    let key = key.serialize_pem();
    Ok(Certificate::from_pem(chain.as_bytes(), key.as_bytes())?)
}

fn params(names: &[String], now: i64, life: i64) -> Result<CertificateParams, MakingError> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    let time =
        |seconds: i64| OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| MakingError::Clock);
    params.not_before = time(now.saturating_sub(BACKDATED))?;
    params.not_after = time(now.saturating_add(life))?;
    Ok(params)
}

fn server(params: &mut CertificateParams) {
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::failure::Failure;
    use crate::tls::validity::{Validity, now};

    fn names() -> Vec<String> {
        ["localhost", "127.0.0.1", "*.queue.example"]
            .map(str::to_owned)
            .to_vec()
    }

    #[test]
    fn an_authority_is_made_once_and_its_key_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(folder.path()).unwrap();
        let made = LocalAuthority::open(&data, now()).unwrap();
        let found = LocalAuthority::open(&data, now()).unwrap();
        assert_eq!(found.fingerprint(), made.fingerprint());
        assert_eq!(made.fingerprint().len(), 32 * 3 - 1);
        assert_eq!(made.path(), folder.path().join("ca.pem"));
        let key = std::fs::metadata(folder.path().join("ca.key")).unwrap();
        assert_eq!(key.permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn what_it_issues_lasts_ninety_days_and_has_the_names() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(folder.path()).unwrap();
        let at = now();
        let authority = LocalAuthority::open(&data, at).unwrap();
        let issued = authority.issue(&names(), at).unwrap();
        assert_eq!(
            Validity::of(&issued),
            Some(Validity {
                from: at - 3600,
                until: at + 90 * DAY
            })
        );
        let (_, parsed) = x509_parser::parse_x509_certificate(issued.end_entity()).unwrap();
        let names = parsed.subject_alternative_name().unwrap().unwrap();
        assert_eq!(names.value.general_names.len(), 3);
        assert!(!parsed.is_ca());
    }

    #[test]
    fn a_damaged_authority_is_not_quietly_replaced() {
        for (name, text) in [("ca.key", "rubbish"), ("ca.pem", "rubbish")] {
            let folder = tempfile::tempdir().unwrap();
            let data = DataDir::open(folder.path()).unwrap();
            LocalAuthority::open(&data, now()).unwrap();
            std::fs::write(folder.path().join(name), text).unwrap();
            let Err(error) = LocalAuthority::open(&data, now()) else {
                panic!("{name} holds rubbish")
            };
            assert!(error.to_string().contains(name), "{error}");
            assert!(error.is::<Failure>());
        }
    }

    #[test]
    fn a_key_of_another_authority_is_damage() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(folder.path()).unwrap();
        LocalAuthority::open(&data, now()).unwrap();
        let other = KeyPair::generate().unwrap().serialize_pem();
        std::fs::write(folder.path().join("ca.key"), other).unwrap();
        assert!(LocalAuthority::open(&data, now()).is_err());
    }

    #[test]
    fn a_name_that_no_certificate_can_have_is_refused() {
        assert!(matches!(
            temporary(&["ünfit".to_owned()], now()),
            Err(MakingError::Refused(_))
        ));
    }
}

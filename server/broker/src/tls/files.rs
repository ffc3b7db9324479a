//! A certificate and its key in two files that others replace: an administrator, the proxy's renewal, an ACME client.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use powerqueue_net::tls::{Certificate, CertificateError};
use sha2::{Digest, Sha256};

/// More than any chain takes; what is larger is some other file.
const MOST: u64 = 1 << 20;

/// The two files, and what was seen of them last.
#[derive(Debug)]
pub struct Files {
    certificate: PathBuf,
    key: PathBuf,
    seen: Option<[u8; 32]>,
}

/// What the files hold.
#[derive(Debug)]
pub enum Look {
    /// What they held the last time.
    Unchanged,
    /// Another certificate with its key.
    Changed(Certificate),
    /// Something else, for the first time: they are being replaced one after the other, or are not there yet.
    Unusable(FilesError),
}

/// Why the files are of no use.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// One cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        reason: io::Error,
    },
    /// Their contents are no pair.
    #[error("{} and {}: {reason}", certificate.display(), key.display())]
    NoPair {
        /// The chain's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// Why not.
        reason: CertificateError,
    },
}

impl Files {
    /// These two files, not looked at yet.
    pub fn new(certificate: PathBuf, key: PathBuf) -> Self {
        Self {
            certificate,
            key,
            seen: None,
        }
    }

    /// Reads both. Contents are compared, not times: a copy may keep its times, and two changes may share one.
    pub fn look(&mut self) -> Look {
        let read = read(&self.certificate).and_then(|chain| Ok((chain, read(&self.key)?)));
        let mut hash = Sha256::new();
        match &read {
            Ok((chain, key)) => {
                hash.update((chain.len() as u64).to_be_bytes());
                hash.update(chain);
                hash.update(key);
            }
            Err(error) => hash.update(error.to_string()),
        }
        let seen = Some(hash.finalize().into());
        if self.seen == seen {
            return Look::Unchanged;
        }
        self.seen = seen;
        let pair = read.and_then(|(chain, key)| {
            Certificate::from_pem(&chain, &key).map_err(|reason| FilesError::NoPair {
                certificate: self.certificate.clone(),
                key: self.key.clone(),
                reason,
            })
        });
        match pair {
            Ok(certificate) => Look::Changed(certificate),
            Err(error) => Look::Unusable(error),
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, FilesError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MOST).read_to_end(&mut bytes));
    match read {
        Ok(_) => Ok(bytes),
        Err(reason) => Err(FilesError::Unreadable {
            path: path.to_owned(),
            reason,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    struct Pair {
        _folder: tempfile::TempDir,
        files: Files,
    }

    impl Pair {
        fn absent() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let files = Files::new(folder.path().join("chain"), folder.path().join("key"));
            Self {
                _folder: folder,
                files,
            }
        }

        fn write(&self, chain: &str, key: &str) {
            std::fs::write(&self.files.certificate, chain).unwrap();
            std::fs::write(&self.files.key, key).unwrap();
        }
    }

    #[test]
    fn files_that_are_not_there_are_told_of_once_and_found_when_they_come() {
        let mut pair = Pair::absent();
        assert!(matches!(
            pair.files.look(),
            Look::Unusable(FilesError::Unreadable { .. })
        ));
        assert!(matches!(pair.files.look(), Look::Unchanged));
        let (chain, key) = self::pair();
        pair.write(&chain, &key);
        assert!(matches!(pair.files.look(), Look::Changed(_)));
        assert!(matches!(pair.files.look(), Look::Unchanged));
    }

    #[test]
    fn a_half_replaced_pair_is_told_of_once_and_the_whole_one_found() {
        let mut pair = Pair::absent();
        let (chain, key) = self::pair();
        let (new_chain, new_key) = self::pair();
        pair.write(&chain, &key);
        assert!(matches!(pair.files.look(), Look::Changed(_)));
        pair.write(&chain, &new_key);
        let Look::Unusable(error) = pair.files.look() else {
            panic!("the key is another one's")
        };
        assert!(
            error
                .to_string()
                .ends_with("does not belong to the certificate")
        );
        assert!(matches!(pair.files.look(), Look::Unchanged));
        pair.write(&new_chain, &new_key);
        assert!(matches!(pair.files.look(), Look::Changed(_)));
    }

    #[test]
    fn a_file_without_an_end_is_not_read_to_it() {
        let mut pair = Pair::absent();
        pair.files.certificate = "/dev/zero".into();
        pair.files.key = "/dev/zero".into();
        assert!(matches!(
            pair.files.look(),
            Look::Unusable(FilesError::NoPair { .. })
        ));
    }
}

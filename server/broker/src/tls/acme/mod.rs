//! Certificates from an authority that speaks ACME (RFC 8555), by HTTP-01.
//!
//! The account and the last certificate are kept in the data directory, readable by their owner only, and each is one
//! file, so that a crash leaves the old one or the new one.

mod attempts;
mod challenges;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use instant_acme::{
    Account, AccountCredentials, AuthorizationStatus, ChallengeType, Identifier, NewAccount,
    NewOrder, Order, OrderStatus, RetryPolicy,
};
use powerqueue_net::tls::{Certificate, CertificateError};
use serde::{Deserialize, Serialize};

pub use attempts::Attempts;
pub use challenges::Challenges;

use crate::config;
use crate::data_dir::DataDir;
use crate::failure::Failure;

const ACCOUNT: &str = "acme-account.json";
const CERTIFICATE: &str = "acme-certificate.json";

/// The longest that one order may take, from the first request to the certificate.
const ORDER: Duration = Duration::from_secs(180);

/// How an order's state is asked for.
const POLLING: RetryPolicy = RetryPolicy::new().timeout(Duration::from_secs(60));

/// The authority no longer knows the account (RFC 8555, section 6.7).
const NO_SUCH_ACCOUNT: &str = "urn:ietf:params:acme:error:accountDoesNotExist";

/// One order, placed again for each renewal.
#[derive(Debug)]
pub struct Acme {
    directory: String,
    contact: Option<String>,
    root: Option<PathBuf>,
    names: Vec<String>,
    folder: Arc<DataDir>,
    challenges: Challenges,
}

/// Why there is no new certificate.
#[derive(Debug, thiserror::Error)]
pub enum AcmeError {
    /// The authority could not be asked, or refused.
    #[error(transparent)]
    Refused(#[from] instant_acme::Error),
    /// It does not certify that name by HTTP-01.
    #[error("the authority offers no HTTP-01 challenge for {0}")]
    NoChallenge(String),
    /// It gave the order up without saying why.
    #[error("the order for the certificate became {0:?}")]
    Order(OrderStatus),
    /// It took too long.
    #[error("the order was not done after three minutes")]
    TooSlow,
    /// What came is of no use.
    #[error(transparent)]
    Useless(#[from] CertificateError),
    /// It cannot be kept.
    #[error(transparent)]
    Unkept(#[from] Failure),
    /// The broker is ending.
    #[error("interrupted")]
    Interrupted,
}

/// The account as it is kept.
#[derive(Serialize, Deserialize)]
struct KeptAccount {
    directory: String,
    contact: Option<String>,
    credentials: AccountCredentials,
}

/// The certificate as it is kept.
#[derive(Serialize, Deserialize)]
struct KeptCertificate {
    directory: String,
    names: Vec<String>,
    chain: String,
    key: String,
}

impl Acme {
    /// The order that the configuration describes.
    pub fn new(tls: &config::Tls, folder: Arc<DataDir>) -> Self {
        // The client asks the process for its cryptography and panics if two are built in and none is chosen. Whoever
        // chose before us chose as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let contact = tls.acme_contact.trim();
        Self {
            directory: tls.acme_directory.clone(),
            contact: (!contact.is_empty()).then(|| match contact.split_once(':') {
                Some(_) => contact.to_owned(),
                None => format!("mailto:{contact}"),
            }),
            root: (!tls.acme_root.as_os_str().is_empty()).then(|| tls.acme_root.clone()),
            names: tls.names.clone(),
            folder,
            challenges: Challenges::default(),
        }
    }

    /// Where the challenges are answered.
    pub fn challenges(&self) -> &Challenges {
        &self.challenges
    }

    /// The same text for the same order.
    pub fn identity(&self) -> String {
        format!("{} {}", self.directory, self.names.join(" "))
    }

    /// The last certificate, if it was for these names from this authority and can be used.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn kept(&self) -> Result<Option<Certificate>, Failure> {
        let kept = self
            .folder
            .read(CERTIFICATE)?
            .and_then(|text| serde_json::from_str::<KeptCertificate>(&text).ok())
            .filter(|kept| kept.directory == self.directory && kept.names == self.names);
        Ok(kept.and_then(|kept| {
            Certificate::from_pem(kept.chain.as_bytes(), kept.key.as_bytes()).ok()
        }))
    }

    /// Orders a certificate and keeps it.
    ///
    /// # Errors
    /// [`AcmeError`].
    pub async fn order(&self) -> Result<Certificate, AcmeError> {
        let ordered = tokio::time::timeout(ORDER, self.place_order())
            .await
            .unwrap_or(Err(AcmeError::TooSlow));
        if let Err(AcmeError::Refused(instant_acme::Error::Api(problem))) = &ordered
            && problem.r#type.as_deref() == Some(NO_SUCH_ACCOUNT)
        {
            // The next attempt opens another one.
            self.keep(ACCOUNT, String::new()).await?;
        }
        ordered
    }

    /// Keeps what the next start should know of attempts.
    ///
    /// # Errors
    /// If it cannot be written.
    pub async fn keep_attempts(&self, attempts: &Attempts) -> Result<(), AcmeError> {
        self.keep(attempts::FILE, attempts.to_text()).await
    }

    async fn place_order(&self) -> Result<Certificate, AcmeError> {
        let account = self.account().await?;
        let names: Vec<Identifier> = self.names.iter().cloned().map(Identifier::Dns).collect();
        let mut order = account.new_order(&NewOrder::new(&names)).await?;
        let (chain, key) = self.fulfil(&mut order).await?;
        let certificate = Certificate::from_pem(chain.as_bytes(), key.as_bytes())?;
        let kept = KeptCertificate {
            directory: self.directory.clone(),
            names: self.names.clone(),
            chain,
            key,
        };
        let text = serde_json::to_string(&kept).map_err(instant_acme::Error::Json)?;
        self.keep(CERTIFICATE, text).await?;
        Ok(certificate)
    }

    /// Answers the order's challenges until it is ready. The chain and its key, both in PEM.
    async fn fulfil(&self, order: &mut Order) -> Result<(String, String), AcmeError> {
        let mut answering = Vec::new();
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization?;
            // An authority may remember a name that it checked lately.
            if authorization.status == AuthorizationStatus::Valid {
                continue;
            }
            let name = authorization.identifier().to_string();
            let mut challenge = authorization
                .challenge(ChallengeType::Http01)
                .ok_or(AcmeError::NoChallenge(name))?;
            let text = challenge.key_authorization();
            answering.push(self.challenges.answer(&challenge.token, text.as_str()));
            challenge.set_ready().await?;
        }
        match order.poll_ready(&POLLING).await? {
            OrderStatus::Ready => {}
            status => return Err(AcmeError::Order(status)),
        }
        drop(answering);
        let key = order.finalize().await?;
        let chain = order.poll_certificate(&POLLING).await?;
        Ok((chain, key))
    }

    /// The kept account, or a new one.
    async fn account(&self) -> Result<Account, AcmeError> {
        // Reads of a few hundred bytes, once for each order.
        let kept = self
            .folder
            .read(ACCOUNT)?
            .and_then(|text| serde_json::from_str::<KeptAccount>(&text).ok())
            .filter(|kept| kept.directory == self.directory);
        let contacts: Vec<&str> = self.contact.as_deref().into_iter().collect();
        let builder = match &self.root {
            Some(root) => Account::builder_with_root(root)?,
            None => Account::builder()?,
        };
        let Some(mut kept) = kept else {
            let wanted = NewAccount {
                contact: &contacts,
                terms_of_service_agreed: true,
                only_return_existing: false,
            };
            let (account, credentials) = builder
                .create(&wanted, self.directory.clone(), None)
                .await?;
            self.keep_account(KeptAccount {
                directory: self.directory.clone(),
                contact: self.contact.clone(),
                credentials,
            })
            .await?;
            return Ok(account);
        };
        let credentials = copy(&kept.credentials)?;
        let account = builder.from_credentials(credentials).await?;
        if kept.contact != self.contact {
            account.update_contacts(&contacts).await?;
            kept.contact = self.contact.clone();
            self.keep_account(kept).await?;
        }
        Ok(account)
    }

    async fn keep_account(&self, kept: KeptAccount) -> Result<(), AcmeError> {
        let text = serde_json::to_string(&kept).map_err(instant_acme::Error::Json)?;
        self.keep(ACCOUNT, text).await
    }

    async fn keep(&self, name: &'static str, text: String) -> Result<(), AcmeError> {
        let folder = Arc::clone(&self.folder);
        tokio::task::spawn_blocking(move || folder.write(name, &text))
            .await
            .map_err(|_| AcmeError::Interrupted)??;
        Ok(())
    }
}

/// Credentials cannot be cloned, but written and read.
fn copy(credentials: &AccountCredentials) -> Result<AccountCredentials, instant_acme::Error> {
    Ok(serde_json::to_value(credentials).and_then(serde_json::from_value)?)
}

//! Whose request it is: the tenant that its credential names, and the words in which it is answered.

use std::net::IpAddr;

use bytes::Bytes;
use http::request::Parts;
use powerqueue_admission::{Admission, Counted};
use powerqueue_node::{Node, Tenant};

use crate::address::{Arn, QueueAddress, path};
use crate::config::{Config, Mode};
use crate::errors::{Error, Kind};
use crate::sigv4::{Credential, Signature};
use crate::wire::{Envelope, QueueUrl};

/// What the listener knows of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestContext {
    /// The client's address.
    pub client: IpAddr,
    /// Whether the client reached the listener by TLS.
    pub tls: bool,
    /// Whether a proxy in front is trusted to say otherwise (`X-Forwarded-Proto`).
    pub behind_proxy: bool,
    /// Whether a refusal counts against the client.
    pub counted: Counted,
}

/// Who asks, and how that client names its queues.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The tenant.
    pub tenant: Tenant,
    /// Its account, in 12 digits.
    pub account: String,
    /// The region that the client asked in; a label, echoed in ARNs.
    pub region: String,
    base: String,
    lenient: bool,
}

const NEEDS_IDENTIFIER: &str = "this public service needs a tenant identifier in your SDK's credential field: a \
    lowercase letter followed by 23 lowercase letters or digits (24 characters), chosen at random; the service's web \
    page generates one";
const TOO_MANY_TENANTS: &str = "too many new tenants; try again later or reuse your identifier";
/// What a signature may be for.
const SERVICES: [&str; 2] = ["sqs", "sts"];
/// The tenant of everyone without an identifier, on a developer's machine.
const LOCAL_TENANT: &str = "local";
/// Accounts in queue URLs that other emulators taught people to write.
const EMULATOR_ACCOUNTS: [&str; 2] = ["000000000000", "queue"];

impl Caller {
    /// Finds the tenant of a request, and checks its signature where signatures are checked.
    pub fn identify(
        (node, admission): (&Node, &Admission),
        config: &Config,
        (parts, body): (&Parts, &Bytes),
        envelope: &Envelope,
        context: &RequestContext,
    ) -> Result<Self, Error> {
        let claimed = Claimed::find(parts, envelope);
        let name = match &config.mode {
            Mode::Private(keys) => {
                let unsigned = || match &claimed.access_key {
                    Some(_) => Error::of(Kind::IncompleteSignature),
                    None => Error::of(Kind::MissingAuthenticationToken),
                };
                let signature = Signature::find(parts)?.ok_or_else(unsigned)?;
                let key = keys.get(&signature.credential.access_key);
                let key = key.ok_or(Error::of(Kind::InvalidClientTokenId))?;
                if !SERVICES.contains(&signature.credential.service.as_str()) {
                    let text = "Credential should be scoped to the correct service: 'sqs'.";
                    return Err(Error::new(Kind::SignatureDoesNotMatch, text));
                }
                signature.verify(parts, body, &key.secret, node.now().as_secs())?;
                key.tenant.as_str()
            }
            Mode::Public => claimed
                .identifier()
                .ok_or(Error::new(Kind::InvalidClientTokenId, NEEDS_IDENTIFIER))?,
            Mode::Local => claimed.identifier().unwrap_or(LOCAL_TENANT),
        };
        let tenant = match node.find_tenant(name) {
            Some(tenant) => tenant,
            None => {
                admission
                    .new_tenant(context.client, context.counted)
                    .map_err(|refused| Error::new(Kind::RequestThrottled, refused.to_string()))?;
                node.tenant(name).map_err(refused)?
            }
        };
        Ok(Self {
            account: format!("{:012}", tenant.account),
            tenant,
            region: claimed.region.unwrap_or_else(|| config.region.clone()),
            base: base_url(parts, context, config),
            lenient: matches!(config.mode, Mode::Local),
        })
    }

    /// The URL of a queue, good where the client asked.
    pub fn queue_url(&self, name: &str) -> String {
        format!("{}{}", self.base, path(&self.account, name))
    }

    /// The ARN of a queue.
    pub fn queue_arn(&self, name: &str) -> String {
        let arn = Arn {
            region: self.region.clone(),
            account: self.account.clone(),
            name: name.to_owned(),
        };
        arn.to_string()
    }

    /// The name of the caller's own queue at that address. Another account's queue does not exist.
    pub fn queue_name(&self, url: &QueueUrl) -> Result<String, Error> {
        let address = QueueAddress::parse(&url.0).ok_or(Error::of(Kind::QueueDoesNotExist))?;
        match &address.account {
            Some(account) if !self.owns(account) => Err(Error::of(Kind::QueueDoesNotExist)),
            _ => Ok(address.name),
        }
    }

    /// Whether that account is the caller's.
    pub fn owns(&self, account: &str) -> bool {
        account == self.account || (self.lenient && EMULATOR_ACCOUNTS.contains(&account))
    }
}

#[cfg(test)]
impl Caller {
    /// A caller of account 1 in `us-east-1`.
    pub fn for_tests() -> Self {
        Self {
            tenant: Tenant {
                id: powerqueue_engine::TenantId(1),
                account: 1,
                shard: 0,
            },
            account: "000000000001".into(),
            region: "us-east-1".into(),
            base: "http://localhost:9324".into(),
            lenient: false,
        }
    }
}

/// Making a tenant is refused for too many of them, and for nothing else that a client could mend.
fn refused(error: powerqueue_node::Error) -> Error {
    match error {
        powerqueue_node::Error::Engine(powerqueue_engine::Error::NodeFull(_)) => {
            Error::new(Kind::RequestThrottled, TOO_MANY_TENANTS)
        }
        other => other.into(),
    }
}

/// What a request says of its sender, true or not.
#[derive(Debug, Default, PartialEq, Eq)]
struct Claimed {
    access_key: Option<String>,
    region: Option<String>,
}

impl Claimed {
    fn find(parts: &Parts, envelope: &Envelope) -> Self {
        let header = parts
            .headers
            .get("authorization")
            .and_then(|v| v.to_str().ok());
        match header
            .and_then(in_authorization)
            .or(envelope.credential.as_deref())
        {
            Some(credential) => Self::read(credential),
            None => Self::default(),
        }
    }

    fn read(credential: &str) -> Self {
        match Credential::parse(credential) {
            Some(Credential {
                access_key, region, ..
            }) => {
                let plain = |r: &String| {
                    r.len() <= 32 && r.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
                };
                let region = Some(region).filter(|r| !r.is_empty()).filter(plain);
                Self {
                    access_key: Some(access_key),
                    region,
                }
            }
            // Half a scope still names the key.
            None => Self {
                access_key: credential.split('/').next().map(str::to_owned),
                region: None,
            },
        }
    }

    fn identifier(&self) -> Option<&str> {
        self.access_key.as_deref().filter(|key| is_identifier(key))
    }
}

fn in_authorization(header: &str) -> Option<&str> {
    if let Some((_, rest)) = header.split_once("Credential=") {
        return rest.split([',', ' ']).next();
    }
    // Signature version 2: `AWS AKID:signature`.
    header.strip_prefix("AWS ")?.split(':').next()
}

/// A lowercase letter, then 23 lowercase letters or digits.
fn is_identifier(key: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    key.len() == 24 && key.starts_with(|c: char| c.is_ascii_lowercase()) && key.bytes().all(allowed)
}

fn base_url(parts: &Parts, context: &RequestContext, config: &Config) -> String {
    let header = |name: &str| parts.headers.get(name).and_then(|v| v.to_str().ok());
    let forwarded = header("x-forwarded-proto").filter(|_| context.behind_proxy);
    let scheme = match forwarded {
        Some("https") => "https",
        Some("http") => "http",
        _ if context.tls => "https",
        _ => "http",
    };
    let plain = |host: &&str| {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b".-_:[]".contains(&b);
        (1..=255).contains(&host.len()) && host.bytes().all(allowed)
    };
    let host = header("host")
        .or(parts.uri.authority().map(|a| a.as_str()))
        .filter(plain);
    format!("{scheme}://{}", host.unwrap_or(&config.host))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use http::Request;

    use super::*;

    fn claimed(headers: &[(&str, &str)], uri: &str) -> Claimed {
        let mut builder = Request::builder().uri(uri);
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        let parts = builder.body(()).unwrap().into_parts().0;
        Claimed::find(&parts, &Envelope::open(&parts, &Bytes::new()))
    }

    #[test]
    fn a_credential_is_found_wherever_clients_put_it() {
        let scope = "abcdefghijklmnopqrstuvwx/20260101/eu-west-1/sqs/aws4_request";
        let header =
            format!("AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0");
        let expected = Claimed {
            access_key: Some("abcdefghijklmnopqrstuvwx".into()),
            region: Some("eu-west-1".into()),
        };
        assert_eq!(claimed(&[("authorization", &header)], "/"), expected);
        assert_eq!(
            claimed(
                &[],
                &format!("/?Action=ListQueues&X-Amz-Credential={scope}")
            ),
            expected
        );
        let json = [("x-amz-target", "AmazonSQS.ListQueues")];
        assert_eq!(
            claimed(&json, &format!("/?X-Amz-Credential={scope}")),
            expected
        );
        let old = claimed(
            &[],
            "/?Action=ListQueues&AWSAccessKeyId=abcdefghijklmnopqrstuvwx",
        );
        assert_eq!(old.identifier(), Some("abcdefghijklmnopqrstuvwx"));
        assert_eq!(claimed(&[], "/"), Claimed::default());
    }

    #[test]
    fn identifiers_are_24_lowercase_letters_and_digits() {
        assert!(is_identifier("a23456789012345678901234"));
        for bad in [
            "",
            "test",
            "123456789012345678901234",
            "A23456789012345678901234",
            "a2345678901234567890123-",
        ] {
            assert!(!is_identifier(bad), "{bad}");
        }
    }

    #[test]
    fn queue_urls_lead_back_to_where_the_client_asked() {
        let parts = |headers: &[(&str, &str)]| {
            let mut builder = Request::builder().uri("/");
            for (name, value) in headers {
                builder = builder.header(*name, *value);
            }
            builder.body(()).unwrap().into_parts().0
        };
        let context = |behind_proxy| RequestContext {
            counted: Counted::Yes,
            client: Ipv4Addr::LOCALHOST.into(),
            tls: false,
            behind_proxy,
        };
        let config = Config::local();
        let forwarded = parts(&[("host", "q.example:81"), ("x-forwarded-proto", "https")]);
        assert_eq!(
            base_url(&forwarded, &context(true), &config),
            "https://q.example:81"
        );
        assert_eq!(
            base_url(&forwarded, &context(false), &config),
            "http://q.example:81"
        );
        assert_eq!(
            base_url(&parts(&[("host", "a/<b>")]), &context(false), &config),
            "http://localhost:9324"
        );
    }
}

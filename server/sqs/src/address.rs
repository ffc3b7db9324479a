//! Queue URLs and ARNs: how clients name queues.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::wire::unescape;

const NAME: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// A queue as a URL or a path names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueAddress {
    /// The account, where the address has one.
    pub account: Option<String>,
    /// The name.
    pub name: String,
}

impl QueueAddress {
    /// Reads a URL, a path or a bare name. The host is not looked at: the client reached us by some name.
    pub fn parse(address: &str) -> Option<Self> {
        let path = match address.split_once("://") {
            Some((_, rest)) => rest.split_once('/')?.1,
            None => address,
        };
        let path = path.split(['?', '#']).next()?;
        let mut segments = path.rsplit('/').filter(|segment| !segment.is_empty());
        let name = unescape(segments.next()?.replace('+', "%2B").as_bytes()).ok()?;
        Some(Self {
            account: segments.next().map(str::to_owned),
            name,
        })
    }
}

/// A queue's URL path.
pub fn path(account: &str, name: &str) -> String {
    format!("/{account}/{}", utf8_percent_encode(name, NAME))
}

/// The ARN of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arn {
    /// The region.
    pub region: String,
    /// The account.
    pub account: String,
    /// The queue's name.
    pub name: String,
}

impl Arn {
    /// Reads `arn:aws:sqs:us-east-1:123456789012:name`.
    pub fn parse(arn: &str) -> Option<Self> {
        let mut parts = arn.splitn(6, ':');
        let (scheme, partition, service) = (parts.next()?, parts.next()?, parts.next()?);
        let (region, account, name) = (parts.next()?, parts.next()?, parts.next()?);
        let is_queue =
            scheme == "arn" && partition.starts_with("aws") && service == "sqs" && !name.is_empty();
        is_queue.then(|| Self {
            region: region.into(),
            account: account.into(),
            name: name.into(),
        })
    }
}

impl std::fmt::Display for Arn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "arn:{}:sqs:{}:{}:{}",
            partition(&self.region),
            self.region,
            self.account,
            self.name
        )
    }
}

/// The partition that a region lies in.
pub fn partition(region: &str) -> &'static str {
    match region {
        r if r.starts_with("cn-") => "aws-cn",
        r if r.starts_with("us-gov-") => "aws-us-gov",
        _ => "aws",
    }
}

/// Whether SQS would make a queue of that name: letters, digits, hyphens and underscores, with `.fifo` at the end
/// of a FIFO queue's, 80 characters in all.
pub fn is_queue_name(name: &str) -> bool {
    let stem = name.strip_suffix(".fifo").unwrap_or(name);
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    (1..=80).contains(&name.len()) && !stem.is_empty() && stem.bytes().all(allowed)
}

/// Whether a queue of that name is FIFO.
pub fn is_fifo(name: &str) -> bool {
    name.ends_with(".fifo")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_paths_and_names_are_addresses() {
        let full = QueueAddress {
            account: Some("000000000001".into()),
            name: "q.fifo".into(),
        };
        for address in [
            "http://h:9324/000000000001/q.fifo",
            "/000000000001/q.fifo",
            "https://h/prefix/000000000001/q.fifo/",
            "http://h/000000000001/q%2Efifo",
        ] {
            assert_eq!(
                QueueAddress::parse(address),
                Some(full.clone()),
                "{address}"
            );
        }
        assert_eq!(
            QueueAddress::parse("q"),
            Some(QueueAddress {
                account: None,
                name: "q".into()
            })
        );
        for nothing in ["", "/", "http://h", "http://h/"] {
            assert_eq!(QueueAddress::parse(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn any_name_survives_its_url() {
        for name in ["q", "a b", "amq.gen-x+y/z", "ü%"] {
            assert_eq!(QueueAddress::parse(&path("1", name)).unwrap().name, name);
        }
    }

    #[test]
    fn arns_round_trip() {
        let arn = Arn::parse("arn:aws:sqs:eu-west-1:000000000001:q").unwrap();
        assert_eq!(arn.to_string(), "arn:aws:sqs:eu-west-1:000000000001:q");
        for bad in [
            "",
            "q",
            "arn:aws:sns:r:1:q",
            "arn:aws:sqs:r:1",
            "arn:aws:sqs:r:1:",
        ] {
            assert_eq!(Arn::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn names_are_those_that_sqs_takes() {
        assert!(
            is_queue_name("a-B_9") && is_queue_name("a.fifo") && is_queue_name(&"a".repeat(80))
        );
        for bad in ["", ".fifo", "a.b", "a b", "a/b", "ä"] {
            assert!(!is_queue_name(bad), "{bad}");
        }
        assert!(!is_queue_name(&"a".repeat(81)));
    }
}

//! `powerqueue selftest`: sends and receives through every front end of the running broker, as a client would.
//!
//! It uses a queue of its own, and deletes it whatever happens. In private mode it signs with the configuration's first key;
//! otherwise it uses an identifier of its own. The identifier is drawn anew
//! unless one is given, so where new tenants are limited an operator who tests often keeps one.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, ensure};
use bytes::Bytes;
use http::Request;
use http::request::Parts;
use powerqueue_sqs::sigv4::Signature;
use serde_json::{Value, json};

use crate::config::{Config, Mode};
use crate::endpoints::reachable;
use crate::failure::Failure;
use crate::identifier;
use crate::tls::unverified;

/// For each step of a client.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The longest answer that is read.
const MAX_ANSWER: u64 = 1 << 20;

/// Tests each front end that the configuration lets listen, one line each; exit code 1 if one failed.
///
/// # Errors
/// [`Failure`] if nothing can be tested with this configuration.
pub fn run(config: &Config, identifier: Option<String>) -> anyhow::Result<ExitCode> {
    let who = match (config.mode, identifier) {
        (Mode::Private, _) => {
            let key = config.auth.keys.iter().next();
            let (id, secret) = key.ok_or(Failure::Config("auth.keys has no keys".to_owned()))?;
            Who::Key(id.clone(), secret.clone())
        }
        (_, Some(text)) if identifier::is_identifier(&text) => Who::Identifier(text),
        (_, Some(_)) => {
            return Err(Failure::Config(
                "--identifier takes a lowercase letter and 23 lowercase letters or digits"
                    .to_owned(),
            )
            .into());
        }
        (_, None) => Who::Identifier(identifier::generate()?),
    };
    // One line a protocol.
    let tests: [(&str, Option<SocketAddr>, Test); 1] =
        [("sqs", config.listen.sqs.iter().next(), sqs)];
    let mut failed = false;
    let mut tested = false;
    for (protocol, address, test) in tests {
        let Some(address) = address.map(reachable) else {
            println!("{protocol}: off");
            continue;
        };
        tested = true;
        let begun = Instant::now();
        let at = Place {
            address,
            tls: config.tls.covers(protocol),
        };
        match test(at, &who) {
            Ok(()) => println!("{protocol}: ok ({} ms)", begun.elapsed().as_millis()),
            Err(error) => {
                failed = true;
                println!("{protocol}: failed: {error:#}");
            }
        }
    }
    if !tested {
        return Err(
            Failure::Config("no front end listens: there is nothing to test".to_owned()).into(),
        );
    }
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

type Test = fn(Place, &Who) -> anyhow::Result<()>;

/// Where a front end listens, and whether it speaks TLS there.
#[derive(Clone, Copy)]
struct Place {
    address: SocketAddr,
    tls: bool,
}

/// As whom it tests.
enum Who {
    /// A tenant that nobody else knows; nothing is signed.
    Identifier(String),
    /// A key of the configuration and its secret.
    Key(String, String),
}

/// Creates a queue, sends, receives, deletes, and deletes the queue.
fn sqs(at: Place, who: &Who) -> anyhow::Result<()> {
    let client = Sqs { at, who };
    let name = format!("selftest-{}", std::process::id());
    let made = client.call("CreateQueue", &json!({ "QueueName": name }))?;
    let queue = text(&made, "QueueUrl")?;
    let tested = client.round_trip(queue);
    let cleaned = client.call("DeleteQueue", &json!({ "QueueUrl": queue }));
    tested.and(cleaned.map(drop))
}

struct Sqs<'a> {
    at: Place,
    who: &'a Who,
}

impl Sqs<'_> {
    fn round_trip(&self, queue: &str) -> anyhow::Result<()> {
        let body = format!("selftest {}", std::process::id());
        let sent = self.call(
            "SendMessage",
            &json!({ "QueueUrl": queue, "MessageBody": body }),
        )?;
        let received = self.call(
            "ReceiveMessage",
            &json!({ "QueueUrl": queue, "WaitTimeSeconds": 5 }),
        )?;
        let message = received
            .pointer("/Messages/0")
            .context("ReceiveMessage: no message within 5 seconds")?;
        ensure!(
            text(message, "Body")? == body
                && text(message, "MessageId")? == text(&sent, "MessageId")?,
            "ReceiveMessage: another message than the one sent"
        );
        let handle = text(message, "ReceiptHandle")?;
        self.call(
            "DeleteMessage",
            &json!({ "QueueUrl": queue, "ReceiptHandle": handle }),
        )?;
        Ok(())
    }

    fn call(&self, action: &str, input: &Value) -> anyhow::Result<Value> {
        let (status, body) = self
            .post(action, &input.to_string())
            .with_context(|| format!("{action}: no answer from {}", self.at.address))?;
        ensure!(
            status == "200",
            "{action}: status {status}: {}",
            body.trim()
        );
        if body.trim().is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(&body).with_context(|| format!("{action}: the answer is no JSON"))
    }

    fn post(&self, action: &str, body: &str) -> anyhow::Result<(String, String)> {
        let head = self.head(action, body)?;
        let stream = TcpStream::connect_timeout(&self.at.address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        if self.at.tls {
            Self::exchange(unverified::connect(stream)?, &head, body)
        } else {
            Self::exchange(stream, &head, body)
        }
    }

    fn exchange(
        mut stream: impl Read + Write,
        head: &Parts,
        body: &str,
    ) -> anyhow::Result<(String, String)> {
        write!(stream, "POST / HTTP/1.0\r\n")?;
        for (name, value) in &head.headers {
            write!(stream, "{name}: {}\r\n", value.to_str()?)?;
        }
        write!(stream, "\r\n{body}")?;
        let mut answer = String::new();
        stream.take(MAX_ANSWER).read_to_string(&mut answer)?;
        let (head, body) = answer
            .split_once("\r\n\r\n")
            .context("what answers is not a broker")?;
        let status = head.split(' ').nth(1).unwrap_or_default();
        Ok((status.to_owned(), body.to_owned()))
    }

    fn head(&self, action: &str, body: &str) -> anyhow::Result<Parts> {
        let address = self.at.address;
        let request = Request::post("/")
            .header("Host", address.to_string())
            // Where the listener is behind the proxy, we stand in for it; elsewhere the header is removed unread.
            .header("X-PQ-Client-IP", address.ip().to_string())
            .header("Content-Type", "application/x-amz-json-1.0")
            .header("X-Amz-Target", format!("AmazonSQS.{action}"))
            .header("Content-Length", body.len());
        let (mut parts, ()) = request.body(())?.into_parts();
        let (id, secret) = match self.who {
            Who::Identifier(identifier) => (identifier.as_str(), "any"),
            Who::Key(id, secret) => (id.as_str(), secret.as_str()),
        };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        let body = Bytes::from(body.to_owned());
        Signature::sign(&mut parts, &body, (id, secret), now.as_secs())
            .map_err(|_| anyhow::anyhow!("the key cannot stand in a header"))?;
        Ok(parts)
    }
}

fn text<'a>(value: &'a Value, key: &str) -> anyhow::Result<&'a str> {
    value
        .get(key)
        .and_then(Value::as_str)
        .with_context(|| format!("the answer has no {key}"))
}

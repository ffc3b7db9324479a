//! `powerqueue selftest`: sends and receives through every front end of the running broker, as a client would.
//!
//! It uses an identifier and a queue of its own, and deletes the queue whatever happens. The identifier is drawn anew
//! unless one is given, so where new tenants are limited an operator who tests often keeps one.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::config::{Config, Mode};
use crate::endpoints::reachable;
use crate::failure::Failure;
use crate::identifier;

/// For each step of a client.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The longest answer that is read.
const MAX_ANSWER: u64 = 1 << 20;

/// Tests each front end that the configuration lets listen, one line each; exit code 1 if one failed.
///
/// # Errors
/// [`Failure`] if nothing can be tested with this configuration.
pub fn run(config: &Config, identifier: Option<String>) -> anyhow::Result<ExitCode> {
    if config.mode == Mode::Private {
        return Err(Failure::Config(
            "in private mode requests are signed, and selftest signs none; use an SDK".to_owned(),
        )
        .into());
    }
    let identifier = match identifier {
        Some(text) if identifier::is_identifier(&text) => text,
        Some(_) => {
            return Err(Failure::Config(
                "--identifier takes a lowercase letter and 23 lowercase letters or digits"
                    .to_owned(),
            )
            .into());
        }
        None => identifier::generate()?,
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
        match test(address, &identifier) {
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

type Test = fn(SocketAddr, &str) -> anyhow::Result<()>;

/// Creates a queue, sends, receives, deletes, and deletes the queue.
fn sqs(address: SocketAddr, identifier: &str) -> anyhow::Result<()> {
    let client = Sqs {
        address,
        identifier,
    };
    let name = format!("selftest-{}", std::process::id());
    let made = client.call("CreateQueue", &json!({ "QueueName": name }))?;
    let queue = text(&made, "QueueUrl")?;
    let tested = client.round_trip(queue);
    let cleaned = client.call("DeleteQueue", &json!({ "QueueUrl": queue }));
    tested.and(cleaned.map(drop))
}

struct Sqs<'a> {
    address: SocketAddr,
    identifier: &'a str,
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
            .with_context(|| format!("{action}: no answer from {}", self.address))?;
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

    fn post(&self, action: &str, body: &str) -> io::Result<(String, String)> {
        let mut stream = TcpStream::connect_timeout(&self.address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        // Where the listener is behind the proxy, we stand in for it; elsewhere the header is removed unread.
        write!(
            stream,
            "POST / HTTP/1.0\r\nHost: {address}\r\nX-PQ-Client-IP: {client}\r\n\
             Content-Type: application/x-amz-json-1.0\r\nX-Amz-Target: AmazonSQS.{action}\r\n\
             Authorization: AWS4-HMAC-SHA256 \
             Credential={identifier}/20260101/us-east-1/sqs/aws4_request, SignedHeaders=host, Signature=none\r\n\
             Content-Length: {length}\r\n\r\n{body}",
            address = self.address,
            client = self.address.ip(),
            identifier = self.identifier,
            length = body.len(),
        )?;
        let mut answer = String::new();
        stream.take(MAX_ANSWER).read_to_string(&mut answer)?;
        let (head, body) = answer
            .split_once("\r\n\r\n")
            .ok_or_else(|| io::Error::other("what answers is not a broker"))?;
        let status = head.split(' ').nth(1).unwrap_or_default();
        Ok((status.to_owned(), body.to_owned()))
    }
}

fn text<'a>(value: &'a Value, key: &str) -> anyhow::Result<&'a str> {
    value
        .get(key)
        .and_then(Value::as_str)
        .with_context(|| format!("the answer has no {key}"))
}

//! What the clients ask for, and how often.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Context;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::spread::Latencies;

use super::connection::{Answer, Connection};

/// What a client does over and over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `SendMessage`.
    Send,
    /// `SendMessageBatch` of ten.
    SendBatch,
    /// `ReceiveMessage` of one, then `DeleteMessage`.
    Take,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Send, Self::SendBatch, Self::Take];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::SendBatch => "send-batch",
            Self::Take => "receive+delete",
        }
    }
}

/// Messages in a batch.
const BATCH: u64 = 10;

/// One measurement to make.
pub(crate) struct Job {
    pub(crate) address: String,
    pub(crate) authorization: Option<String>,
    pub(crate) queues: Vec<String>,
    pub(crate) kind: Kind,
    pub(crate) clients: usize,
    pub(crate) operations: u64,
    pub(crate) time: Duration,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) requests: u64,
    pub(crate) messages: u64,
    pub(crate) failures: u64,
    pub(crate) elapsed: Duration,
    pub(crate) latencies: Latencies,
}

impl Job {
    pub(crate) async fn run(self) -> anyhow::Result<Outcome> {
        let next = Arc::new(AtomicU64::new(0));
        let started = Instant::now();
        let deadline = started + self.time;
        let mut tasks = tokio::task::JoinSet::new();
        for client in 0..self.clients {
            let queue = self.queues.get(client % self.queues.len().max(1));
            let bodies = Bodies::new(queue.context("no queue")?)?;
            let mut connection = Connection::new(&self.address, self.authorization.as_deref());
            let (next, kind, operations) = (Arc::clone(&next), self.kind, self.operations);
            tasks.spawn(async move {
                let mut outcome = Outcome::default();
                while Instant::now() < deadline && next.fetch_add(1, Ordering::Relaxed) < operations
                {
                    let begun = Instant::now();
                    kind.once(&mut connection, &bodies, &mut outcome).await?;
                    outcome.latencies.add(begun.elapsed());
                }
                anyhow::Ok(outcome)
            });
        }
        let mut sum = Outcome::default();
        while let Some(outcome) = tasks.join_next().await {
            let outcome = outcome??;
            sum.requests += outcome.requests;
            sum.messages += outcome.messages;
            sum.failures += outcome.failures;
            sum.latencies.merge(outcome.latencies);
        }
        sum.elapsed = started.elapsed();
        Ok(sum)
    }
}

impl Kind {
    async fn once(
        self,
        connection: &mut Connection,
        bodies: &Bodies,
        outcome: &mut Outcome,
    ) -> anyhow::Result<()> {
        let (action, body, messages) = match self {
            Self::Send => ("SendMessage", &bodies.send, 1),
            Self::SendBatch => ("SendMessageBatch", &bodies.batch, BATCH),
            Self::Take => ("ReceiveMessage", &bodies.receive, 0),
        };
        let answer = connection.call(action, body).await?;
        outcome.requests += 1;
        if answer.status != 200 {
            outcome.failures += 1;
            return Ok(());
        }
        outcome.messages += messages;
        if self != Self::Take {
            return Ok(());
        }
        let received: Received = serde_json::from_slice(&answer.body)?;
        for message in received.messages.unwrap_or_default() {
            let body =
                json!({ "QueueUrl": bodies.queue, "ReceiptHandle": message.handle }).to_string();
            let deleted = connection.call("DeleteMessage", body.as_bytes());
            outcome.requests += 1;
            match deleted.await?.status {
                200 => outcome.messages += 1,
                _ => outcome.failures += 1,
            }
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct Received {
    #[serde(rename = "Messages")]
    messages: Option<Vec<Message>>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(rename = "ReceiptHandle")]
    handle: String,
}

/// Requests that are the same each time.
struct Bodies {
    queue: String,
    send: Vec<u8>,
    batch: Vec<u8>,
    receive: Vec<u8>,
}

impl Bodies {
    fn new(queue: &str) -> anyhow::Result<Self> {
        let text = "x".repeat(1024);
        let entry = |id: u64| json!({ "Id": id.to_string(), "MessageBody": text });
        let entries: Vec<Value> = (0..BATCH).map(entry).collect();
        Ok(Self {
            queue: queue.to_owned(),
            send: serde_json::to_vec(&json!({ "QueueUrl": queue, "MessageBody": text }))?,
            batch: serde_json::to_vec(&json!({ "QueueUrl": queue, "Entries": entries }))?,
            receive: serde_json::to_vec(&json!({ "QueueUrl": queue, "MaxNumberOfMessages": 1 }))?,
        })
    }
}

fn succeeded(action: &str, answer: Answer) -> anyhow::Result<Vec<u8>> {
    anyhow::ensure!(
        answer.status == 200,
        "{action} was answered with {}: {}",
        answer.status,
        String::from_utf8_lossy(&answer.body)
    );
    Ok(answer.body)
}

/// Makes a queue; its URL. Leases are long enough that nothing comes back during a measurement.
pub(crate) async fn make_queue(connection: &mut Connection, name: &str) -> anyhow::Result<String> {
    let body =
        json!({ "QueueName": name, "Attributes": { "VisibilityTimeout": "600" } }).to_string();
    let answer = connection.call("CreateQueue", body.as_bytes());
    let answer: Value = serde_json::from_slice(&succeeded("CreateQueue", answer.await?)?)?;
    let url = answer.get("QueueUrl").and_then(Value::as_str);
    Ok(url.context("no queue URL")?.to_owned())
}

/// Puts at least `count` messages into the queues, evenly.
pub(crate) async fn fill(
    connection: &mut Connection,
    queues: &[String],
    count: u64,
) -> anyhow::Result<()> {
    for queue in queues {
        let bodies = Bodies::new(queue)?;
        for _ in 0..count.div_ceil(queues.len() as u64).div_ceil(BATCH) {
            let answer = connection.call("SendMessageBatch", &bodies.batch).await?;
            succeeded("SendMessageBatch", answer)?;
        }
    }
    Ok(())
}

/// Deletes a queue with what is left in it.
pub(crate) async fn delete_queue(connection: &mut Connection, queue: &str) -> anyhow::Result<()> {
    let body = json!({ "QueueUrl": queue }).to_string();
    let answer = connection.call("DeleteQueue", body.as_bytes()).await?;
    succeeded("DeleteQueue", answer)?;
    Ok(())
}

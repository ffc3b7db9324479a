//! `ReceiveMessage`.

use bytes::Bytes;
use powerqueue_engine::{Claim, Delivery, Error as EngineError, Millis, QueueId, Receive};
use powerqueue_interop::{Attribute, Kind as ValueKind, Message, sqs};
use powerqueue_node::{Error as NodeError, Room};

use crate::errors::Error;
use crate::message::{Wanted, data_type};
use crate::send::check_id;
use crate::service::{Session, Target, sequence_number};
use crate::visibility::timeout;
use crate::wire::{self, Reply, Value};
use crate::{ids, md5, receipt};

/// A receive request, checked.
struct Asked {
    receive: Receive,
    wait: Option<Millis>,
    attempt: Option<String>,
    system_names: Vec<String>,
    attribute_names: Vec<String>,
}

impl Asked {
    fn read(request: wire::Receive, cap: Millis) -> Result<Self, Error> {
        let max = request.max.unwrap_or(1);
        let max = u32::try_from(max)
            .ok()
            .filter(|n| (1..=10).contains(n))
            .ok_or_else(|| {
                Error::invalid(
                    max,
                    "MaxNumberOfMessages",
                    "Must be between 1 and 10, if provided.",
                )
            })?;
        let wait = request.wait.map(|secs| {
            let span = u64::try_from(secs)
                .ok()
                .filter(|s| *s <= 20)
                .map(Millis::from_secs);
            span.ok_or_else(|| {
                Error::invalid(
                    secs,
                    "WaitTimeSeconds",
                    "Must be >= 0 and <= 20, if provided.",
                )
            })
        });
        check_id(request.attempt.as_deref(), "ReceiveRequestAttemptId")?;
        Ok(Self {
            receive: Receive {
                max,
                lease: request
                    .visibility
                    .map(|secs| timeout(secs, cap))
                    .transpose()?,
            },
            wait: wait.transpose()?,
            attempt: request.attempt,
            system_names: request.system_names,
            attribute_names: request.attribute_names,
        })
    }
}

impl Session<'_> {
    pub(crate) async fn receive(&self, request: wire::Receive) -> Result<Reply, Error> {
        let target = self.target(&request.queue)?;
        let asked = Asked::read(request, self.shared.node.limits().lifetime)?;
        let queue = self.ensure(&target).await?;
        let (deliveries, at) = match asked.attempt.as_deref().filter(|_| target.is_fifo()) {
            Some(attempt) => {
                self.receive_attempt(&target, queue, &asked, attempt)
                    .await?
            }
            None => {
                let deliveries = self.receive_now(&target, queue, &asked).await?;
                (deliveries, self.shared.node.now())
            }
        };
        let contents = self.shared.node.contents(&deliveries).await;
        let messages = deliveries
            .iter()
            .zip(contents)
            .filter_map(|(delivery, content)| {
                let message = readable(content)?;
                Some(Value::Structure(self.shown(
                    &target,
                    &asked,
                    (delivery, at),
                    &message,
                )))
            });
        let messages: Vec<_> = messages.collect();
        self.shared.traffic.delivered(messages.len());
        Ok(Reply::new().named("Messages", "Message", Value::List(messages)))
    }

    async fn receive_now(
        &self,
        target: &Target,
        queue: QueueId,
        asked: &Asked,
    ) -> Result<Vec<Delivery>, Error> {
        let wait = asked.wait.unwrap_or(target.settings.receive_wait);
        match self
            .shared
            .node
            .receive(&self.caller.tenant, queue, asked.receive, wait)
            .await
        {
            // A FIFO queue with all it may have in flight has nothing to give; a standard one says so.
            Err(NodeError::Engine(EngineError::TooMany { .. })) if target.is_fifo() => {
                Ok(Vec::new())
            }
            other => Ok(other?),
        }
    }

    /// A receive that may be asked again: the same messages under the same handles, for as long as none of them was
    /// deleted or changed. With them comes when they were first given out.
    async fn receive_attempt(
        &self,
        target: &Target,
        queue: QueueId,
        asked: &Asked,
        attempt: &str,
    ) -> Result<(Vec<Delivery>, Millis), Error> {
        let (node, attempts) = (&self.shared.node, &self.shared.attempts);
        if let Some((claims, at)) = attempts.recall(queue, attempt, node.now()) {
            return Ok((self.reissue(&claims, asked, attempt).await?, at));
        }
        let deliveries = self.receive_now(target, queue, asked).await?;
        let at = node.now();
        if !deliveries.is_empty() {
            let claims = deliveries.iter().map(|d| d.claim).collect();
            attempts.remember(queue, attempt, claims, at);
        }
        Ok((deliveries, at))
    }

    async fn reissue(
        &self,
        claims: &[Claim],
        asked: &Asked,
        attempt: &str,
    ) -> Result<Vec<Delivery>, Error> {
        let again = self.run(Room::Settlement, |tx| {
            Ok(tx.reissue(claims, asked.receive.lease))
        });
        again.await?.ok_or_else(|| {
            let reason = "The receiveRequestAttemptId is not valid anymore since the receive call is not retryable.";
            Error::invalid(attempt, "ReceiveRequestAttemptId", reason)
        })
    }

    /// A message as SQS shows it.
    fn shown(
        &self,
        target: &Target,
        asked: &Asked,
        (delivery, at): (&Delivery, Millis),
        message: &Message,
    ) -> Reply {
        let (body, mark) = sqs::read_body(message);
        let wanted = Wanted::new(&asked.attribute_names);
        let mut attributes: Vec<_> = message
            .attributes
            .iter()
            .chain(&mark)
            .filter(|a| wanted.has(&a.name))
            .collect();
        attributes.sort_by(|a, b| a.name.cmp(&b.name));
        let attributes_md5 = md5::of_attributes(attributes.iter().copied());
        let user = attributes
            .into_iter()
            .map(|a| (a.name.clone(), Value::Structure(attribute(a))));
        let handle = receipt::seal(
            self.shared.node.handle_key(),
            self.caller.tenant.id,
            &delivery.claim,
            at,
        );
        let system = system_attributes(target.is_fifo(), delivery, message);
        let is_wanted = |name: &str| asked.system_names.iter().any(|n| n == "All" || n == name);
        let system = system.into_iter().filter(|(name, _)| is_wanted(name));
        let system =
            system.filter_map(|(name, value)| Some((name.to_owned(), Value::Text(value?))));
        Reply::new()
            .text("MessageId", ids::text(message_id(delivery, message)))
            .text("ReceiptHandle", handle)
            .text("MD5OfBody", md5::of_text(&body))
            .text("Body", body)
            .named(
                "Attributes",
                "Attribute",
                Value::Map {
                    key: "Name",
                    entries: system.collect(),
                },
            )
            .maybe("MD5OfMessageAttributes", attributes_md5)
            .named(
                "MessageAttributes",
                "MessageAttribute",
                Value::Map {
                    key: "Name",
                    entries: user.collect(),
                },
            )
    }
}

/// A content that cannot be read is left out: its lease ends, and in the end it is dead-lettered like any message
/// that nobody can handle.
fn readable(content: Result<Bytes, NodeError>) -> Option<Message> {
    let content = content.inspect_err(|error| tracing::error!(%error, "a message cannot be read"));
    let message = content.ok().map(Message::decode)?;
    message
        .inspect_err(|error| tracing::error!(%error, "a message cannot be decoded"))
        .ok()
}

fn message_id(delivery: &Delivery, message: &Message) -> u128 {
    delivery
        .overlay
        .as_ref()
        .and_then(|overlay| overlay.id)
        .unwrap_or(message.id)
}

/// Every system attribute of a message, whether it has it or not.
fn system_attributes(
    fifo: bool,
    delivery: &Delivery,
    message: &Message,
) -> [(&'static str, Option<String>); 9] {
    let source = delivery
        .overlay
        .as_ref()
        .and_then(|overlay| overlay.dead_letter_source.clone());
    let dedup_id = match &source {
        // What died keeps its id apart from what is sent to the dead-letter queue.
        Some(_) => Some(ids::text(message_id(delivery, message))),
        None => message.dedup_id.clone(),
    };
    let group = message
        .group
        .clone()
        .or_else(|| delivery.group.as_deref().map(str::to_owned));
    [
        ("SenderId", message.sender.clone()),
        (
            "ApproximateFirstReceiveTimestamp",
            Some(delivery.first_delivered_at.0.to_string()),
        ),
        (
            "ApproximateReceiveCount",
            Some(delivery.claim.delivery.to_string()),
        ),
        ("SentTimestamp", Some(delivery.enqueued_at.0.to_string())),
        (
            "SequenceNumber",
            fifo.then(|| sequence_number(delivery.claim.seq)),
        ),
        ("MessageDeduplicationId", dedup_id.filter(|_| fifo)),
        ("MessageGroupId", group),
        ("AWSTraceHeader", message.trace_header.clone()),
        (
            "DeadLetterQueueSourceArn",
            source.as_deref().map(str::to_owned),
        ),
    ]
}

fn attribute(attribute: &Attribute) -> Reply {
    use base64::Engine as _;
    let value = match attribute.kind {
        ValueKind::Binary => {
            let encoded = base64::engine::general_purpose::STANDARD.encode(&attribute.value);
            Reply::new().text("BinaryValue", encoded)
        }
        _ => Reply::new().text("StringValue", String::from_utf8_lossy(&attribute.value)),
    };
    value.text("DataType", data_type(attribute))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use powerqueue_engine::{Content, Epoch, Overlay, Seq};
    use powerqueue_interop::{Body, Protocol};

    use super::*;
    use crate::wire::QueueUrl;

    fn request(max: Option<i64>, wait: Option<i64>) -> wire::Receive {
        wire::Receive {
            queue: QueueUrl("q".into()),
            system_names: Vec::new(),
            attribute_names: Vec::new(),
            max,
            visibility: None,
            wait,
            attempt: None,
        }
    }

    fn refusal(max: Option<i64>, wait: Option<i64>) -> String {
        Asked::read(request(max, wait), Millis::NEVER)
            .err()
            .unwrap()
            .text()
            .to_owned()
    }

    #[test]
    fn what_is_out_of_range_is_said_in_the_real_services_words() {
        assert_eq!(
            refusal(Some(11), None),
            "Value 11 for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided."
        );
        for secs in [21, -1] {
            let text = format!(
                "Value {secs} for parameter WaitTimeSeconds is invalid. Reason: Must be >= 0 and <= 20, if provided."
            );
            assert_eq!(refusal(None, Some(secs)), text);
        }
    }

    #[test]
    fn no_wait_is_the_queues_and_zero_is_none_at_all() {
        assert_eq!(
            Asked::read(request(None, None), Millis::NEVER)
                .unwrap()
                .wait,
            None
        );
        assert_eq!(
            Asked::read(request(None, Some(0)), Millis::NEVER)
                .unwrap()
                .wait,
            Some(Millis::ZERO)
        );
    }

    #[test]
    fn a_dead_letter_says_where_it_came_from_and_deduplicates_by_its_id() {
        let overlay = Overlay {
            dead_letter_source: Some(Arc::from("arn")),
            id: None,
        };
        let delivery = Delivery {
            claim: Claim {
                queue: QueueId(1),
                seq: Seq(1),
                delivery: 2,
                epoch: Epoch(1),
            },
            content: Content::Pinned(Bytes::new()),
            enqueued_at: Millis(5),
            expires_at: Millis::NEVER,
            first_delivered_at: Millis(6),
            leased_until: Millis(7),
            group: Some(Arc::from("g")),
            priority: 0,
            overlay: Some(Arc::new(overlay)),
        };
        let mut message = Message::new(Protocol::Sqs, 0x1234, Body::Text("b".into()));
        message.dedup_id = Some("d".into());
        let get = |fifo, name| {
            let found = system_attributes(fifo, &delivery, &message)
                .into_iter()
                .find(|(n, _)| *n == name);
            found.and_then(|(_, value)| value)
        };
        assert_eq!(
            get(true, "DeadLetterQueueSourceArn").as_deref(),
            Some("arn")
        );
        assert_eq!(get(true, "MessageDeduplicationId"), Some(ids::text(0x1234)));
        assert_eq!(get(false, "MessageDeduplicationId"), None);
        assert_eq!(get(true, "ApproximateReceiveCount").as_deref(), Some("2"));
        assert_eq!(get(true, "MessageGroupId").as_deref(), Some("g"));
    }
}

//! `SendMessage` and `SendMessageBatch`.

use std::sync::Arc;

use powerqueue_engine::{DedupKey, Millis, NewMessage, Sent};
use powerqueue_node::Room;

use crate::block::Block;
use crate::errors::{Error, Kind};
use crate::message::Checked;
use crate::service::{Session, Target, sequence_number};
use crate::wire::{Outgoing, QueueUrl, Reply, SendEntry};
use crate::{batch, ids};

const MAX_DELAY_SECS: i64 = 900;
const WRONG_TYPE: &str = "The request include parameter that is not valid for this queue type.";

/// A message and the delay that its sender wants.
type Delayed = (Checked, Option<Millis>);

impl Session<'_> {
    pub(crate) async fn send(&self, url: &QueueUrl, outgoing: Outgoing) -> Result<Reply, Error> {
        let target = self.target(url)?;
        let rules = Rules::of(&target, self.shared.node.now());
        rules.check_ids(&outgoing)?;
        let (checked, delay) = self.check(&rules, outgoing)?;
        if u64::from(checked.charge) > rules.max_bytes {
            return Err(Error::too_large(rules.max_bytes));
        }
        let message = rules.message(&checked, delay);
        let sent = self.run(Room::Growth(message.content.len()), |tx| {
            let queue = target.resolve(tx, self.caller)?;
            Ok(tx.send(queue, message)?)
        });
        let sent = sent.await?;
        self.shared.traffic.sent(1);
        Ok(rules.reply(&checked, &sent))
    }

    pub(crate) async fn send_batch(
        &self,
        url: &QueueUrl,
        entries: Vec<SendEntry>,
    ) -> Result<Reply, Error> {
        batch::check_ids(
            entries.iter().map(|e| e.id.as_str()),
            "SendMessageBatchRequestEntry",
        )?;
        let target = self.target(url)?;
        let rules = Rules::of(&target, self.shared.node.now());
        for entry in &entries {
            rules
                .check_ids(&entry.message)
                .map_err(as_invalid_parameter)?;
        }
        let checked = entries
            .into_iter()
            .map(|entry| (entry.id, self.check(&rules, entry.message)));
        let checked: Vec<_> = checked.collect();
        self.check_batch_size(&checked)?;
        let prepared: Vec<_> = checked
            .into_iter()
            .map(|(id, outcome)| {
                (
                    id,
                    outcome.and_then(|(checked, delay)| rules.fits(checked, delay)),
                )
            })
            .collect();
        let room = prepared
            .iter()
            .filter_map(|(_, p)| p.as_ref().ok())
            .map(|(_, m)| m.content.len())
            .sum();
        let outcomes = self.run(Room::Growth(room), |tx| {
            let queue = target.resolve(tx, self.caller)?;
            let sent = prepared.into_iter().map(|(id, prepared)| {
                let outcome = prepared.and_then(|(checked, message)| {
                    let sent = tx.send(queue, message)?;
                    Ok(rules.reply(&checked, &sent))
                });
                (id, outcome)
            });
            Ok(sent.collect::<Vec<_>>())
        });
        let outcomes = outcomes.await?;
        let accepted = outcomes.iter().filter(|(_, outcome)| outcome.is_ok());
        self.shared.traffic.sent(accepted.count());
        Ok(batch::reply("SendMessageBatchResultEntry", outcomes))
    }

    /// What can be checked of a message without its queue's state.
    fn check(&self, rules: &Rules, outgoing: Outgoing) -> Result<Delayed, Error> {
        let delay = rules.delay(outgoing.delay, self.shared.node.limits().lifetime)?;
        let checked = Checked::new(
            outgoing,
            ids::random(),
            &self.caller.account,
            self.trace,
            rules.fifo && rules.content_based,
        )?;
        Ok((checked, delay))
    }

    fn check_batch_size(&self, checked: &[(String, Result<Delayed, Error>)]) -> Result<(), Error> {
        let limit = self.shared.config.max_batch_bytes;
        let charges = checked
            .iter()
            .filter_map(|(_, c)| c.as_ref().ok())
            .map(|(c, _)| u64::from(c.charge));
        let sum: u64 = charges.sum();
        if sum > limit {
            let text = format!(
                "Batch requests cannot be longer than {limit} bytes. You have sent {sum} bytes."
            );
            return Err(Error::new(Kind::BatchRequestTooLong, text));
        }
        Ok(())
    }
}

/// A batch says of a missing group what a single send says, under another name.
fn as_invalid_parameter(error: Error) -> Error {
    match error.kind {
        Kind::MissingParameter => Error::new(Kind::InvalidParameterValue, error.text().to_owned()),
        _ => error,
    }
}

/// What a queue asks of a message.
struct Rules {
    fifo: bool,
    max_bytes: u64,
    content_based: bool,
    by_group: bool,
}

impl Rules {
    fn of(target: &Target, now: Millis) -> Self {
        let block = Block::of(&target.settings);
        Self {
            fifo: target.is_fifo(),
            max_bytes: target.settings.max_message_bytes.into(),
            content_based: block.content_based_deduplication,
            by_group: block.deduplicates_by_group(now),
        }
    }

    /// Group and deduplication id: whether they are there, and well formed.
    fn check_ids(&self, outgoing: &Outgoing) -> Result<(), Error> {
        if self.fifo && outgoing.group.is_none() {
            return Err(Error::missing("MessageGroupId"));
        }
        check_id(outgoing.group.as_deref(), "MessageGroupId")?;
        if let (false, Some(id)) = (self.fifo, &outgoing.dedup_id) {
            let reason = "The request includes a parameter that is not valid for this queue type.";
            let shown: String = id.chars().take(1024).collect();
            return Err(Error::invalid(shown, "MessageDeduplicationId", reason));
        }
        check_id(outgoing.dedup_id.as_deref(), "MessageDeduplicationId")?;
        if self.fifo && !self.content_based && outgoing.dedup_id.is_none() {
            let text = "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId \
                        provided explicitly";
            return Err(Error::new(Kind::InvalidParameterValue, text));
        }
        Ok(())
    }

    /// The delay of a message; `None` for its queue's. A FIFO queue delays its messages alike.
    fn delay(&self, asked: Option<i64>, cap: Millis) -> Result<Option<Millis>, Error> {
        let Some(secs) = asked else { return Ok(None) };
        if self.fifo {
            return if secs == 0 {
                Ok(None)
            } else {
                Err(Error::invalid(secs, "DelaySeconds", WRONG_TYPE))
            };
        }
        let span = u64::try_from(secs)
            .ok()
            .filter(|_| secs <= MAX_DELAY_SECS)
            .map(Millis::from_secs);
        let span = span.ok_or_else(|| {
            Error::invalid(
                secs,
                "DelaySeconds",
                "DelaySeconds must be >= 0 and <= 900.",
            )
        })?;
        if span > cap {
            let reason = format!("At most {} seconds are allowed here.", cap.as_secs());
            return Err(Error::invalid(secs, "DelaySeconds", &reason));
        }
        Ok(Some(span))
    }

    /// A message of a batch, if it is not above the queue's size.
    fn fits(
        &self,
        checked: Checked,
        delay: Option<Millis>,
    ) -> Result<(Checked, NewMessage), Error> {
        if u64::from(checked.charge) > self.max_bytes {
            let limit = self.max_bytes;
            let text = format!(
                "One or more parameters cannot be validated. Reason: Message must be shorter than {limit} bytes."
            );
            return Err(Error::new(Kind::InvalidParameterValue, text));
        }
        let message = self.message(&checked, delay);
        Ok((checked, message))
    }

    fn message(&self, checked: &Checked, delay: Option<Millis>) -> NewMessage {
        let message = &checked.message;
        let group = message.group.as_deref().filter(|_| self.fifo);
        let scope = group.filter(|_| self.by_group).unwrap_or("");
        NewMessage {
            content: message.encode(),
            id: message.id,
            charge: checked.charge,
            group: group.map(Arc::from),
            dedup: message
                .dedup_id
                .as_deref()
                .map(|id| DedupKey::new(scope, id)),
            delay,
            ttl: None,
            priority: 0,
        }
    }

    fn reply(&self, checked: &Checked, sent: &Sent) -> Reply {
        Reply::new()
            .text("MD5OfMessageBody", checked.body_md5.clone())
            .maybe("MD5OfMessageAttributes", checked.attributes_md5.clone())
            .maybe("MD5OfMessageSystemAttributes", checked.system_md5.clone())
            .text("MessageId", ids::text(sent.id))
            .maybe(
                "SequenceNumber",
                self.fifo.then(|| sequence_number(sent.seq)),
            )
    }
}

/// 1 to 128 letters, digits and punctuation marks.
pub(crate) fn check_id(id: Option<&str>, parameter: &str) -> Result<(), Error> {
    match id {
        Some(id) if !(1..=128).contains(&id.len()) || !id.bytes().all(|b| b.is_ascii_graphic()) => {
            let shown: String = id.chars().take(1024).collect();
            let reason = format!(
                "{parameter} can only include alphanumeric and punctuation characters. 1 to 128 in length."
            );
            Err(Error::invalid(shown, parameter, &reason))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIFO: Rules = Rules {
        fifo: true,
        max_bytes: 1024,
        content_based: false,
        by_group: false,
    };
    const STANDARD: Rules = Rules {
        fifo: false,
        ..FIFO
    };

    fn outgoing(group: Option<&str>, dedup_id: Option<&str>) -> Outgoing {
        Outgoing {
            body: "b".into(),
            delay: None,
            attributes: Default::default(),
            system_attributes: Default::default(),
            dedup_id: dedup_id.map(str::to_owned),
            group: group.map(str::to_owned),
        }
    }

    fn check(rules: &Rules, group: Option<&str>, dedup_id: Option<&str>) -> (&'static str, String) {
        let error = rules.check_ids(&outgoing(group, dedup_id)).unwrap_err();
        (error.row().code, error.text().to_owned())
    }

    #[test]
    fn a_fifo_queue_wants_a_group_and_a_deduplication_id() {
        let no_group = (
            "MissingParameter",
            "The request must contain the parameter MessageGroupId.".to_owned(),
        );
        assert_eq!(check(&FIFO, None, Some("d")), no_group);
        let no_dedup = check(&FIFO, Some("g"), None);
        assert_eq!(no_dedup.0, "InvalidParameterValue");
        assert!(
            no_dedup
                .1
                .starts_with("The queue should either have ContentBasedDeduplication enabled")
        );
        let content_based = Rules {
            content_based: true,
            ..FIFO
        };
        assert!(content_based.check_ids(&outgoing(Some("g"), None)).is_ok());
    }

    #[test]
    fn a_standard_queue_takes_a_group_and_no_deduplication_id() {
        assert!(STANDARD.check_ids(&outgoing(Some("g"), None)).is_ok());
        assert_eq!(check(&STANDARD, None, Some("d")).0, "InvalidParameterValue");
        for bad in ["", "group 123", &"a".repeat(129)] {
            let text = format!(
                "Value {bad} for parameter MessageGroupId is invalid. Reason: MessageGroupId can only include \
                 alphanumeric and punctuation characters. 1 to 128 in length."
            );
            assert_eq!(
                check(&STANDARD, Some(bad), None),
                ("InvalidParameterValue", text)
            );
        }
    }

    #[test]
    fn a_messages_delay_replaces_its_queues() {
        let delay = |rules: &Rules, secs| rules.delay(secs, Millis::NEVER);
        assert_eq!(delay(&STANDARD, None), Ok(None));
        assert_eq!(delay(&STANDARD, Some(0)), Ok(Some(Millis::ZERO)));
        assert_eq!(
            delay(&STANDARD, Some(900)),
            Ok(Some(Millis::from_secs(900)))
        );
        assert!(delay(&STANDARD, Some(901)).is_err() && delay(&STANDARD, Some(-1)).is_err());
        assert_eq!(delay(&FIFO, Some(0)), Ok(None));
        assert_eq!(
            delay(&FIFO, Some(2)).unwrap_err().text(),
            "Value 2 for parameter DelaySeconds is invalid. Reason: The request include parameter that is not valid \
             for this queue type."
        );
        assert!(STANDARD.delay(Some(61), Millis::from_secs(60)).is_err());
    }

    #[test]
    fn deduplication_is_by_content_and_by_group_where_the_queue_says_so() {
        let checked = |group: &str, by_content| {
            Checked::new(outgoing(Some(group), None), 1, "s", None, by_content).unwrap()
        };
        let key = |by_group, group: &str| {
            let rules = Rules {
                content_based: true,
                by_group,
                ..FIFO
            };
            rules.message(&checked(group, true), None).dedup.unwrap()
        };
        assert_eq!(key(false, "g1"), key(false, "g2"));
        assert_ne!(key(true, "g1"), key(true, "g2"));
        let standard = STANDARD.message(&checked("g", false), None);
        assert!(standard.dedup.is_none() && standard.group.is_none());
    }
}

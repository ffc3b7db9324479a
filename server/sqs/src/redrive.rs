//! `RedrivePolicy`: where a queue's dead messages go.

use powerqueue_engine::{DeadLetter, TenantId, Tx};
use serde_json::{Value, json};

use crate::address::Arn;
use crate::attributes::Draft;
use crate::block::Block;
use crate::errors::Error;
use crate::policy::allows_source;

/// The policy as it is shown.
pub fn show(draft: &Draft<'_>) -> Option<String> {
    let dead = draft.settings.dead_letter.as_ref()?;
    let given = draft.block.dead_letter_arn.as_ref().filter(|arn| {
        // Another protocol may have pointed the queue elsewhere since.
        Arn::parse(arn).is_some_and(|arn| arn.name == dead.queue)
    });
    let arn = given
        .cloned()
        .unwrap_or_else(|| draft.caller.queue_arn(&dead.queue));
    Some(json!({ "deadLetterTargetArn": arn, "maxReceiveCount": dead.max_deliveries }).to_string())
}

/// Sets the policy, or clears it.
pub fn set(draft: &mut Draft<'_>, policy: Option<&str>) -> Result<(), Error> {
    let Some(policy) = policy else {
        draft.settings.dead_letter = None;
        draft.block.dead_letter_arn = None;
        return Ok(());
    };
    let refused = |reason: &str| refused(policy, reason);
    let parsed: Value = serde_json::from_str(policy).unwrap_or_default();
    let fields = parsed
        .as_object()
        .ok_or_else(|| refused("Redrive policy is not a valid JSON map."))?;
    let mandatory = |name: &str| {
        let reason = format!("Redrive policy does not contain mandatory attribute: {name}.");
        fields.get(name).ok_or_else(|| refused(&reason))
    };
    let target = mandatory("deadLetterTargetArn")?;
    let count = mandatory("maxReceiveCount")?;
    let max_deliveries = receive_count(count).ok_or_else(|| {
        let shown = count.as_str().map_or_else(|| count.to_string(), str::to_owned);
        let reason =
            format!("Invalid value for maxReceiveCount: {shown}, valid values are from 1 to 1000 both inclusive.");
        refused(&reason)
    })?;
    let target = target.as_str().unwrap_or_default();
    let arn = Arn::parse(target)
        .ok_or_else(|| refused(&format!("Invalid value for deadLetterTargetArn: {target}.")))?;
    if !draft.caller.owns(&arn.account) {
        return Err(refused(
            "Dead letter target owner should be same as the source.",
        ));
    }
    draft.settings.dead_letter = Some(DeadLetter {
        queue: arn.name,
        max_deliveries,
        source: draft.caller.queue_arn(draft.name),
        restart_retention: draft.is_fifo(),
    });
    draft.block.dead_letter_arn = Some(target.to_owned());
    Ok(())
}

/// Whether the target is there and takes this source, asked in the transaction that sets the policy.
pub fn check_target(tx: &Tx<'_>, tenant: TenantId, draft: &Draft<'_>) -> Result<(), Error> {
    let Some(dead) = &draft.settings.dead_letter else {
        return Ok(());
    };
    if dead.queue == draft.name {
        return Ok(());
    }
    let refused = |reason: &str| refused(&show(draft).unwrap_or_default(), reason);
    let target = tx
        .find_queue(tenant, &dead.queue)
        .and_then(|id| tx.queue(tenant, id).ok());
    let target = target.ok_or_else(|| refused("Dead letter target does not exist."))?;
    if target.settings.groups.is_some() != draft.is_fifo() {
        return Err(refused(
            "Dead-letter queue must be same type of queue as the source.",
        ));
    }
    let policy = Block::of(&target.settings).redrive_allow_policy;
    if policy.is_some_and(|policy| !allows_source(&policy, &draft.caller.queue_arn(draft.name))) {
        return Err(refused(
            "The dead-letter queue's redrive allow policy does not allow this source queue.",
        ));
    }
    Ok(())
}

fn refused(policy: &str, reason: &str) -> Error {
    let shown: String = policy.chars().take(1024).collect();
    Error::invalid(shown, "RedrivePolicy", reason)
}

/// A count from 1 to 1000, as a number or as its digits.
fn receive_count(count: &Value) -> Option<u32> {
    let number = match count {
        Value::String(digits) => digits.parse().ok()?,
        other => other.as_u64()?,
    };
    u32::try_from(number)
        .ok()
        .filter(|n| (1..=1000).contains(n))
}

#[cfg(test)]
mod tests {
    use powerqueue_engine::Limits;

    use super::*;
    use crate::config::Config;
    use crate::identity::Caller;

    fn apply(policy: &str) -> Result<String, String> {
        let caller = Caller::for_tests();
        let mut draft = Draft::new(&caller, &Config::local(), &Limits::UNLIMITED, "q");
        set(&mut draft, Some(policy)).map_err(|e| e.text().to_owned())?;
        Ok(show(&draft).unwrap())
    }

    #[test]
    fn counts_are_numbers_or_digits_and_shown_as_numbers() {
        let shown = "{\"deadLetterTargetArn\":\"arn:aws:sqs:eu-west-1:000000000001:dlq\",\"maxReceiveCount\":42}";
        assert_eq!(apply(shown).as_deref(), Ok(shown));
        assert_eq!(apply(&shown.replace("42", "\"42\"")).as_deref(), Ok(shown));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let arn = "arn:aws:sqs:us-east-1:000000000001:dlq";
        for (policy, reason) in [
            ("x".to_owned(), "not a valid JSON map"),
            (format!("{{\"deadLetterTargetArn\":\"{arn}\"}}"), "mandatory attribute: maxReceiveCount"),
            ("{\"maxReceiveCount\":1}".into(), "mandatory attribute: deadLetterTargetArn"),
            (format!("{{\"deadLetterTargetArn\":\"{arn}\",\"maxReceiveCount\":0}}"), "from 1 to 1000"),
            (format!("{{\"deadLetterTargetArn\":\"{arn}\",\"maxReceiveCount\":\"invalid\"}}"), "from 1 to 1000"),
            (
                "{\"deadLetterTargetArn\":\"dummy\",\"maxReceiveCount\":1}".into(),
                "Invalid value for deadLetterTargetArn",
            ),
            (
                "{\"deadLetterTargetArn\":\"arn:aws:sqs:us-east-1:000000000002:d\",\"maxReceiveCount\":1}".into(),
                "owner should be same",
            ),
        ] {
            let text = apply(&policy).unwrap_err();
            assert!(text.contains(reason), "{text}");
        }
    }
}

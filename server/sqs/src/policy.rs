//! Policies: kept and shown, and, but for the one on dead-letter sources, enforced by nothing.

use serde_json::{Map, Value, json};

use crate::address::{Arn, partition};
use crate::errors::{Error, Kind};
use crate::identity::Caller;

/// SQS's own bound.
const MAX_POLICY_BYTES: usize = 64 << 10;
const MAX_SOURCES: usize = 10;
const MAX_ACTIONS: usize = 7;
const MAX_STATEMENTS: usize = 20;
const MAX_PRINCIPALS: usize = 50;

/// The actions that a permission may name.
const PERMITTED: [&str; 9] = [
    "*",
    "ChangeMessageVisibility",
    "DeleteMessage",
    "GetQueueAttributes",
    "GetQueueUrl",
    "ListDeadLetterSourceQueues",
    "PurgeQueue",
    "ReceiveMessage",
    "SendMessage",
];

/// A policy that may be kept: any JSON object.
pub fn check_policy(policy: &str) -> Result<String, Error> {
    let object = serde_json::from_str::<Value>(policy).is_ok_and(|v| v.is_object());
    if !object || policy.len() > MAX_POLICY_BYTES {
        return Err(Error::attribute("Policy"));
    }
    Ok(policy.to_owned())
}

/// A policy on who may use a queue for its dead messages.
pub fn check_redrive_allow_policy(policy: &str) -> Result<String, Error> {
    let parsed: Value = serde_json::from_str(policy).unwrap_or_default();
    let sources = parsed.get("sourceQueueArns").and_then(Value::as_array);
    let valid = match parsed.get("redrivePermission").and_then(Value::as_str) {
        Some("allowAll" | "denyAll") => sources.is_none(),
        Some("byQueue") => sources.is_some_and(|arns| {
            let is_arn = |arn: &Value| arn.as_str().and_then(Arn::parse).is_some();
            (1..=MAX_SOURCES).contains(&arns.len()) && arns.iter().all(is_arn)
        }),
        _ => false,
    };
    if valid {
        Ok(policy.to_owned())
    } else {
        Err(Error::attribute("RedriveAllowPolicy"))
    }
}

/// Whether such a policy lets that source in. Regions are labels and do not count.
pub fn allows_source(policy: &str, source: &str) -> bool {
    let parsed: Value = serde_json::from_str(policy).unwrap_or_default();
    match parsed.get("redrivePermission").and_then(Value::as_str) {
        Some("denyAll") => false,
        Some("byQueue") => {
            let name = Arn::parse(source).map(|arn| arn.name);
            let arns = parsed.get("sourceQueueArns").and_then(Value::as_array);
            let named = |arn: &Value| arn.as_str().and_then(Arn::parse).map(|arn| arn.name) == name;
            arns.is_some_and(|arns| arns.iter().any(named))
        }
        _ => true,
    }
}

/// A permission to add to a policy.
pub struct Permission<'a> {
    /// Its label.
    pub label: &'a str,
    /// The accounts.
    pub accounts: &'a [String],
    /// The actions.
    pub actions: &'a [String],
}

impl Permission<'_> {
    /// Checks what needs no queue.
    pub fn check(&self) -> Result<(), Error> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        if !(1..=80).contains(&self.label.len()) || !self.label.bytes().all(allowed) {
            let reason = "A label can only contain alphanumeric characters, hyphens, and underscores. 1 to 80 in length.";
            return Err(Error::invalid(
                self.label.chars().take(100).collect::<String>(),
                "Label",
                reason,
            ));
        }
        if self.accounts.is_empty() {
            return Err(Error::missing("PrincipalId"));
        }
        if self.actions.is_empty() {
            return Err(Error::missing("Actions"));
        }
        if self.actions.len() > MAX_ACTIONS {
            let text = format!(
                "{} Actions were found, maximum allowed is {MAX_ACTIONS}.",
                self.actions.len()
            );
            return Err(Error::new(Kind::OverLimit, text));
        }
        if self.accounts.len() > MAX_PRINCIPALS {
            return Err(Error::new(
                Kind::OverLimit,
                format!("At most {MAX_PRINCIPALS} principals are allowed."),
            ));
        }
        if let Some(action) = self
            .actions
            .iter()
            .find(|a| !PERMITTED.contains(&a.as_str()))
        {
            let shown: String = action.chars().take(100).collect();
            let reason = "Please refer to the appropriate WSDL for a list of valid actions. ";
            return Err(Error::invalid(format!("SQS:{shown}"), "ActionName", reason));
        }
        if let Some(account) = self
            .accounts
            .iter()
            .find(|a| a.len() != 12 || !a.bytes().all(|b| b.is_ascii_digit()))
        {
            let shown: String = account.chars().take(100).collect();
            return Err(Error::invalid(shown, "PrincipalId", "Unable to verify."));
        }
        Ok(())
    }

    /// The policy with the permission in it.
    pub fn add(&self, policy: Option<&str>, caller: &Caller, queue: &str) -> Result<String, Error> {
        let arn = caller.queue_arn(queue);
        let mut document = parse(policy).unwrap_or_else(|| {
            let id = format!("{arn}/SQSDefaultPolicy");
            Map::from_iter([
                ("Version".into(), json!("2008-10-17")),
                ("Id".into(), json!(id)),
            ])
        });
        let mut statements = statements(&mut document);
        if statements.iter().any(|s| has_label(s, self.label)) {
            return Err(Error::invalid(self.label, "Label", "Already exists."));
        }
        if statements.len() >= MAX_STATEMENTS {
            return Err(Error::new(
                Kind::OverLimit,
                format!("At most {MAX_STATEMENTS} statements are allowed."),
            ));
        }
        let principals = self
            .accounts
            .iter()
            .map(|account| format!("arn:{}:iam::{account}:root", partition(&caller.region)));
        statements.push(json!({
            "Sid": self.label,
            "Effect": "Allow",
            "Principal": { "AWS": one_or_many(principals) },
            "Action": one_or_many(self.actions.iter().map(|action| format!("SQS:{action}"))),
            "Resource": arn,
        }));
        Ok(finish(document, statements))
    }
}

/// The policy without the permission of that label; `None` if nothing is left.
pub fn remove(policy: Option<&str>, label: &str) -> Result<Option<String>, Error> {
    let mut document = parse(policy).unwrap_or_default();
    let mut statements = statements(&mut document);
    let before = statements.len();
    statements.retain(|s| !has_label(s, label));
    if statements.len() == before {
        let shown: String = label.chars().take(100).collect();
        return Err(Error::invalid(shown, "Label", "can't find label."));
    }
    Ok((!statements.is_empty()).then(|| finish(document, statements)))
}

/// The statements of a policy; a lone one becomes a list.
fn statements(policy: &mut Map<String, Value>) -> Vec<Value> {
    match policy.remove("Statement") {
        Some(Value::Array(statements)) => statements,
        Some(lone @ Value::Object(_)) => vec![lone],
        _ => Vec::new(),
    }
}

fn parse(policy: Option<&str>) -> Option<Map<String, Value>> {
    policy.and_then(|text| serde_json::from_str(text).ok())
}

fn finish(mut policy: Map<String, Value>, statements: Vec<Value>) -> String {
    policy.insert("Statement".into(), Value::Array(statements));
    Value::Object(policy).to_string()
}

fn has_label(statement: &Value, label: &str) -> bool {
    statement.get("Sid").and_then(Value::as_str) == Some(label)
}

fn one_or_many(items: impl Iterator<Item = String>) -> Value {
    let mut items: Vec<_> = items.map(Value::String).collect();
    if items.len() == 1 {
        items.remove(0)
    } else {
        Value::Array(items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(items: &[&str]) -> Vec<String> {
        items.iter().map(|i| (*i).to_owned()).collect()
    }

    #[test]
    fn permissions_come_and_go() {
        let caller = Caller::for_tests();
        let (both, one) = (
            strings(&["000000000001", "668614515564"]),
            strings(&["000000000001"]),
        );
        let actions = strings(&["ReceiveMessage"]);
        let first = Permission {
            label: "first",
            accounts: &both,
            actions: &actions,
        };
        let second = Permission {
            label: "second",
            accounts: &one,
            actions: &actions,
        };
        let policy = first.add(None, &caller, "q").unwrap();
        let arn = "arn:aws:sqs:us-east-1:000000000001:q";
        let expected = json!({
            "Version": "2008-10-17",
            "Id": format!("{arn}/SQSDefaultPolicy"),
            "Statement": [{
                "Sid": "first",
                "Effect": "Allow",
                "Principal": { "AWS": ["arn:aws:iam::000000000001:root", "arn:aws:iam::668614515564:root"] },
                "Action": "SQS:ReceiveMessage",
                "Resource": arn,
            }],
        });
        assert_eq!(serde_json::from_str::<Value>(&policy).unwrap(), expected);
        let again = first.add(Some(&policy), &caller, "q").unwrap_err();
        assert_eq!(
            again.text(),
            "Value first for parameter Label is invalid. Reason: Already exists."
        );
        let policy = second.add(Some(&policy), &caller, "q").unwrap();
        assert!(policy.contains("\"AWS\":\"arn:aws:iam::000000000001:root\""));
        let policy = remove(Some(&policy), "first").unwrap();
        assert_eq!(remove(policy.as_deref(), "second").unwrap(), None);
        let unknown = remove(policy.as_deref(), "first").unwrap_err();
        assert_eq!(
            unknown.text(),
            "Value first for parameter Label is invalid. Reason: can't find label."
        );
        assert!(remove(None, "x").is_err());
    }

    #[test]
    fn a_policy_of_any_shape_is_survived() {
        for policy in [
            "{}",
            "{\"Statement\":{\"Sid\":\"x\"}}",
            "{\"Statement\":7}",
            "[]",
            "nonsense",
        ] {
            assert!(remove(Some(policy), "y").is_err());
        }
        assert_eq!(
            remove(Some("{\"Statement\":{\"Sid\":\"x\"}}"), "x").unwrap(),
            None
        );
    }

    #[test]
    fn dead_letter_sources_are_let_in_by_name() {
        let by_queue = "{\"redrivePermission\":\"byQueue\",\"sourceQueueArns\":[\"arn:aws:sqs:r:000000000001:a\"]}";
        assert!(check_redrive_allow_policy(by_queue).is_ok());
        assert!(allows_source(by_queue, "arn:aws:sqs:r2:000000000001:a"));
        assert!(!allows_source(by_queue, "arn:aws:sqs:r:000000000001:b"));
        assert!(!allows_source(
            "{\"redrivePermission\":\"denyAll\"}",
            "arn:aws:sqs:r:000000000001:a"
        ));
        for bad in [
            "x",
            "{}",
            "{\"redrivePermission\":\"byQueue\"}",
            "{\"redrivePermission\":\"byQueue\",\"sourceQueueArns\":[\"a\"]}",
        ] {
            assert!(check_redrive_allow_policy(bad).is_err(), "{bad}");
        }
    }
}

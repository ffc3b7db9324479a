//! What the three batch actions share: the rules on entries and the shape of the answer.

use std::collections::HashSet;

use crate::errors::{Error, Fault, Kind};
use crate::wire::{Reply, Value};

const MAX_ENTRIES: usize = 10;
const MAX_ID_BYTES: usize = 80;

/// Checks the ids of a batch. `entry` is what AWS calls an entry of it.
pub(crate) fn check_ids<'a>(
    ids: impl ExactSizeIterator<Item = &'a str>,
    entry: &str,
) -> Result<(), Error> {
    let count = ids.len();
    if count == 0 {
        let text = format!("There should be at least one {entry} in the request.");
        return Err(Error::new(Kind::EmptyBatchRequest, text));
    }
    if count > MAX_ENTRIES {
        let text = format!(
            "Maximum number of entries per request are {MAX_ENTRIES}. You have sent {count}."
        );
        return Err(Error::new(Kind::TooManyEntriesInBatchRequest, text));
    }
    let mut seen = HashSet::new();
    for id in ids {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        if !(1..=MAX_ID_BYTES).contains(&id.len()) || !id.bytes().all(allowed) {
            return Err(Error::of(Kind::InvalidBatchEntryId));
        }
        if !seen.insert(id) {
            return Err(Error::new(
                Kind::BatchEntryIdsNotDistinct,
                format!("Id {id} repeated."),
            ));
        }
    }
    Ok(())
}

/// The answer of a batch: what was done and what was not, each in the order of the request.
pub(crate) fn reply(
    result_entry: &'static str,
    outcomes: impl IntoIterator<Item = (String, Result<Reply, Error>)>,
) -> Reply {
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for (id, outcome) in outcomes {
        match outcome {
            Ok(more) => {
                let mut entry = Reply::new().text("Id", id);
                entry.fields.extend(more.fields);
                done.push(Value::Structure(entry));
            }
            Err(error) => failed.push(Value::Structure(failure(id, &error))),
        }
    }
    Reply::new()
        .named("Successful", result_entry, Value::List(done))
        .named("Failed", "BatchResultErrorEntry", Value::List(failed))
}

fn failure(id: String, error: &Error) -> Reply {
    Reply::new()
        .text("Id", id)
        .with(
            "SenderFault",
            Value::Flag(error.row().fault == Fault::Sender),
        )
        .text("Code", error.row().code)
        .text("Message", error.query_text())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ids: &[&str]) -> Result<(), Error> {
        check_ids(ids.iter().copied(), "SendMessageBatchRequestEntry")
    }

    #[test]
    fn each_rule_on_ids_has_its_own_error() {
        assert_eq!(check(&["a", "B-_9"]), Ok(()));
        let empty = check(&[]).unwrap_err();
        assert_eq!(
            empty.text(),
            "There should be at least one SendMessageBatchRequestEntry in the request."
        );
        let many = check(&["x"; 20]).unwrap_err();
        assert_eq!(
            many.text(),
            "Maximum number of entries per request are 10. You have sent 20."
        );
        for id in ["", "invalid:id", &"a".repeat(81)] {
            assert_eq!(
                check(&[id]).unwrap_err(),
                Error::of(Kind::InvalidBatchEntryId)
            );
        }
        assert_eq!(
            check(&["a", "a"]).unwrap_err().kind,
            Kind::BatchEntryIdsNotDistinct
        );
    }
}

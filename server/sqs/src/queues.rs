//! Making, finding, listing and deleting queues.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use powerqueue_engine::{Origin, Tx};
use powerqueue_node::Room;

use crate::address::{is_fifo, is_queue_name};
use crate::attributes::Draft;
use crate::errors::{Error, Kind};
use crate::service::Session;
use crate::tags::check_tags;
use crate::wire::{Page, QueueUrl, Reply, Value};
use crate::{move_task, redrive};

/// The most that a page holds.
const MAX_PAGE: usize = 1000;
/// The list of dead-letter sources, which the service's model spells in lower case and has in every answer.
pub(crate) const SOURCES: &str = "queueUrls";
/// More than any queue's name has.
const MAX_TOKEN_BYTES: usize = 1024;
/// How many names are looked at under one hold of the lock.
const SLICE: usize = 500;

impl Session<'_> {
    pub(crate) async fn create_queue(
        &self,
        name: &str,
        attributes: &BTreeMap<String, String>,
        tags: BTreeMap<String, String>,
    ) -> Result<Reply, Error> {
        check_name(name, attributes)?;
        let mut draft = self.draft_new(name);
        draft.set(attributes)?;
        check_tags(&tags, name)?;
        draft.block.tags = tags;
        let tenant = self.caller.tenant.id;
        let made = self.run(Room::Growth(4096), |tx| match tx.find_queue(tenant, name) {
            Some(id) => {
                let view = tx.queue(tenant, id)?;
                let mut there = self.draft_of(name, &view.settings);
                if view.origin == Origin::Explicit {
                    return same_where_asked(&draft, &there, attributes);
                }
                // What use had made becomes what is asked for.
                there.set(attributes)?;
                redrive::check_target(tx, tenant, &there)?;
                there.block.tags = draft.block.tags;
                tx.update_queue(id, there.into_settings())?;
                Ok(tx.adopt_queue(id)?)
            }
            None => {
                redrive::check_target(tx, tenant, &draft)?;
                tx.create_queue(tenant, name, draft.into_settings(), Origin::Explicit)?;
                Ok(())
            }
        });
        made.await?;
        Ok(self.queue_url_reply(name))
    }

    pub(crate) async fn delete_queue(&self, url: &QueueUrl) -> Result<Reply, Error> {
        let (id, tenant) = (self.queue(url)?.id, self.caller.tenant.id);
        let tombstone = self.shared.config.tombstone;
        let deleted = self.run(Room::Settlement, |tx| {
            tx.delete_queue(id, tombstone)?;
            move_task::forget(tx, tenant, id)?;
            Ok(Reply::done())
        });
        deleted.await
    }

    pub(crate) async fn get_queue_url(
        &self,
        name: String,
        owner: Option<&str>,
    ) -> Result<Reply, Error> {
        if owner.is_some_and(|owner| !self.caller.owns(owner)) {
            return Err(Error::of(Kind::QueueDoesNotExist));
        }
        let target = self.target_named(name)?;
        self.ensure(&target).await?;
        Ok(self.queue_url_reply(&target.name))
    }

    pub(crate) fn list_queues(&self, prefix: &str, page: &Page) -> Result<Reply, Error> {
        let page = PageRequest::read(page)?;
        let found = self.names(prefix, page.after.as_deref(), page.size + 1, |_, _| true);
        Ok(page.reply("QueueUrls", found, |name| self.caller.queue_url(name)))
    }

    fn queue_url_reply(&self, name: &str) -> Reply {
        Reply::new().text("QueueUrl", self.caller.queue_url(name))
    }

    /// Up to `limit` queue names after `after` of which `wanted` holds, looked up in slices.
    pub(crate) fn names(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        mut wanted: impl FnMut(&Tx<'_>, &str) -> bool,
    ) -> Vec<Arc<str>> {
        let tenant = self.caller.tenant.id;
        let mut found = Vec::new();
        let mut after = after.map(Arc::<str>::from);
        loop {
            let slice = self.view(|tx| {
                let names = tx.queue_names(tenant, prefix, after.as_deref(), SLICE);
                let shown = |name: &&Arc<str>| is_spellable(name) && wanted(tx, name);
                found.extend(
                    names
                        .iter()
                        .filter(shown)
                        .take(limit - found.len())
                        .cloned(),
                );
                names
            });
            after = slice.last().cloned();
            if slice.len() < SLICE || found.len() == limit {
                return found;
            }
        }
    }
}

/// Sub-queues of other protocols have names that no client can spell.
fn is_spellable(name: &str) -> bool {
    !name.chars().any(char::is_control)
}

fn check_name(name: &str, attributes: &BTreeMap<String, String>) -> Result<(), Error> {
    let wants_fifo = attributes
        .get("FifoQueue")
        .is_some_and(|v| v.eq_ignore_ascii_case("true"));
    let text = match (wants_fifo, is_fifo(name), is_queue_name(name)) {
        (true, true, true) | (false, false, true) => return Ok(()),
        (true, ..) => {
            "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, must end with \
             .fifo suffix and be 1 to 80 in length."
        }
        (false, ..) => {
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
        }
    };
    Err(Error::new(Kind::InvalidParameterValue, text))
}

/// A queue that is there is the one that was asked for, if it has the attributes that the request names.
fn same_where_asked(
    asked: &Draft<'_>,
    there: &Draft<'_>,
    attributes: &BTreeMap<String, String>,
) -> Result<(), Error> {
    match asked.difference(there, attributes) {
        None => Ok(()),
        Some(name) => {
            let text = format!(
                "A queue already exists with the same name and a different value for attribute {name}"
            );
            Err(Error::new(Kind::QueueNameExists, text))
        }
    }
}

/// A page of a list, as asked for.
#[derive(Debug)]
pub(crate) struct PageRequest {
    pub size: usize,
    pub after: Option<String>,
    has_size: bool,
}

impl PageRequest {
    pub fn read(page: &Page) -> Result<Self, Error> {
        let size = match page.max {
            None => MAX_PAGE,
            Some(max) => usize::try_from(max)
                .ok()
                .filter(|n| (1..=MAX_PAGE).contains(n))
                .ok_or_else(|| {
                    Error::invalid(
                        max,
                        "MaxResults",
                        "MaxResults must be an integer between 1 and 1000.",
                    )
                })?,
        };
        let decoded = page.token.as_ref().map(|token| {
            let name = URL_SAFE_NO_PAD
                .decode(token)
                .ok()
                .and_then(|bytes| String::from_utf8(bytes).ok())
                .filter(|name| name.len() <= MAX_TOKEN_BYTES && is_spellable(name));
            name.ok_or(Error::new(
                Kind::InvalidParameterValue,
                "Invalid or expired next token.",
            ))
        });
        Ok(Self {
            size,
            after: decoded.transpose()?,
            has_size: page.max.is_some(),
        })
    }

    /// The page, from one name more than it holds, and the token of the next one, which only a request with a size
    /// gets.
    pub fn reply(
        &self,
        field: &'static str,
        mut names: Vec<Arc<str>>,
        url: impl Fn(&str) -> String,
    ) -> Reply {
        let more = names.len() > self.size;
        names.truncate(self.size);
        let next = names
            .last()
            .filter(|_| more && self.has_size)
            .map(|name| URL_SAFE_NO_PAD.encode(&**name));
        let urls = names.iter().map(|name| Value::Text(url(name))).collect();
        let reply = Reply::new().named(field, "QueueUrl", Value::List(urls));
        let reply = if field == SOURCES {
            reply.required()
        } else {
            reply
        };
        reply.maybe("NextToken", next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_names_and_nothing_else() {
        let read = |token: String| {
            PageRequest::read(&Page {
                max: Some(1),
                token: Some(token),
            })
        };
        let after = read(URL_SAFE_NO_PAD.encode("a.fifo")).unwrap().after;
        assert_eq!(after.as_deref(), Some("a.fifo"));
        for bad in ["%".to_owned(), "AAAA".to_owned(), "YWFh".repeat(400)] {
            assert!(read(bad).is_err());
        }
    }

    #[test]
    fn fifo_names_and_the_fifo_attribute_go_together() {
        let fifo = |v: &str| BTreeMap::from([("FifoQueue".to_owned(), v.to_owned())]);
        assert!(check_name("q", &BTreeMap::new()).is_ok());
        assert!(check_name("q", &fifo("false")).is_ok());
        assert!(check_name("q.fifo", &fifo("True")).is_ok());
        for (name, attributes) in [
            ("q", fifo("true")),
            ("q.fifo", BTreeMap::new()),
            ("q.fifo", fifo("false")),
            ("a/b", BTreeMap::new()),
        ] {
            assert_eq!(
                check_name(name, &attributes).unwrap_err().kind,
                Kind::InvalidParameterValue
            );
        }
    }

    #[test]
    fn pages_hand_out_a_token_only_to_who_asked_for_a_size() {
        let names: Vec<Arc<str>> = ["a", "b", "c"].map(Arc::from).to_vec();
        let page = PageRequest::read(&Page {
            max: Some(2),
            token: None,
        })
        .unwrap();
        let reply = page.reply("QueueUrls", names.clone(), str::to_owned);
        let Some(Value::Text(token)) = reply.fields.get(1).map(|f| f.value.clone()) else {
            panic!("no token")
        };
        let next = PageRequest::read(&Page {
            max: Some(2),
            token: Some(token),
        })
        .unwrap();
        assert_eq!(next.after.as_deref(), Some("b"));
        assert_eq!(
            next.reply("QueueUrls", names[2..].to_vec(), str::to_owned)
                .fields
                .len(),
            1
        );
        for bad in [
            Page {
                max: Some(0),
                token: None,
            },
            Page {
                max: Some(1001),
                token: None,
            },
        ] {
            assert!(PageRequest::read(&bad).is_err());
        }
        assert!(
            PageRequest::read(&Page {
                max: None,
                token: Some("%".into())
            })
            .is_err()
        );
    }
}

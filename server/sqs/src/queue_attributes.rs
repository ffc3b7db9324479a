//! `GetQueueAttributes` and `SetQueueAttributes`.

use std::collections::BTreeMap;

use powerqueue_engine::QueueView;

use crate::attributes::{names, unknown};
use crate::errors::Error;
use crate::redrive;
use crate::service::Session;
use crate::wire::{QueueUrl, Reply, Value};

/// An attribute that is computed, not set.
struct Computed {
    name: &'static str,
    value: fn(&Session<'_>, &QueueView) -> String,
}

const COMPUTED: &[Computed] = &[
    Computed {
        name: "QueueArn",
        value: |s, q| s.caller.queue_arn(&q.name),
    },
    Computed {
        name: "ApproximateNumberOfMessages",
        value: |_, q| q.ready.to_string(),
    },
    Computed {
        name: "ApproximateNumberOfMessagesNotVisible",
        value: |_, q| q.leased.to_string(),
    },
    Computed {
        name: "ApproximateNumberOfMessagesDelayed",
        value: |_, q| q.delayed.to_string(),
    },
    Computed {
        name: "CreatedTimestamp",
        value: |_, q| q.created_at.as_secs().to_string(),
    },
    Computed {
        name: "LastModifiedTimestamp",
        value: |_, q| q.modified_at.as_secs().to_string(),
    },
];

impl Session<'_> {
    pub(crate) fn get_queue_attributes(
        &self,
        url: &QueueUrl,
        wanted: &[String],
    ) -> Result<Reply, Error> {
        let queue = self.queue(url)?;
        let known = || COMPUTED.iter().map(|c| c.name).chain(names());
        if let Some(name) = wanted
            .iter()
            .find(|w| *w != "All" && !known().any(|name| name == *w))
        {
            return Err(unknown(name));
        }
        let is_wanted = |name: &str| wanted.iter().any(|w| w == "All" || w == name);
        let draft = self.draft_of(&queue.name, &queue.settings);
        let computed = COMPUTED
            .iter()
            .map(|c| (c.name, Some((c.value)(self, &queue))));
        let set = names().map(|name| (name, draft.get(name)));
        let shown = computed.chain(set).filter(|(name, _)| is_wanted(name));
        let entries = shown
            .filter_map(|(name, value)| Some((name.to_owned(), Value::Text(value?))))
            .collect();
        Ok(Reply::new().named(
            "Attributes",
            "Attribute",
            Value::Map {
                key: "Name",
                entries,
            },
        ))
    }

    pub(crate) async fn set_queue_attributes(
        &self,
        url: &QueueUrl,
        attributes: &BTreeMap<String, String>,
    ) -> Result<Reply, Error> {
        let tenant = self.caller.tenant.id;
        let set = self.edit(url, |tx, draft| {
            draft.set(attributes)?;
            if attributes.contains_key("RedrivePolicy") {
                redrive::check_target(tx, tenant, draft)?;
            }
            Ok(())
        });
        set.await
    }
}

//! A queue's tags.

use std::collections::BTreeMap;

use crate::block::Block;
use crate::errors::{Error, Kind};
use crate::service::Session;
use crate::wire::{QueueUrl, Reply, Value};

const MAX_TAGS: usize = 50;
const MAX_KEY_CHARS: usize = 128;
const MAX_VALUE_CHARS: usize = 256;

/// Whether a queue may have these tags.
pub(crate) fn check_tags(tags: &BTreeMap<String, String>, queue: &str) -> Result<(), Error> {
    let refused = |text: String| Err(Error::new(Kind::InvalidParameterValue, text));
    if tags.len() > MAX_TAGS {
        return refused(format!("Too many tags added for queue {queue}."));
    }
    for (key, value) in tags {
        if !(1..=MAX_KEY_CHARS).contains(&key.chars().count()) {
            return refused("Tag keys must be between 1 and 128 characters in length.".into());
        }
        if value.chars().count() > MAX_VALUE_CHARS {
            return refused("Tag values must be between 0 and 256 characters in length.".into());
        }
        if key.to_lowercase().starts_with("aws:") {
            return refused("Tag keys cannot start with reserved prefixes such as aws:.".into());
        }
    }
    Ok(())
}

impl Session<'_> {
    pub(crate) fn list_queue_tags(&self, url: &QueueUrl) -> Result<Reply, Error> {
        let tags = Block::of(&self.queue(url)?.settings).tags;
        let entries = tags
            .into_iter()
            .map(|(key, value)| (key, Value::Text(value)))
            .collect();
        Ok(Reply::new().named(
            "Tags",
            "Tag",
            Value::Map {
                key: "Key",
                entries,
            },
        ))
    }

    pub(crate) async fn tag_queue(
        &self,
        url: &QueueUrl,
        tags: BTreeMap<String, String>,
    ) -> Result<Reply, Error> {
        let tagged = self.edit(url, |_, draft| {
            draft.block.tags.extend(tags);
            check_tags(&draft.block.tags, draft.name)
        });
        tagged.await
    }

    pub(crate) async fn untag_queue(
        &self,
        url: &QueueUrl,
        keys: &[String],
    ) -> Result<Reply, Error> {
        let untagged = self.edit(url, |_, draft| {
            draft.block.tags.retain(|key, _| !keys.contains(key));
            Ok(())
        });
        untagged.await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_bounded() {
        let tags = |n: usize| (0..n).map(|i| (i.to_string(), String::new())).collect();
        assert!(check_tags(&tags(50), "q").is_ok());
        assert!(check_tags(&tags(51), "q").is_err());
        for (key, value) in [
            ("", "v"),
            (&*"k".repeat(129), "v"),
            ("k", &*"v".repeat(257)),
            ("AWS:k", "v"),
        ] {
            assert!(
                check_tags(&BTreeMap::from([(key.to_owned(), value.to_owned())]), "q").is_err()
            );
        }
    }
}

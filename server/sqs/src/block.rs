//! What only SQS knows of a queue, serialised in the queue's settings beside the blocks of other protocols.

use std::collections::BTreeMap;

use powerqueue_engine::{Millis, QueueSettings};
use powerqueue_interop::{Protocol, blocks};
use serde::{Deserialize, Serialize};

/// How long a changed attribute takes to apply.
const PROPAGATION: Millis = Millis::from_secs(60);

/// SQS's own settings of a queue. The default is that of a queue which another protocol or mere use made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct Block {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redrive_allow_policy: Option<String>,
    /// The dead-letter queue's ARN as it was given, with its region.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_letter_arn: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kms_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kms_reuse_secs: Option<u64>,
    #[serde(skip_serializing_if = "is_false")]
    pub managed_sse_off: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub content_based_deduplication: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub deduplicate_by_group: bool,
    /// From when on the scope above applies, in milliseconds; until then the other one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope_from: Option<u64>,
    #[serde(skip_serializing_if = "is_false")]
    pub throughput_by_group: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_false(flag: &bool) -> bool {
    !*flag
}

impl Block {
    /// The block of a queue. One that cannot be read counts as none: the queue stays usable.
    pub fn of(settings: &QueueSettings) -> Self {
        let stored = blocks::get(&settings.protocol, Protocol::Sqs);
        stored
            .and_then(|block| serde_json::from_slice(&block).ok())
            .unwrap_or_default()
    }

    /// Whether each group deduplicates by itself at that time.
    pub fn deduplicates_by_group(&self, now: Millis) -> bool {
        let applies = self.scope_from.is_none_or(|from| from <= now.0);
        self.deduplicate_by_group == applies
    }

    /// Changes the scope of deduplication of a queue that is in use. The real service takes up to a minute to apply a
    /// changed attribute, and what is sent meanwhile is deduplicated as before; recorded tests rely on it.
    pub fn set_deduplicate_by_group(&mut self, by_group: bool, now: Millis) {
        if by_group != self.deduplicate_by_group {
            self.deduplicate_by_group = by_group;
            self.scope_from = Some(now.plus(PROPAGATION).0);
        }
    }

    /// Puts the block into the settings, beside those of other protocols.
    pub fn store(&self, settings: &mut QueueSettings) {
        let block = if *self == Self::default() {
            Vec::new()
        } else {
            serde_json::to_vec(self).unwrap_or_default()
        };
        settings.protocol = blocks::set(&settings.protocol, Protocol::Sqs, &block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_comes_back_and_the_default_takes_no_room() {
        let mut settings = QueueSettings::default();
        Block::default().store(&mut settings);
        assert!(settings.protocol.is_empty());
        let block = Block {
            kms_key: Some("k".into()),
            deduplicate_by_group: true,
            ..Block::default()
        };
        block.store(&mut settings);
        assert_eq!(Block::of(&settings), block);
    }

    #[test]
    fn a_changed_scope_applies_after_a_minute() {
        let mut block = Block::default();
        block.set_deduplicate_by_group(true, Millis(1000));
        assert!(
            !block.deduplicates_by_group(Millis(60_999))
                && block.deduplicates_by_group(Millis(61_000))
        );
        let new = Block {
            deduplicate_by_group: true,
            ..Block::default()
        };
        assert!(new.deduplicates_by_group(Millis(0)));
    }

    #[test]
    fn another_protocols_block_is_neither_read_nor_lost() {
        let foreign = blocks::set(&[], Protocol::AzureQueue, b"\x00\xff");
        let mut settings = QueueSettings {
            protocol: foreign,
            ..QueueSettings::default()
        };
        assert_eq!(Block::of(&settings), Block::default());
        Block {
            managed_sse_off: true,
            ..Block::default()
        }
        .store(&mut settings);
        assert_eq!(
            blocks::get(&settings.protocol, Protocol::AzureQueue).as_deref(),
            Some(&b"\x00\xff"[..])
        );
        settings.protocol = b"no blocks at all".to_vec();
        assert_eq!(Block::of(&settings), Block::default());
    }
}

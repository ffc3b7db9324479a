//! The table of attributes: names, ranges, which queues have them and where each is kept.

use powerqueue_engine::{Dedup, Millis};

use super::{Draft, unknown};
use crate::errors::{Error, Kind};
use crate::policy::{check_policy, check_redrive_allow_policy};
use crate::redrive;

/// The real service's window of deduplication.
const DEDUP_WINDOW_SECS: u64 = 300;

/// An attribute that can be set.
pub(super) struct Attribute {
    pub name: &'static str,
    on: QueueType,
    pub kind: Shape,
}

/// Which queues have it, and what is said of it on the others.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum QueueType {
    Any,
    Fifo,
    /// Named by its own words on a standard queue.
    FifoOnly,
}

/// What its values are, and where they are kept.
pub(super) enum Shape {
    /// A whole number within a range.
    Number {
        range: (u64, u64),
        get: fn(&Draft<'_>) -> Option<u64>,
        set: fn(&mut Draft<'_>, u64) -> Result<(), Error>,
    },
    /// `true` or `false`, in any case.
    Flag {
        get: fn(&Draft<'_>) -> bool,
        set: fn(&mut Draft<'_>, bool) -> Result<(), Error>,
    },
    /// Off by default, with the names of off and on.
    Choice {
        names: [&'static str; 2],
        get: fn(&Draft<'_>) -> bool,
        set: fn(&mut Draft<'_>, bool),
    },
    /// Text that is checked when it is set; an empty one clears it.
    Text {
        get: fn(&Draft<'_>) -> Option<String>,
        set: fn(&mut Draft<'_>, Option<&str>) -> Result<(), Error>,
    },
}

const fn number(
    name: &'static str,
    range: (u64, u64),
    get: fn(&Draft<'_>) -> Option<u64>,
    set: fn(&mut Draft<'_>, u64) -> Result<(), Error>,
) -> Attribute {
    Attribute {
        name,
        on: QueueType::Any,
        kind: Shape::Number { range, get, set },
    }
}

/// Every attribute that can be set, in the order in which they are set.
pub(super) const TABLE: &[Attribute] = &[
    number(
        "VisibilityTimeout",
        (0, 43_200),
        |d| Some(d.settings.lease.as_secs()),
        |d, secs| {
            d.settings.lease = d.span("VisibilityTimeout", secs)?;
            Ok(())
        },
    ),
    number(
        "MaximumMessageSize",
        (1024, 1 << 20),
        |d| Some(d.settings.max_message_bytes.into()),
        |d, bytes| {
            let bytes = u32::try_from(bytes)
                .ok()
                .filter(|b| *b <= d.max_message_bytes);
            d.settings.max_message_bytes =
                bytes.ok_or_else(|| Error::attribute("MaximumMessageSize"))?;
            Ok(())
        },
    ),
    number(
        "MessageRetentionPeriod",
        (60, 1_209_600),
        |d| Some(d.retention().as_secs()),
        |d, secs| {
            d.settings.retention = d.span("MessageRetentionPeriod", secs)?;
            Ok(())
        },
    ),
    number(
        "DelaySeconds",
        (0, 900),
        |d| Some(d.settings.delay.as_secs()),
        |d, secs| {
            d.settings.delay = d.span("DelaySeconds", secs)?;
            Ok(())
        },
    ),
    number(
        "ReceiveMessageWaitTimeSeconds",
        (0, 20),
        |d| Some(d.settings.receive_wait.as_secs()),
        |d, secs| {
            d.settings.receive_wait = Millis::from_secs(secs);
            Ok(())
        },
    ),
    Attribute {
        name: "Policy",
        on: QueueType::Any,
        kind: Shape::Text {
            get: |d| d.block.policy.clone(),
            set: |d, policy| {
                d.block.policy = policy.map(check_policy).transpose()?;
                Ok(())
            },
        },
    },
    Attribute {
        name: "RedrivePolicy",
        on: QueueType::Any,
        kind: Shape::Text {
            get: redrive::show,
            set: redrive::set,
        },
    },
    Attribute {
        name: "RedriveAllowPolicy",
        on: QueueType::Any,
        kind: Shape::Text {
            get: |d| d.block.redrive_allow_policy.clone(),
            set: |d, policy| {
                d.block.redrive_allow_policy =
                    policy.map(check_redrive_allow_policy).transpose()?;
                Ok(())
            },
        },
    },
    Attribute {
        name: "KmsMasterKeyId",
        on: QueueType::Any,
        kind: Shape::Text {
            get: |d| d.block.kms_key.clone(),
            set: |d, key| {
                d.block.kms_key = key.map(str::to_owned);
                d.block.managed_sse_off |= key.is_some();
                Ok(())
            },
        },
    },
    number(
        "KmsDataKeyReusePeriodSeconds",
        (60, 86_400),
        |d| {
            d.block
                .kms_key
                .as_ref()
                .map(|_| d.block.kms_reuse_secs.unwrap_or(300))
        },
        |d, secs| {
            d.block.kms_reuse_secs = Some(secs);
            Ok(())
        },
    ),
    Attribute {
        name: "SqsManagedSseEnabled",
        on: QueueType::Any,
        kind: Shape::Flag {
            get: |d| !d.block.managed_sse_off,
            set: |d, on| {
                d.block.managed_sse_off = !on;
                if on && d.block.kms_key.is_some() {
                    let text = "You can use one type of server-side encryption (SSE) at one time. You can either \
                                enable KMS SSE or SQS SSE.";
                    return Err(Error::new(Kind::InvalidAttributeName, text));
                }
                Ok(())
            },
        },
    },
    Attribute {
        name: "FifoQueue",
        on: QueueType::Fifo,
        kind: Shape::Flag {
            get: |_| true,
            set: |_, on| {
                let text = "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported.";
                if on {
                    Ok(())
                } else {
                    Err(Error::new(Kind::InvalidAttributeValue, text))
                }
            },
        },
    },
    Attribute {
        name: "ContentBasedDeduplication",
        on: QueueType::Fifo,
        kind: Shape::Flag {
            get: |d| d.block.content_based_deduplication,
            set: |d, on| {
                d.block.content_based_deduplication = on;
                Ok(())
            },
        },
    },
    Attribute {
        name: "DeduplicationScope",
        on: QueueType::FifoOnly,
        kind: Shape::Choice {
            names: ["queue", "messageGroup"],
            get: |d| d.block.deduplicate_by_group,
            set: |d, on| match d.changed_at {
                Some(now) => d.block.set_deduplicate_by_group(on, now),
                None => d.block.deduplicate_by_group = on,
            },
        },
    },
    Attribute {
        name: "FifoThroughputLimit",
        on: QueueType::FifoOnly,
        kind: Shape::Choice {
            names: ["perQueue", "perMessageGroupId"],
            get: |d| d.block.throughput_by_group,
            set: |d, on| d.block.throughput_by_group = on,
        },
    },
    Attribute {
        name: "x-pq-deduplication-window-seconds",
        on: QueueType::Fifo,
        kind: Shape::Number {
            range: (DEDUP_WINDOW_SECS, 31_536_000),
            // The real service's own window is not shown, as it shows none.
            get: |d| {
                let window = d.settings.dedup.map(|dedup| dedup.window.as_secs());
                window.filter(|secs| *secs != DEDUP_WINDOW_SECS)
            },
            set: |d, secs| {
                let window = Millis::from_secs(secs);
                d.settings.dedup = Some(Dedup { window });
                Ok(())
            },
        },
    },
];

impl Attribute {
    /// Whether a queue of that type has it.
    pub fn check_type(&self, fifo: bool) -> Result<(), Error> {
        match self.on {
            QueueType::Fifo if !fifo => Err(unknown(self.name)),
            QueueType::FifoOnly if !fifo => {
                let text = format!(
                    "You can specify the {} only when FifoQueue is set to true.",
                    self.name
                );
                Err(Error::new(Kind::InvalidAttributeName, text))
            }
            _ => Ok(()),
        }
    }

    /// Sets it.
    pub fn set(&self, draft: &mut Draft<'_>, value: &str) -> Result<(), Error> {
        let invalid = || Error::attribute(self.name);
        match &self.kind {
            Shape::Number {
                range: (least, most),
                set,
                ..
            } => {
                let number = value.parse().ok().filter(|n| (least..=most).contains(&n));
                set(draft, number.ok_or_else(invalid)?)
            }
            Shape::Flag { set, .. } => match value.to_ascii_lowercase().as_str() {
                "true" => set(draft, true),
                "false" => set(draft, false),
                _ => Err(invalid()),
            },
            Shape::Choice {
                names: [off, on],
                set,
                ..
            } => {
                if value != *off && value != *on {
                    return Err(invalid());
                }
                set(draft, value == *on);
                Ok(())
            }
            Shape::Text { set, .. } => set(draft, Some(value).filter(|v| !v.is_empty())),
        }
    }
}

/// The attribute of that name.
pub(super) fn find(name: &str) -> Option<&'static Attribute> {
    TABLE.iter().find(|attribute| attribute.name == name)
}

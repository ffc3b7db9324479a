//! A queue's attributes: one table of names, ranges and where each is kept.

use std::collections::BTreeMap;

use powerqueue_engine::{Dedup, GroupMode, Limits, Millis, QueueSettings};

use crate::address::is_fifo;
use crate::block::Block;
use crate::config::Config;
use crate::errors::{Error, Kind};
use crate::identity::Caller;
use crate::policy::{check_policy, check_redrive_allow_policy};
use crate::redrive;

/// A queue's settings while they are read or changed.
pub struct Draft<'a> {
    /// Who looks.
    pub caller: &'a Caller,
    /// The tenant's caps.
    pub limits: &'a Limits,
    /// The queue's name.
    pub name: &'a str,
    /// The largest `MaximumMessageSize`.
    pub max_message_bytes: u32,
    /// The engine's settings.
    pub settings: QueueSettings,
    /// SQS's own.
    pub block: Block,
    /// When it is changed, if the queue is there already.
    pub changed_at: Option<Millis>,
}

struct Attribute {
    name: &'static str,
    on: QueueType,
    kind: Shape,
}

/// Which queues have it, and what is said of it on the others.
#[derive(Clone, Copy, PartialEq)]
enum QueueType {
    Any,
    Fifo,
    /// Named by its own words on a standard queue.
    FifoOnly,
}

enum Shape {
    /// A whole number within a range.
    Number { range: (u64, u64), get: fn(&Draft<'_>) -> Option<u64>, set: fn(&mut Draft<'_>, u64) -> Result<(), Error> },
    /// `true` or `false`, in any case.
    Flag { get: fn(&Draft<'_>) -> bool, set: fn(&mut Draft<'_>, bool) -> Result<(), Error> },
    /// Off by default, with the names of off and on.
    Choice { names: [&'static str; 2], get: fn(&Draft<'_>) -> bool, set: fn(&mut Draft<'_>, bool) },
    /// Text that is checked when it is set; an empty one clears it.
    Text { get: fn(&Draft<'_>) -> Option<String>, set: fn(&mut Draft<'_>, Option<&str>) -> Result<(), Error> },
}

const fn number(
    name: &'static str,
    range: (u64, u64),
    get: fn(&Draft<'_>) -> Option<u64>,
    set: fn(&mut Draft<'_>, u64) -> Result<(), Error>,
) -> Attribute {
    Attribute { name, on: QueueType::Any, kind: Shape::Number { range, get, set } }
}

const TABLE: &[Attribute] = &[
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
            let bytes = u32::try_from(bytes).ok().filter(|b| *b <= d.max_message_bytes);
            d.settings.max_message_bytes = bytes.ok_or_else(|| Error::attribute("MaximumMessageSize"))?;
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
        kind: Shape::Text { get: redrive::show, set: redrive::set },
    },
    Attribute {
        name: "RedriveAllowPolicy",
        on: QueueType::Any,
        kind: Shape::Text {
            get: |d| d.block.redrive_allow_policy.clone(),
            set: |d, policy| {
                d.block.redrive_allow_policy = policy.map(check_redrive_allow_policy).transpose()?;
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
        |d| d.block.kms_key.as_ref().map(|_| d.block.kms_reuse_secs.unwrap_or(300)),
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
                if on { Ok(()) } else { Err(Error::new(Kind::InvalidAttributeValue, text)) }
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
];

impl<'a> Draft<'a> {
    /// The settings of a queue that is to be made, before any attribute is set.
    pub fn new(caller: &'a Caller, config: &Config, limits: &'a Limits, name: &'a str) -> Self {
        let capped = |span: Millis| span.min(limits.lifetime);
        let defaults = QueueSettings::default();
        let settings = QueueSettings {
            lease: capped(defaults.lease),
            retention: capped(defaults.retention),
            max_message_bytes: config.max_message_bytes,
            groups: is_fifo(name).then_some(GroupMode::Fifo),
            dedup: is_fifo(name).then_some(Dedup { window: config.dedup_window }),
            ..defaults
        };
        Self::of(caller, config, limits, name, settings)
    }

    /// The settings of a queue as they are.
    pub fn of(caller: &'a Caller, config: &Config, limits: &'a Limits, name: &'a str, settings: QueueSettings) -> Self {
        let block = Block::of(&settings);
        Self { caller, limits, name, max_message_bytes: config.max_message_bytes, settings, block, changed_at: None }
    }

    /// Whether the queue is FIFO.
    pub fn is_fifo(&self) -> bool {
        self.settings.groups.is_some()
    }

    /// Sets attributes, in the order of the table, so that what depends on another sees it set.
    pub fn set(&mut self, attributes: &BTreeMap<String, String>) -> Result<(), Error> {
        for name in attributes.keys() {
            find(name).ok_or_else(|| unknown(name))?.check_type(self.is_fifo())?;
        }
        for attribute in TABLE {
            if let Some(value) = attributes.get(attribute.name) {
                attribute.set(self, value)?;
            }
        }
        if self.block.throughput_by_group && !self.block.deduplicate_by_group {
            let text = "The FifoThroughputLimit attribute can be set to perMessageGroupId only when the \
                        DeduplicationScope attribute is set to messageGroup.";
            return Err(Error::new(Kind::InvalidAttributeValue, text));
        }
        Ok(())
    }

    /// The value of an attribute as it is shown; `None` if it has none, or is none of the table.
    pub fn get(&self, name: &str) -> Option<String> {
        let attribute = find(name).filter(|attribute| attribute.check_type(self.is_fifo()).is_ok())?;
        match &attribute.kind {
            Shape::Number { get, .. } => get(self).map(|n| n.to_string()),
            Shape::Flag { get, .. } => Some(get(self).to_string()),
            Shape::Choice { names, get, .. } => Some(names[usize::from(get(self))].to_owned()),
            Shape::Text { get, .. } => get(self),
        }
    }

    /// The attribute in which two drafts differ, of those in a request.
    pub fn difference(&self, other: &Self, names: &BTreeMap<String, String>) -> Option<String> {
        names.keys().find(|name| self.get(name) != other.get(name)).cloned()
    }

    /// The engine's settings with SQS's own put in.
    pub fn into_settings(mut self) -> QueueSettings {
        self.block.store(&mut self.settings);
        self.settings
    }

    fn retention(&self) -> Millis {
        // A queue that another protocol made may keep messages for ever; SQS shows its longest.
        self.settings.retention.min(Millis::from_secs(1_209_600)).min(self.limits.lifetime)
    }

    fn span(&self, name: &str, secs: u64) -> Result<Millis, Error> {
        let cap = self.limits.lifetime;
        if Millis::from_secs(secs) > cap {
            let text = format!(
                "Invalid value for the parameter {name}. Reason: at most {} seconds are allowed here.",
                cap.as_secs()
            );
            return Err(Error::new(Kind::InvalidAttributeValue, text));
        }
        Ok(Millis::from_secs(secs))
    }
}

impl Attribute {
    fn check_type(&self, fifo: bool) -> Result<(), Error> {
        match self.on {
            QueueType::Fifo if !fifo => Err(unknown(self.name)),
            QueueType::FifoOnly if !fifo => {
                let text = format!("You can specify the {} only when FifoQueue is set to true.", self.name);
                Err(Error::new(Kind::InvalidAttributeName, text))
            }
            _ => Ok(()),
        }
    }

    fn set(&self, draft: &mut Draft<'_>, value: &str) -> Result<(), Error> {
        let invalid = || Error::attribute(self.name);
        match &self.kind {
            Shape::Number { range: (least, most), set, .. } => {
                let number = value.parse().ok().filter(|n| (least..=most).contains(&n));
                set(draft, number.ok_or_else(invalid)?)
            }
            Shape::Flag { set, .. } => match value.to_ascii_lowercase().as_str() {
                "true" => set(draft, true),
                "false" => set(draft, false),
                _ => Err(invalid()),
            },
            Shape::Choice { names: [off, on], set, .. } => {
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

fn find(name: &str) -> Option<&'static Attribute> {
    TABLE.iter().find(|attribute| attribute.name == name)
}

/// A name that is no attribute, or none that can be set.
pub fn unknown(name: &str) -> Error {
    let shown: String = name.chars().take(100).collect();
    Error::new(Kind::InvalidAttributeName, format!("Unknown Attribute {shown}."))
}

/// The names of every attribute that can be set.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|attribute| attribute.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    const CAPPED: Limits = Limits { lifetime: Millis::from_secs(3600), ..Limits::UNLIMITED };

    fn set<'a>(
        caller: &'a Caller,
        limits: &'a Limits,
        name: &'a str,
        pairs: &[(&str, &str)],
    ) -> Result<Draft<'a>, Error> {
        let mut draft = Draft::new(caller, &Config::local(), limits, name);
        draft.set(&map(pairs)).map(|()| draft)
    }

    fn shown(draft: &Draft<'_>) -> Vec<(&'static str, String)> {
        names().filter_map(|name| Some((name, draft.get(name)?))).collect()
    }

    #[test]
    fn a_fresh_queue_shows_what_a_fresh_queue_shows() {
        let caller = Caller::for_tests();
        let standard = Draft::new(&caller, &Config::local(), &Limits::UNLIMITED, "q");
        let expected = [
            ("VisibilityTimeout", "30"),
            ("MaximumMessageSize", "1048576"),
            ("MessageRetentionPeriod", "345600"),
            ("DelaySeconds", "0"),
            ("ReceiveMessageWaitTimeSeconds", "0"),
            ("SqsManagedSseEnabled", "true"),
        ];
        assert_eq!(shown(&standard), expected.map(|(n, v)| (n, v.to_owned())));
        let fifo = Draft::new(&caller, &Config::local(), &Limits::UNLIMITED, "q.fifo");
        let more = [
            ("FifoQueue", "true"),
            ("ContentBasedDeduplication", "false"),
            ("DeduplicationScope", "queue"),
            ("FifoThroughputLimit", "perQueue"),
        ];
        assert_eq!(shown(&fifo)[6..], more.map(|(n, v)| (n, v.to_owned())));
    }

    #[test]
    fn ranges_are_the_real_services() {
        let caller = Caller::for_tests();
        for (name, good, bad) in [
            ("VisibilityTimeout", "43200", "43201"),
            ("DelaySeconds", "900", "901"),
            ("MaximumMessageSize", "1024", "1023"),
            ("MaximumMessageSize", "1048576", "1048577"),
            ("MessageRetentionPeriod", "60", "59"),
            ("MessageRetentionPeriod", "1209600", "1209601"),
            ("ReceiveMessageWaitTimeSeconds", "20", "21"),
            ("KmsDataKeyReusePeriodSeconds", "60", "-1"),
            ("DelaySeconds", "0", ""),
            ("SqsManagedSseEnabled", "False", "no"),
        ] {
            assert!(set(&caller, &Limits::UNLIMITED, "q", &[(name, good)]).is_ok(), "{name} {good}");
            let error = set(&caller, &Limits::UNLIMITED, "q", &[(name, bad)]).err().unwrap();
            assert_eq!(error.row().code, "InvalidAttributeValue", "{name} {bad}");
            assert_eq!(error.text(), format!("Invalid value for the parameter {name}."));
        }
    }

    #[test]
    fn fifo_attributes_are_unknown_to_standard_queues() {
        let caller = Caller::for_tests();
        for (name, value, text) in [
            ("FifoQueue", "false", "Unknown Attribute FifoQueue."),
            ("ContentBasedDeduplication", "false", "Unknown Attribute ContentBasedDeduplication."),
            (
                "DeduplicationScope",
                "queue",
                "You can specify the DeduplicationScope only when FifoQueue is set to true.",
            ),
            (
                "FifoThroughputLimit",
                "perQueue",
                "You can specify the FifoThroughputLimit only when FifoQueue is set to true.",
            ),
            ("QueueArn", "x", "Unknown Attribute QueueArn."),
        ] {
            let error = set(&caller, &Limits::UNLIMITED, "q", &[(name, value)]).err().unwrap();
            assert_eq!((error.kind, error.text()), (Kind::InvalidAttributeName, text));
        }
        let error = set(&caller, &Limits::UNLIMITED, "q.fifo", &[("FifoQueue", "false")]).err().unwrap();
        assert_eq!(
            error.text(),
            "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported."
        );
    }

    #[test]
    fn one_kind_of_encryption_at_a_time() {
        let caller = Caller::for_tests();
        let kms = [("KmsMasterKeyId", "k"), ("KmsDataKeyReusePeriodSeconds", "6000")];
        let mut draft = set(&caller, &Limits::UNLIMITED, "q", &kms).unwrap();
        let expect = |draft: &Draft<'_>, key: Option<&str>, reuse: Option<&str>, managed: &str| {
            assert_eq!(draft.get("KmsMasterKeyId").as_deref(), key);
            assert_eq!(draft.get("KmsDataKeyReusePeriodSeconds").as_deref(), reuse);
            assert_eq!(draft.get("SqsManagedSseEnabled").as_deref(), Some(managed));
        };
        expect(&draft, Some("k"), Some("6000"), "false");
        draft.set(&map(&[("KmsMasterKeyId", ""), ("KmsDataKeyReusePeriodSeconds", "300")])).unwrap();
        expect(&draft, None, None, "false");
        let both = [("KmsMasterKeyId", "k"), ("SqsManagedSseEnabled", "true")];
        assert_eq!(set(&caller, &Limits::UNLIMITED, "q", &both).err().unwrap().kind, Kind::InvalidAttributeName);
    }

    #[test]
    fn high_throughput_needs_its_scope() {
        let caller = Caller::for_tests();
        let alone = [("FifoThroughputLimit", "perMessageGroupId")];
        assert!(set(&caller, &Limits::UNLIMITED, "q.fifo", &alone).is_err());
        let both = [("FifoThroughputLimit", "perMessageGroupId"), ("DeduplicationScope", "messageGroup")];
        assert!(set(&caller, &Limits::UNLIMITED, "q.fifo", &both).is_ok());
    }

    #[test]
    fn a_cap_on_lifetimes_lowers_defaults_and_refuses_more() {
        let caller = Caller::for_tests();
        let draft = Draft::new(&caller, &Config::public(), &CAPPED, "q");
        assert_eq!(draft.get("MessageRetentionPeriod").as_deref(), Some("3600"));
        assert_eq!(draft.get("MaximumMessageSize").as_deref(), Some("262144"));
        for name in ["MessageRetentionPeriod", "VisibilityTimeout"] {
            assert!(set(&caller, &CAPPED, "q", &[(name, "3600")]).is_ok());
            let error = set(&caller, &CAPPED, "q", &[(name, "3601")]).err().unwrap();
            assert_eq!(error.kind, Kind::InvalidAttributeValue);
        }
    }

    #[test]
    fn settings_and_block_come_back() {
        let caller = Caller::for_tests();
        let pairs = [("ContentBasedDeduplication", "True"), ("DelaySeconds", "7"), ("Policy", "{\"a\":1}")];
        let settings = set(&caller, &Limits::UNLIMITED, "q.fifo", &pairs).unwrap().into_settings();
        let draft = Draft::of(&caller, &Config::local(), &Limits::UNLIMITED, "q.fifo", settings);
        assert_eq!(draft.get("ContentBasedDeduplication").as_deref(), Some("true"));
        assert_eq!(draft.get("DelaySeconds").as_deref(), Some("7"));
        assert_eq!(draft.get("Policy").as_deref(), Some("{\"a\":1}"));
    }
}

//! A queue's attributes: the settings of a queue as they are read and changed, name by name ([`table`]).

mod table;

use std::collections::BTreeMap;

use powerqueue_engine::{Dedup, GroupMode, Limits, Millis, QueueSettings};

use crate::address::is_fifo;
use crate::block::Block;
use crate::config::{Config, Mode};
use crate::errors::{Error, Kind};
use crate::identity::Caller;
use table::{Shape, TABLE, find};

/// What the names of the service's own attributes begin with.
const OWN_PREFIX: &str = "x-pq-";

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
    /// Whether the service's own attributes can be set, beyond those of the real one.
    pub has_own: bool,
    /// The engine's settings.
    pub settings: QueueSettings,
    /// SQS's own.
    pub block: Block,
    /// When it is changed, if the queue is there already.
    pub changed_at: Option<Millis>,
}

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
            dedup: is_fifo(name).then_some(Dedup {
                window: config.dedup_window,
            }),
            ..defaults
        };
        Self::of(caller, config, limits, name, settings)
    }

    /// The settings of a queue as they are.
    pub fn of(
        caller: &'a Caller,
        config: &Config,
        limits: &'a Limits,
        name: &'a str,
        settings: QueueSettings,
    ) -> Self {
        let block = Block::of(&settings);
        Self {
            caller,
            limits,
            name,
            max_message_bytes: config.max_message_bytes,
            has_own: !matches!(config.mode, Mode::Public),
            settings,
            block,
            changed_at: None,
        }
    }

    /// Whether the queue is FIFO.
    pub fn is_fifo(&self) -> bool {
        self.settings.groups.is_some()
    }

    /// Sets attributes, in the order of the table, so that what depends on another sees it set.
    pub fn set(&mut self, attributes: &BTreeMap<String, String>) -> Result<(), Error> {
        for name in attributes.keys() {
            find(name)
                .filter(|attribute| self.has_own || !attribute.name.starts_with(OWN_PREFIX))
                .ok_or_else(|| unknown(name))?
                .check_type(self.is_fifo())?;
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
        let attribute =
            find(name).filter(|attribute| attribute.check_type(self.is_fifo()).is_ok())?;
        match &attribute.kind {
            Shape::Number { get, .. } => get(self).map(|n| n.to_string()),
            Shape::Flag { get, .. } => Some(get(self).to_string()),
            Shape::Choice { names, get, .. } => Some(names[usize::from(get(self))].to_owned()),
            Shape::Text { get, .. } => get(self),
        }
    }

    /// The attribute in which two drafts differ, of those in a request.
    pub fn difference(&self, other: &Self, names: &BTreeMap<String, String>) -> Option<String> {
        names
            .keys()
            .find(|name| self.get(name) != other.get(name))
            .cloned()
    }

    /// The engine's settings with SQS's own put in.
    pub fn into_settings(mut self) -> QueueSettings {
        self.block.store(&mut self.settings);
        self.settings
    }

    fn retention(&self) -> Millis {
        // A queue that another protocol made may keep messages for ever; SQS shows its longest.
        self.settings
            .retention
            .min(Millis::from_secs(1_209_600))
            .min(self.limits.lifetime)
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

/// A name that is no attribute, or none that can be set.
pub fn unknown(name: &str) -> Error {
    let shown: String = name.chars().take(100).collect();
    Error::new(
        Kind::InvalidAttributeName,
        format!("Unknown Attribute {shown}."),
    )
}

/// The names of every attribute that can be set.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|attribute| attribute.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    }

    const CAPPED: Limits = Limits {
        lifetime: Millis::from_secs(3600),
        ..Limits::UNLIMITED
    };

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
        names()
            .filter_map(|name| Some((name, draft.get(name)?)))
            .collect()
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
            assert!(
                set(&caller, &Limits::UNLIMITED, "q", &[(name, good)]).is_ok(),
                "{name} {good}"
            );
            let error = set(&caller, &Limits::UNLIMITED, "q", &[(name, bad)])
                .err()
                .unwrap();
            assert_eq!(error.row().code, "InvalidAttributeValue", "{name} {bad}");
            assert_eq!(
                error.text(),
                format!("Invalid value for the parameter {name}.")
            );
        }
    }

    #[test]
    fn fifo_attributes_are_unknown_to_standard_queues() {
        let caller = Caller::for_tests();
        for (name, value, text) in [
            ("FifoQueue", "false", "Unknown Attribute FifoQueue."),
            (
                "ContentBasedDeduplication",
                "false",
                "Unknown Attribute ContentBasedDeduplication.",
            ),
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
            let error = set(&caller, &Limits::UNLIMITED, "q", &[(name, value)])
                .err()
                .unwrap();
            assert_eq!(
                (error.kind, error.text()),
                (Kind::InvalidAttributeName, text)
            );
        }
        let error = set(
            &caller,
            &Limits::UNLIMITED,
            "q.fifo",
            &[("FifoQueue", "false")],
        )
        .err()
        .unwrap();
        assert_eq!(
            error.text(),
            "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported."
        );
    }

    #[test]
    fn one_kind_of_encryption_at_a_time() {
        let caller = Caller::for_tests();
        let kms = [
            ("KmsMasterKeyId", "k"),
            ("KmsDataKeyReusePeriodSeconds", "6000"),
        ];
        let mut draft = set(&caller, &Limits::UNLIMITED, "q", &kms).unwrap();
        let expect = |draft: &Draft<'_>, key: Option<&str>, reuse: Option<&str>, managed: &str| {
            assert_eq!(draft.get("KmsMasterKeyId").as_deref(), key);
            assert_eq!(draft.get("KmsDataKeyReusePeriodSeconds").as_deref(), reuse);
            assert_eq!(draft.get("SqsManagedSseEnabled").as_deref(), Some(managed));
        };
        expect(&draft, Some("k"), Some("6000"), "false");
        draft
            .set(&map(&[
                ("KmsMasterKeyId", ""),
                ("KmsDataKeyReusePeriodSeconds", "300"),
            ]))
            .unwrap();
        expect(&draft, None, None, "false");
        let both = [("KmsMasterKeyId", "k"), ("SqsManagedSseEnabled", "true")];
        assert_eq!(
            set(&caller, &Limits::UNLIMITED, "q", &both)
                .err()
                .unwrap()
                .kind,
            Kind::InvalidAttributeName
        );
    }

    #[test]
    fn high_throughput_needs_its_scope() {
        let caller = Caller::for_tests();
        let alone = [("FifoThroughputLimit", "perMessageGroupId")];
        assert!(set(&caller, &Limits::UNLIMITED, "q.fifo", &alone).is_err());
        let both = [
            ("FifoThroughputLimit", "perMessageGroupId"),
            ("DeduplicationScope", "messageGroup"),
        ];
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
    fn the_window_of_deduplication_can_be_longer_than_the_real_services() {
        const WINDOW: &str = "x-pq-deduplication-window-seconds";
        let (caller, limits) = (Caller::for_tests(), &Limits::UNLIMITED);
        let draft = set(&caller, limits, "q.fifo", &[(WINDOW, "31536000")]).unwrap();
        assert_eq!(draft.get(WINDOW).as_deref(), Some("31536000"));
        let window = draft.into_settings().dedup.unwrap().window;
        assert_eq!(window, Millis::from_secs(31_536_000));
        let draft = set(&caller, limits, "q.fifo", &[(WINDOW, "300")]).unwrap();
        assert_eq!(draft.get(WINDOW), None);
        for bad in ["299", "31536001", "", "x"] {
            let error = set(&caller, limits, "q.fifo", &[(WINDOW, bad)]);
            assert_eq!(error.err().unwrap().kind, Kind::InvalidAttributeValue);
        }
        let standard = set(&caller, limits, "q", &[(WINDOW, "600")]);
        assert_eq!(standard.err().unwrap(), unknown(WINDOW));
        let mut public = Draft::new(&caller, &Config::public(), limits, "q.fifo");
        assert_eq!(public.set(&map(&[(WINDOW, "600")])), Err(unknown(WINDOW)));
    }

    #[test]
    fn settings_and_block_come_back() {
        let caller = Caller::for_tests();
        let pairs = [
            ("ContentBasedDeduplication", "True"),
            ("DelaySeconds", "7"),
            ("Policy", "{\"a\":1}"),
        ];
        let settings = set(&caller, &Limits::UNLIMITED, "q.fifo", &pairs)
            .unwrap()
            .into_settings();
        let draft = Draft::of(
            &caller,
            &Config::local(),
            &Limits::UNLIMITED,
            "q.fifo",
            settings,
        );
        assert_eq!(
            draft.get("ContentBasedDeduplication").as_deref(),
            Some("true")
        );
        assert_eq!(draft.get("DelaySeconds").as_deref(), Some("7"));
        assert_eq!(draft.get("Policy").as_deref(), Some("{\"a\":1}"));
    }
}

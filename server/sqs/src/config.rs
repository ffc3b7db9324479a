//! What the front end is told by configuration.

use std::collections::HashMap;
use std::fmt;

use powerqueue_engine::Millis;

/// The configuration of the SQS front end. Caps on lifetimes, queues and messages are the node's.
#[derive(Clone, Debug)]
pub struct Config {
    /// Who may use the service, and how a request names its tenant.
    pub mode: Mode,
    /// Whether the use of a name makes the queue.
    pub create_by_use: bool,
    /// The region of a request that names none.
    pub region: String,
    /// The default and the ceiling of `MaximumMessageSize`.
    pub max_message_bytes: u32,
    /// The most that the messages of one batch may count together.
    pub max_batch_bytes: u64,
    /// How long a FIFO queue remembers a deduplication id.
    pub dedup_window: Millis,
    /// How long a deleted queue's name cannot be used again.
    pub tombstone: Millis,
    /// How long after a purge the next one may follow.
    pub purge_cooldown: Millis,
    /// The host in queue URLs where a request has none.
    pub host: String,
}

/// Who may use the service.
#[derive(Clone, Debug)]
pub enum Mode {
    /// A developer's machine: an access key that is an identifier names its tenant, anything else the one local one.
    Local,
    /// A team's broker: the keys here and no others, with signatures checked.
    Private(Keys),
    /// The open internet: the access key is the tenant's identifier, and the whole credential.
    Public,
}

/// Access keys and what they open.
#[derive(Clone, Default)]
pub struct Keys(HashMap<String, Key>);

/// An access key.
#[derive(Clone)]
pub struct Key {
    /// The secret that signs.
    pub secret: String,
    /// The tenant it opens.
    pub tenant: String,
}

impl Keys {
    /// Keys by access key id.
    pub fn new(keys: impl IntoIterator<Item = (String, Key)>) -> Self {
        Self(keys.into_iter().collect())
    }

    /// The key with that id.
    pub fn get(&self, access_key: &str) -> Option<&Key> {
        self.0.get(access_key)
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys", self.0.len())
    }
}

impl Config {
    /// A developer's machine.
    pub fn local() -> Self {
        Self {
            mode: Mode::Local,
            create_by_use: true,
            region: "us-east-1".into(),
            max_message_bytes: 1 << 20,
            max_batch_bytes: 1 << 20,
            dedup_window: Millis::from_secs(300),
            tombstone: Millis::from_secs(60),
            purge_cooldown: Millis::from_secs(60),
            host: "localhost:9324".into(),
        }
    }

    /// The open internet.
    pub fn public() -> Self {
        Self {
            mode: Mode::Public,
            max_message_bytes: 256 << 10,
            ..Self::local()
        }
    }

    /// A team's broker.
    pub fn private(keys: Keys) -> Self {
        Self {
            mode: Mode::Private(keys),
            create_by_use: false,
            ..Self::local()
        }
    }
}

//! The configuration: defaults of the mode, then a file, the environment and the command line, later ones winning.
//!
//! Every layer is a list of dotted keys with values, so that an error can name the key and where it was set.

mod env;
mod file;
mod keys;
mod load;
mod modes;
mod tls;
mod values;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use powerqueue_net::{ClientRule, Deadlines, Settings, Sizes};
use serde::{Deserialize, Serialize};

pub use load::{Loaded, Sources, load};
pub use modes::{Mode, defaults};
pub use tls::{Tls, TlsSource};
pub use values::{Addresses, ByteSize, Cap, Span, SyncPolicy};

/// The effective configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Whom the broker is for.
    pub mode: Mode,
    /// Where everything is kept.
    pub data: PathBuf,
    /// The listeners.
    pub listen: Listen,
    /// What stands in front of them.
    pub proxy: Proxy,
    /// TLS of the listeners themselves.
    pub tls: Tls,
    /// Accounts, for the private mode.
    pub auth: Auth,
    /// How entities come into being.
    pub entities: Entities,
    /// What one tenant, or one address, may take.
    pub limits: Limits,
    /// The serving loop's bounds, for each HTTP listener.
    pub http: Http,
    /// The website.
    pub website: Website,
    /// The store.
    pub storage: Storage,
    /// How the broker stops.
    pub shutdown: Shutdown,
    /// What it writes while it runs.
    pub log: Log,
}

/// The listeners. A key is there once its front end is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// Website and health.
    pub http: Addresses,
    /// Amazon SQS.
    pub sqs: Addresses,
    /// Prometheus metrics.
    pub metrics: Addresses,
}

/// What stands in front of the listeners.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proxy {
    /// The listeners that only the proxy reaches, and that take the client's address from `X-PQ-Client-IP`.
    pub listeners: Vec<String>,
}

/// Accounts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Auth {
    /// Secret keys by access key id.
    pub keys: BTreeMap<String, String>,
}

/// How entities come into being.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entities {
    /// Whether using a name makes the entity.
    pub create_by_use: bool,
}

/// What one tenant, or one address, may take. `off` for no limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// One message, body plus attributes. A protocol's own lower limit holds as well.
    pub message_bytes: Cap<ByteSize>,
    /// A tenant's queues, topics and subscriptions.
    pub entities: Cap<u64>,
    /// Messages in one queue, received but unacknowledged ones included.
    pub messages_per_queue: Cap<u64>,
    /// A tenant's message bytes over all queues.
    pub tenant_bytes: Cap<ByteSize>,
    /// A tenant's remembered deduplication ids, each its length plus 192 bytes.
    pub dedup_bytes: Cap<ByteSize>,
    /// A tenant's tags, policies and metadata.
    pub settings_bytes: Cap<ByteSize>,
    /// Names a tenant deleted and cannot make again yet.
    pub tombstones: Cap<u64>,
    /// A tenant's waiting receivers.
    pub receivers: Cap<u64>,
    /// Retention, time to live, delay and lease.
    pub lifetime: Cap<Span>,
    /// How long an entity made by use is kept empty and unused.
    pub implicit_entity_idle: Cap<Span>,
    /// How long a tenant is kept unused.
    pub tenant_idle: Cap<Span>,
    /// Tenants in total.
    pub tenants: Cap<u64>,
    /// Tenants one address may make in an hour.
    pub new_tenants_per_hour: Cap<u64>,
    /// Requests from one address, lasting.
    pub requests_per_second: Cap<u64>,
    /// Requests from one address at once, after a rest.
    pub requests_burst: Cap<u64>,
    /// Requests from one address being answered at once, long polls included.
    pub requests_in_flight: Cap<u64>,
    /// Streams open at once from one address.
    pub streams: Cap<u64>,
    /// Connections open at once from one address, over all listeners that clients reach without a proxy.
    pub connections: Cap<u64>,
    /// New connections from one address on such listeners, lasting.
    pub new_connections_per_second: Cap<u64>,
    /// New connections from one address at once, after a rest.
    pub new_connections_burst: Cap<u64>,
    /// What the addresses of one IPv6 /56 may do together, as a multiple of what one address may.
    pub ipv6_56_shares: u32,
    /// The same for a /48.
    pub ipv6_48_shares: u32,
    /// Refusals within a minute before an address is banned.
    pub ban_refusals: Cap<u64>,
    /// How many refusals of one second count at most.
    pub ban_counted_per_second: Cap<u64>,
    /// How long: the first time, the second, and so on; the last one repeats.
    pub ban_lengths: Vec<Span>,
    /// How long without a ban until an address starts at the first length again.
    pub ban_forgotten_after: Span,
    /// Addresses and networks that these limits do not concern, such as `192.0.2.0/24`.
    pub exempt_addresses: Vec<String>,
}

/// The serving loop's bounds, for each HTTP listener.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// Open connections.
    pub max_connections: usize,
    /// Requests being answered, long polls included.
    pub max_requests: usize,
    /// One request's body.
    pub max_body: ByteSize,
    /// All bodies being answered.
    pub max_bodies: ByteSize,
    /// From the connection to its first byte.
    pub first_byte: Span,
    /// From a header's first byte to its end.
    pub header: Span,
    /// Between two pieces of a body.
    pub body_idle: Span,
    /// A whole body.
    pub body: Span,
    /// Without progress while sending.
    pub write: Span,
    /// Between two requests.
    pub idle: Span,
}

/// What the website says about itself. An empty value means what this machine's listeners say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Website {
    /// Its URL, such as `https://powerqueue.link`.
    pub origin: String,
    /// The URL of SQS.
    pub sqs: String,
    /// Where abuse is reported: a mail address or a URL.
    pub contact: String,
}

/// The store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Storage {
    /// Into how many parts tenants are spread, each with its own lock.
    pub shards: u16,
    /// When an answer may be given.
    pub sync: SyncPolicy,
    /// The size of one journal file.
    pub segment_bytes: ByteSize,
    /// Free space below which growth is refused, so that deletes and other programs still have some.
    pub min_free_bytes: ByteSize,
    /// Memory for messages and queues, beside bodies, which are on the disk; growth is refused beyond it.
    pub memory_bytes: ByteSize,
}

/// How the broker stops.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shutdown {
    /// How long requests in flight may take to finish.
    pub grace: Span,
}

/// What the broker writes to standard error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// A level, or directives such as `info,powerqueue_net=debug`.
    pub level: String,
    /// How a line looks.
    pub format: LogFormat,
}

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people; without times where systemd's journal adds its own.
    Text,
    /// One JSON object a line.
    Json,
}

/// The names of all listeners, as in the `listen` table.
pub const LISTENERS: [&str; 3] = ["http", "sqs", "metrics"];

impl Config {
    /// The configured addresses of a listener of that name.
    pub fn addresses(&self, listener: &str) -> Vec<SocketAddr> {
        let addresses = match listener {
            "http" => &self.listen.http,
            "sqs" => &self.listen.sqs,
            "metrics" => &self.listen.metrics,
            _ => return Vec::new(),
        };
        addresses.iter().collect()
    }

    /// The serving loop's settings for that listener.
    pub fn serving(&self, listener: &str) -> Settings {
        let behind_proxy = self.proxy.listeners.iter().any(|name| name == listener);
        Settings {
            deadlines: Deadlines {
                handshake: self.tls.handshake.duration(),
                first_byte: self.http.first_byte.duration(),
                header: self.http.header.duration(),
                body_idle: self.http.body_idle.duration(),
                body: self.http.body.duration(),
                write: self.http.write.duration(),
                idle: self.http.idle.duration(),
                ..Deadlines::default()
            },
            sizes: Sizes {
                connections: self.http.max_connections,
                requests: self.http.max_requests,
                body: self.http.max_body.in_memory(),
                bodies: self.http.max_bodies.in_memory(),
                ..Sizes::default()
            },
            client: if behind_proxy {
                ClientRule::BehindProxy
            } else {
                ClientRule::Socket
            },
            ..Settings::default()
        }
    }

    /// As TOML that loads again to the same configuration.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string_pretty(self)
    }

    /// What is allowed and probably not meant.
    pub fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        let proxied = self.proxy.listeners.iter().any(|name| name == "sqs");
        let open = self
            .listen
            .sqs
            .iter()
            .any(|address| !address.ip().is_loopback());
        if self.mode == Mode::Public && !proxied && self.listen.sqs.iter().next().is_some() {
            doubts.push(
                "sqs is not in proxy.listeners: if a proxy stands in front of it, all clients count as one address"
                    .to_owned(),
            );
        }
        if self.mode != Mode::Local && open && !proxied && !self.tls.covers("sqs") {
            doubts.push("sqs listens beyond this machine in plain text: keys and messages can be read on the way".to_owned());
        }
        if self.mode == Mode::Local && open {
            doubts.push("sqs listens beyond this machine in local mode: whoever reaches it can read everything".to_owned());
        }
        doubts.extend(self.tls.doubts(self));
        doubts
    }

    /// What no single value shows: settings that contradict each other.
    fn contradiction(&self) -> Option<String> {
        let unknown = self
            .proxy
            .listeners
            .iter()
            .find(|name| !LISTENERS.contains(&name.as_str()));
        if let Some(name) = unknown {
            return Some(format!(
                "proxy.listeners names {name:?}; the listeners are {}",
                LISTENERS.join(", ")
            ));
        }
        if let Some(sentence) = self.tls.contradiction(self) {
            return Some(sentence);
        }
        if self.mode == Mode::Private && self.auth.keys.is_empty() {
            return Some("mode is \"private\" but auth.keys has no keys".to_owned());
        }
        if self.mode != Mode::Private && !self.auth.keys.is_empty() {
            return Some(format!(
                "auth.keys would not be checked in mode {:?}; leave mode out or set it to \"private\"",
                self.mode.as_str()
            ));
        }
        if self.storage.shards == 0 {
            return Some("storage.shards must be at least 1".to_owned());
        }
        if self.storage.segment_bytes < ByteSize::kib(64) {
            return Some("storage.segment_bytes must be at least 64KiB".to_owned());
        }
        if self.http.max_connections == 0 || self.http.max_requests == 0 {
            return Some(
                "http.max_connections and http.max_requests must be at least 1".to_owned(),
            );
        }
        if self.limits.ban_lengths.is_empty() {
            return Some("limits.ban_lengths needs at least one length".to_owned());
        }
        if let Err(error) = crate::admission::exempt(&self.limits) {
            return Some(format!("limits.exempt_addresses: {error}"));
        }
        crate::logging::filter(&self.log.level)
            .err()
            .map(|error| format!("log.level: {error}"))
    }
}

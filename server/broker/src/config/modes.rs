//! The three modes and what each of them means where the configuration says nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::values::{Addresses, ByteSize, Cap, Span, SyncPolicy};
use super::{
    Auth, Config, Entities, Http, Limits, Listen, Log, LogFormat, Proxy, Shutdown, Storage, Tls,
    Website,
};

/// Whom the broker is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// A developer's machine or a CI job.
    Local,
    /// A team's own broker: accounts with keys.
    Private,
    /// A free service on the open internet: many tenants, no accounts.
    Public,
}

impl Mode {
    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Private => "private",
            Self::Public => "public",
        }
    }
}

/// The configuration of someone who configures nothing but the mode.
pub fn defaults(mode: Mode) -> Config {
    Config {
        mode,
        data: PathBuf::from("./powerqueue-data"),
        listen: Listen {
            http: Addresses::loopback(9325),
            sqs: Addresses::loopback(9324),
            metrics: Addresses::loopback(9464),
        },
        proxy: Proxy {
            listeners: Vec::new(),
        },
        tls: Tls::defaults(mode),
        auth: Auth {
            keys: BTreeMap::new(),
        },
        entities: Entities {
            create_by_use: mode != Mode::Private,
        },
        limits: match mode {
            Mode::Local | Mode::Private => no_limits(),
            Mode::Public => public_limits(),
        },
        http: Http {
            max_connections: 10_000,
            max_requests: 10_000,
            max_body: ByteSize::mib(4),
            max_bodies: ByteSize::mib(64),
            first_byte: Span::secs(5),
            header: Span::secs(10),
            body_idle: Span::secs(10),
            body: Span::secs(60),
            write: Span::secs(30),
            idle: Span::secs(120),
        },
        website: Website {
            origin: String::new(),
            sqs: String::new(),
            contact: String::new(),
        },
        storage: Storage {
            shards: 4,
            sync: SyncPolicy::Always,
            // Three are preallocated, which a developer's disk should not notice.
            segment_bytes: ByteSize::mib(if mode == Mode::Local { 16 } else { 64 }),
            min_free_bytes: ByteSize::mib(256),
            memory_bytes: ByteSize::mib(2048),
        },
        shutdown: Shutdown {
            grace: Span::secs(25),
        },
        log: Log {
            level: "info".to_owned(),
            format: LogFormat::Text,
        },
    }
}

fn no_limits() -> Limits {
    Limits {
        message_bytes: Cap::Off,
        entities: Cap::Off,
        messages_per_queue: Cap::Off,
        tenant_bytes: Cap::Off,
        dedup_bytes: Cap::Off,
        settings_bytes: Cap::Off,
        tombstones: Cap::Off,
        receivers: Cap::Off,
        lifetime: Cap::Off,
        implicit_entity_idle: Cap::Off,
        tenant_idle: Cap::Off,
        tenants: Cap::Off,
        new_tenants_per_hour: Cap::Off,
        requests_per_second: Cap::Off,
        requests_burst: Cap::Off,
        requests_in_flight: Cap::Off,
        streams: Cap::Off,
        connections: Cap::Off,
        new_connections_per_second: Cap::Off,
        new_connections_burst: Cap::Off,
        ipv6_56_shares: 4,
        ipv6_48_shares: 10,
        ban_refusals: Cap::Off,
        ban_counted_per_second: Cap::Off,
        ban_lengths: [60, 600, 3600, 86_400].map(Span::secs).to_vec(),
        ban_forgotten_after: Span::secs(86_400),
        exempt_addresses: Vec::new(),
    }
}

/// The table on the public service's documentation page.
fn public_limits() -> Limits {
    Limits {
        message_bytes: Cap::At(ByteSize::kib(256)),
        entities: Cap::At(100),
        messages_per_queue: Cap::At(1000),
        tenant_bytes: Cap::At(ByteSize::mib(16)),
        dedup_bytes: Cap::At(ByteSize::mib(1)),
        settings_bytes: Cap::At(ByteSize::mib(1)),
        tombstones: Cap::At(1000),
        receivers: Cap::At(1000),
        lifetime: Cap::At(Span::secs(3600)),
        implicit_entity_idle: Cap::At(Span::secs(3600)),
        tenant_idle: Cap::At(Span::secs(7 * 86_400)),
        tenants: Cap::At(10_000),
        new_tenants_per_hour: Cap::At(20),
        requests_per_second: Cap::At(100),
        requests_burst: Cap::At(200),
        requests_in_flight: Cap::At(1000),
        streams: Cap::At(1000),
        connections: Cap::At(50),
        new_connections_per_second: Cap::At(5),
        new_connections_burst: Cap::At(20),
        ban_refusals: Cap::At(100),
        ..no_limits()
    }
}

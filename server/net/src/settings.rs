//! Every bound of the serving loop in one place.

use std::sync::Arc;
use std::time::Duration;

use crate::client::ClientRule;
use crate::stats::Stats;
use crate::tls::Tls;

/// How one listener is served.
#[derive(Clone, Default)]
pub struct Settings {
    /// How long a client may take.
    pub deadlines: Deadlines,
    /// How much it may send and hold.
    pub sizes: Sizes,
    /// Whose word is taken for the client's address.
    pub client: ClientRule,
    /// Present for TLS, absent for plain text.
    pub tls: Option<Tls>,
    /// Where the loop counts what it does.
    pub stats: Arc<Stats>,
}

/// How long a client may take over each step.
#[derive(Clone, Debug)]
pub struct Deadlines {
    /// The TLS handshake.
    pub handshake: Duration,
    /// From the connection (or the handshake) to the first byte, and through the whole of an HTTP/2 preface.
    pub first_byte: Duration,
    /// From a request's first byte to the end of its header (HTTP/1).
    pub header: Duration,
    /// Between two pieces of a request's body.
    pub body_idle: Duration,
    /// A request's whole body.
    pub body: Duration,
    /// Without any progress while we have bytes to send.
    pub write: Duration,
    /// A connection without a request.
    pub idle: Duration,
    /// How long what the client still sends is read and thrown away after an early answer, so that a reset does
    /// not destroy the answer on its way.
    pub linger: Duration,
    /// Between two HTTP/2 pings, and the wait for the pong.
    pub ping: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(5),
            first_byte: Duration::from_secs(5),
            header: Duration::from_secs(10),
            body_idle: Duration::from_secs(10),
            body: Duration::from_secs(60),
            write: Duration::from_secs(30),
            idle: Duration::from_secs(120),
            linger: Duration::from_secs(2),
            ping: Duration::from_secs(20),
        }
    }
}

/// How much a client may send and hold.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// Open connections; further ones wait in the kernel's backlog.
    pub connections: usize,
    /// Requests being answered, over all connections; further ones are refused with 503.
    pub requests: usize,
    /// One request's body.
    pub body: usize,
    /// Collected bodies of all requests being answered; a body that would exceed it is refused with 503.
    pub bodies: usize,
    /// One HTTP/1 request's header.
    pub header: usize,
    /// Fields in a header.
    pub header_fields: usize,
    /// Streams on one HTTP/2 connection.
    pub streams: u32,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            connections: 10_000,
            requests: 10_000,
            body: 4 << 20,
            bodies: 64 << 20,
            header: 32 << 10,
            header_fields: 64,
            streams: 100,
        }
    }
}

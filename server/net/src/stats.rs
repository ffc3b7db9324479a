//! What the loop counts. Plain numbers: whoever exports them names them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of one listener.
#[derive(Debug, Default)]
pub struct Stats {
    opened: AtomicU64,
    closed: AtomicU64,
    requests: AtomicU64,
    refused: [AtomicU64; Refusal::ALL.len()],
    turns: AtomicU64,
}

/// Why a connection was ended, or a request refused, by the loop itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Nothing came, or not all of an HTTP/2 preface.
    FirstByte,
    /// The TLS handshake failed or took too long.
    Handshake,
    /// The header took too long.
    Header,
    /// The body took too long.
    BodyTime,
    /// The body was too large.
    BodySize,
    /// The client did not take its answer.
    Write,
    /// The proxy's header was missing, doubled or not an address.
    ClientAddress,
    /// Too many requests or body bytes at once.
    Overload,
    /// The process has no file descriptor or memory left for another connection.
    Resources,
}

impl Refusal {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 9] = [
        Self::FirstByte,
        Self::Handshake,
        Self::Header,
        Self::BodyTime,
        Self::BodySize,
        Self::Write,
        Self::ClientAddress,
        Self::Overload,
        Self::Resources,
    ];

    /// A metric label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::FirstByte => "first_byte",
            Self::Handshake => "handshake",
            Self::Header => "header",
            Self::BodyTime => "body_time",
            Self::BodySize => "body_size",
            Self::Write => "write",
            Self::ClientAddress => "client_address",
            Self::Overload => "overload",
            Self::Resources => "resources",
        }
    }
}

impl Stats {
    /// Connections accepted since the start.
    pub fn opened(&self) -> u64 {
        self.opened.load(Relaxed)
    }

    /// Connections open now.
    pub fn open(&self) -> u64 {
        self.opened().saturating_sub(self.closed.load(Relaxed))
    }

    /// Requests read since the start, refused ones included.
    pub fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    /// Refusals since the start.
    pub fn refused(&self, why: Refusal) -> u64 {
        self.refused[why as usize].load(Relaxed)
    }

    /// Turns of the accept loop. It turns every few seconds even when nobody connects, so a number that stands
    /// still is a loop that does.
    pub fn turns(&self) -> u64 {
        self.turns.load(Relaxed)
    }

    pub(crate) fn connection_opened(&self) {
        self.opened.fetch_add(1, Relaxed);
    }

    pub(crate) fn connection_closed(&self) {
        self.closed.fetch_add(1, Relaxed);
    }

    pub(crate) fn request(&self) {
        self.requests.fetch_add(1, Relaxed);
    }

    pub(crate) fn refuse(&self, why: Refusal) {
        self.refused[why as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn turn(&self) {
        self.turns.fetch_add(1, Relaxed);
    }
}

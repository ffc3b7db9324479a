//! The small types everything else is written in.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A point in time, or a span, in milliseconds. Points count from the Unix epoch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Millis(pub u64);

impl Millis {
    /// The end of time: a timer that never fires, a message that never expires.
    pub const NEVER: Self = Self(u64::MAX);
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A span of whole seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1000))
    }

    /// Whole seconds, rounded down.
    pub const fn as_secs(self) -> u64 {
        self.0 / 1000
    }

    /// This point moved later by `span`; stops at [`Millis::NEVER`].
    #[must_use]
    pub const fn plus(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// The span since `earlier`; zero if that is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// A tenant. Never reused: a tenant deleted and made anew is another one.
    TenantId
}
number! {
    /// A queue. Unique in the node and never reused: a recreated queue is another one.
    QueueId
}
number! {
    /// A message's place in its queue: unique there, increasing, never reused.
    Seq
}
number! {
    /// The number of a shard's group, in the order the groups were made.
    OpNo
}
number! {
    /// A waiting long poll, a consumer or a stream.
    ReceiverId
}
number! {
    /// A stored body. Several entries may refer to one.
    BodyId
}

/// One life of a shard, from claim to stop. Tells a delivery made before a restart from one made after it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Epoch(pub u32);

/// Where the store keeps a body; the engine carries it and never looks inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BodyAt {
    /// The store's own position.
    pub position: u64,
    /// Length in bytes.
    pub len: u32,
}

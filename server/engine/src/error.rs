//! The one error enum of the engine, by meaning. Each front end maps it to its protocol in one table.

/// Why the engine refused. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No such tenant, queue or message.
    #[error("not found")]
    NotFound,
    /// An entity with that name exists and differs; names the setting that does.
    #[error("exists already with a different {0}")]
    AlreadyExists(&'static str),
    /// The name was deleted too recently.
    #[error("deleted less than a minute ago")]
    DeletedRecently,
    /// Such an operation ran too recently or is still running.
    #[error("busy")]
    Busy,
    /// The queue holds as many messages as it may.
    #[error("the queue holds its maximum of {limit} messages")]
    QueueFull {
        /// The cap that was met.
        limit: u64,
    },
    /// The tenant holds as many message bytes as it may.
    #[error("the tenant holds its maximum of {limit} message bytes")]
    TenantFull {
        /// The cap that was met.
        limit: u64,
    },
    /// The tenant's deduplication memory is used up.
    #[error("the tenant remembers its maximum of {limit} bytes of deduplication ids")]
    DeduplicationFull {
        /// The cap that was met.
        limit: u64,
    },
    /// The tenant has as many entities as it may.
    #[error("the tenant has its maximum of {limit} entities")]
    TooManyEntities {
        /// The cap that was met.
        limit: u64,
    },
    /// The tenant's settings, tags and policies together are too large.
    #[error("the tenant's settings exceed {limit} bytes")]
    SettingsFull {
        /// The cap that was met.
        limit: u64,
    },
    /// The tenant has as many waiting receivers, or the queue as many leases, as it may.
    #[error("at most {limit} {what} at once")]
    TooMany {
        /// What there are too many of.
        what: &'static str,
        /// The cap that was met.
        limit: u64,
    },
    /// The node refuses growth: its disk or memory runs short, or it holds its maximum of tenants.
    #[error("the service has no room: {0}")]
    NodeFull(&'static str),
    /// The message is larger than its queue takes.
    #[error("the message has {size} bytes, the queue takes {limit}")]
    TooLarge {
        /// The queue's maximum.
        limit: u64,
        /// What the message counts.
        size: u64,
    },
    /// A lifetime, delay or lease above the cap.
    #[error("{what} may be at most {limit_ms} ms")]
    TooLong {
        /// Which lifetime.
        what: &'static str,
        /// The cap in milliseconds.
        limit_ms: u64,
    },
    /// The delivery that the handle names is over: the message was redelivered, settled or expired.
    #[error("the lease is over")]
    LeaseLost,
    /// The message exists and is not leased.
    #[error("the message is not in flight")]
    NotLeased,
    /// The operation does not fit the entity, whatever its state.
    #[error("not allowed: {0}")]
    NotAllowed(&'static str),
}

/// The engine's result.
pub type Result<T> = std::result::Result<T, Error>;

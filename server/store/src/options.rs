//! How a store behaves.

use std::{fmt, sync::Arc, time::Duration};

/// When an answer may be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// After the sync: what was answered survives a power cut.
    Always,
    /// After the write, with a sync every so often: what was answered survives the death of the process, but a power
    /// cut or a crash of the kernel can lose everything of the last interval. Order and atomicity hold all the same.
    Interval(Duration),
}

/// What a store is opened with.
#[derive(Clone)]
pub struct Options {
    /// The size of a segment file. A larger group gets a segment of its own size.
    pub segment_bytes: u64,
    /// When an answer may be given.
    pub sync: Sync,
    /// Bytes that may be between [`room`](crate::Store::room) and the end of their commit.
    pub max_in_flight_bytes: usize,
    /// The largest group; `room` refuses more with `TooLarge`.
    pub max_group_bytes: usize,
    /// Bytes that one commit gathers at most (one group may be larger).
    pub max_commit_bytes: usize,
    /// Preallocated segments that only settlements may use.
    pub reserve_segments: u32,
    /// Growth is refused when less than this is free on the file system.
    pub min_free_bytes: u64,
    /// Growth is refused when the log (reserve included) would pass this.
    pub max_log_bytes: u64,
    /// How long a lazy group may lie unsynced.
    pub lazy_sync: Duration,
    /// With an interval, a sync comes ahead of its time once so much is written: the end of a segment waits for one,
    /// and everybody with it.
    pub sync_ahead_bytes: u64,
    /// Memory for checkpoint pages.
    pub checkpoint_cache_bytes: usize,
    /// Called after each commit: what a benchmark needs to repeat the same writes without the store.
    pub trace: Option<Trace>,
    /// A deliberate fault, to prove that the tests would notice.
    #[cfg(feature = "sim")]
    pub mutation: Option<Mutation>,
}

/// Called after each commit.
pub type Trace = Arc<dyn Fn(CommitTrace) + Send + std::marker::Sync>;

/// One commit as the disk saw it.
#[derive(Clone, Copy, Debug)]
pub struct CommitTrace {
    /// Bytes written, in one write.
    pub bytes: u64,
    /// Groups in it.
    pub groups: u32,
    /// Whether a sync followed.
    pub synced: bool,
}

/// One rule switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Answers without syncing the log.
    NoSync,
    /// Takes any header for a valid one.
    NoHeaderCheck,
    /// Hands out bodies without checking them.
    NoBodyCheck,
    /// Deletes segments that checkpoints still need.
    ReclaimWithoutCheckpoint,
    /// Never syncs the directory.
    NoDirectorySync,
    /// Continues the newest segment in place after an unclean end.
    TrustPageCache,
    /// Leaves out a body although its killer is not in the cut.
    ElideBeyondCut,
    /// Takes every bad group for a torn tail.
    IgnoreSyncedThrough,
}

impl Options {
    pub(crate) fn mutated(&self, mutation: Mutation) -> bool {
        #[cfg(feature = "sim")]
        return self.mutation == Some(mutation);
        #[cfg(not(feature = "sim"))]
        {
            let _ = mutation;
            false
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            sync: Sync::Always,
            max_in_flight_bytes: 64 << 20,
            max_group_bytes: 48 << 20,
            max_commit_bytes: 16 << 20,
            reserve_segments: 2,
            min_free_bytes: 256 << 20,
            max_log_bytes: u64::MAX,
            lazy_sync: Duration::from_secs(1),
            sync_ahead_bytes: 4 << 20,
            checkpoint_cache_bytes: 64 << 20,
            trace: None,
            #[cfg(feature = "sim")]
            mutation: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("segment_bytes", &self.segment_bytes)
            .field("sync", &self.sync)
            .field("max_in_flight_bytes", &self.max_in_flight_bytes)
            .field("max_group_bytes", &self.max_group_bytes)
            .field("max_commit_bytes", &self.max_commit_bytes)
            .field("reserve_segments", &self.reserve_segments)
            .field("min_free_bytes", &self.min_free_bytes)
            .field("max_log_bytes", &self.max_log_bytes)
            .finish_non_exhaustive()
    }
}

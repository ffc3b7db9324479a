//! PowerQueue's durable half: the journal, its checkpoints, recovery and reclaiming.
//!
//! One truth: the journal, a segmented append-only log that every shard of the node shares. `queue` holds what waits
//! and decides what is left out, `committer` writes and syncs it, `frame` and `segment` are the bytes, `recover` and
//! `replay` read them back, `segments` knows which files are still needed, `checkpoint` is the separable half in redb.
//! Everything reaches the disk through [`Fs`], so that the simulated disk lies under the shipped code.

mod backup;
mod checkpoint;
mod committer;
mod disk;
mod frame;
mod fs;
pub mod group;
mod lead;
mod options;
mod queue;
mod recover;
mod repair;
mod replay;
mod room;
mod segment;
mod segments;
#[cfg(feature = "sim")]
pub mod sim;
mod store;
mod sync;
mod ticket;

pub use backup::{Backup, BackupError, BackupFile};
pub use checkpoint::CheckpointError;
pub use committer::{StoreFailure, Turn};
pub use disk::DiskFs;
pub use fs::{File, Fs};
pub use group::{BodyRef, Class, Committed, Epoch, Group, PendingBody, Position, ShardId};
#[cfg(feature = "sim")]
pub use options::Mutation;
pub use options::{CommitTrace, Options, Sync, Trace};
pub use recover::OpenError;
pub use repair::{RepairError, RepairReport, repair};
pub use replay::{Damage, ReplayError, ReplaySummary, Replayed};
pub use room::{Permit, RoomError, RoomKind};
pub use segment::FORMAT;
pub use segments::Candidate;
pub use store::{ClaimError, OnCommitted, OnFailure, ReadError, Status, Store};
pub use ticket::{SubmitError, Ticket};

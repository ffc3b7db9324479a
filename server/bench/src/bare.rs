//! The same writes without the store: what the disk alone would take.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use powerqueue_store::{CommitTrace, Trace};
use rustix::fs::FallocateFlags;

/// Commits as they were made, each with the moment it was through.
#[derive(Clone, Default)]
pub(crate) struct Recorder(Arc<Mutex<Vec<(Instant, CommitTrace)>>>);

impl Recorder {
    pub(crate) fn trace(&self) -> Trace {
        let commits = Arc::clone(&self.0);
        Arc::new(move |commit| commits.lock().push((Instant::now(), commit)))
    }

    /// What was recorded since the last time.
    pub(crate) fn take(&self) -> Vec<(Instant, CommitTrace)> {
        std::mem::take(&mut self.0.lock())
    }
}

/// Some commits, and how long the disk alone took over them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bare {
    pub(crate) commits: usize,
    pub(crate) elapsed: Duration,
}

/// How the file is prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prepared {
    /// Space reserved by `fallocate`, as the store's segments are.
    Allocated,
    /// Written with zeroes and synced, so that a sync has no extents to convert.
    Zeroed,
}

/// Repeats the commits, up to `limit` of time: one write each, and a sync where there was one.
pub(crate) fn repeat(
    directory: &Path,
    commits: &[(Instant, CommitTrace)],
    prepared: Prepared,
    limit: Duration,
) -> io::Result<Bare> {
    let total: u64 = commits.iter().map(|(_, commit)| commit.bytes).sum();
    let largest = commits.iter().map(|(_, commit)| commit.bytes).max();
    let buffer = vec![0x5a; largest.unwrap_or(0) as usize];
    let path = directory.join("bare");
    let file = File::create(&path)?;
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, total.max(1))?;
    if prepared == Prepared::Zeroed {
        let zeroes = vec![0; 1 << 20];
        for offset in (0..total).step_by(zeroes.len()) {
            file.write_all_at(&zeroes, offset)?;
        }
    }
    file.sync_all()?;
    let started = Instant::now();
    let (mut offset, mut done) = (0, 0);
    for (_, commit) in commits {
        if let Some(bytes) = buffer.get(..commit.bytes as usize) {
            file.write_all_at(bytes, offset)?;
        }
        if commit.synced {
            file.sync_data()?;
        }
        offset += commit.bytes;
        done += 1;
        if started.elapsed() > limit {
            break;
        }
    }
    let elapsed = started.elapsed();
    drop(file);
    std::fs::remove_file(path)?;
    Ok(Bare {
        commits: done,
        elapsed,
    })
}

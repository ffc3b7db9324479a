//! A consistent copy of the store while it runs.
//!
//! What a backup holds is what a power cut would leave at one moment: the checkpoint as of one redb transaction, and the
//! log up to the end of what was synced after that transaction began. Recovery knows how to open that. Three rules:
//!
//! - No checkpoint commits between the transaction's begin and the list of segments, so nothing that the copied
//!   checkpoint still needs has been deleted by then; afterwards the files are held open.
//! - The log's end is taken after the first list: whatever made a segment's last body dead lies before that end.
//! - The segments are listed again after the end is taken, so those begun meanwhile are there too.

use std::{fmt, io, sync::Arc};

use crate::{
    checkpoint::{CHECKPOINT, CheckpointError},
    fs::File,
    group::Position,
    recover::FORMAT_FILE,
    segment::{SEGMENT_HEADER, segment_name},
    segments::Segment,
    store::{Shared, Store},
};

/// The files of a consistent copy, held open. Reading them does not hold the store up; as long as it is there, deleted
/// segments still occupy their space.
#[derive(Debug)]
pub struct Backup {
    /// The end of the log in it: everything durable before the backup began is in.
    pub end: Position,
    /// The files. Together, under their names, they are a store's directory.
    pub files: Vec<BackupFile>,
}

/// A file of a [`Backup`], which is its first [`len`](Self::len) bytes.
pub struct BackupFile {
    /// Its name in the store's directory.
    pub name: String,
    len: u64,
    file: Arc<dyn File>,
}

/// Why there is no backup.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The checkpoint cannot be copied.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The disk cannot be read.
    #[error("the store's directory cannot be read: {0}")]
    Io(#[from] io::Error),
}

impl BackupFile {
    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Fills `into` with the bytes from `offset` on.
    ///
    /// # Errors
    /// If they lie beyond the end, or the disk cannot be read.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        if offset.saturating_add(into.len() as u64) > self.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.file.read_at(offset, into)
    }
}

impl fmt::Debug for BackupFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.name, self.len)
    }
}

impl Store {
    /// A consistent copy, without the node-local values named in `without`. Blocks on the disk while the checkpoint is
    /// copied; the store goes on meanwhile.
    ///
    /// # Errors
    /// If the checkpoint cannot be copied or the directory cannot be read.
    pub fn backup(&self, without: &[&str]) -> Result<Backup, BackupError> {
        self.shared().backup(without)
    }
}

impl Shared {
    fn backup(&self, without: &[&str]) -> Result<Backup, BackupError> {
        let mut segments = Vec::new();
        let mut end = 0;
        let checkpoint = self.checkpoints.export(without, || {
            segments = self.segments.snapshot();
            end = self.queue.synced();
            for newer in self.segments.snapshot() {
                let base = newer.header.base;
                match segments.iter_mut().find(|known| known.header.base == base) {
                    Some(known) => *known = newer,
                    None => segments.push(newer),
                }
            }
        })?;
        let format = self.fs.open(FORMAT_FILE)?;
        let mut files = vec![whole(FORMAT_FILE, format)?, whole(CHECKPOINT, checkpoint)?];
        for segment in segments {
            files.extend(prefix(segment, end)?);
        }
        let end = Position(end);
        Ok(Backup { end, files })
    }
}

fn whole(name: &str, file: Arc<dyn File>) -> io::Result<BackupFile> {
    Ok(BackupFile {
        name: name.to_owned(),
        len: file.len()?,
        file,
    })
}

/// The part of a segment that lies before the log's end; `None` for one that only begins there.
fn prefix(segment: Segment, end: u64) -> io::Result<Option<BackupFile>> {
    let base = segment.header.base;
    let end = segment.end.unwrap_or(end).min(end);
    // The log's first segment is the store's own evidence of where it begins, even while it is empty.
    if end < base || (end == base && base > 0) {
        return Ok(None);
    }
    let len = (SEGMENT_HEADER + (end - base)).min(segment.file.len()?);
    Ok(Some(BackupFile {
        name: segment_name(base),
        len,
        file: segment.file,
    }))
}

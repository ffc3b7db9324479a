//! Opening a directory: whose it is, where its log ends, and what a power cut or a failed sync left behind.
//!
//! After an unclean end the page cache is not evidence: a failed sync leaves pages that read well and are not on the
//! disk. So the newest segment's groups are copied to a new file, which is synced and takes the old one's name, before
//! anything is served; the torn tail stays behind with the old file. The checkpoint file is rewritten in the same way
//! if a failed sync left its marker.

use std::{any::Any, io, sync::Arc};

use crate::{
    checkpoint::{BACKUP_TMP, CHECKPOINT, CHECKPOINT_TMP, CheckpointError, Checkpoints, Found},
    committer::{Active, RESERVE_PREFIX, SUSPECT, Writer},
    fs::{File, Fs},
    options::{Mutation, Options},
    segment::{
        FORMAT, SEGMENT_HEADER, SegmentHeader, TailRules, Walk, find_tail, list_segments,
        segment_name,
    },
    segments::{Segment, Segments},
};

pub(crate) const FORMAT_FILE: &str = "FORMAT";
const FORMAT_PREFIX: &str = "powerqueue store, format ";
const COPY: usize = 4 << 20;
/// Files that an earlier process had not finished.
const UNFINISHED: [&str; 5] = [
    FORMAT_TMP,
    SEGMENT_TMP,
    RECOVER_TMP,
    CHECKPOINT_TMP,
    BACKUP_TMP,
];
const FORMAT_TMP: &str = "format.tmp";
const SEGMENT_TMP: &str = "segment.tmp";
const RECOVER_TMP: &str = "recover.tmp";

/// Why a directory does not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory does not let this user write.
    #[error("the data directory is not writable: {0}")]
    Unwritable(io::Error),
    /// Another process has it.
    #[error("the data directory is in use by another process")]
    Locked,
    /// A later version wrote it.
    #[error("the data directory has format {found}, and this version reads up to {known}")]
    NewerFormat {
        /// The format found.
        found: u32,
        /// The newest that this version reads.
        known: u32,
    },
    /// A file that the store cannot do without is damaged.
    #[error("{file} is damaged: {what}; `powerqueue repair` shows the choices")]
    Corrupt {
        /// The file's name.
        file: String,
        /// What is wrong with it.
        what: String,
    },
    /// There is no space for what recovery has to write.
    #[error("the disk is too full to recover the log; free {0} bytes")]
    Full(u64),
    /// Another failure of the file system.
    #[error("the data directory cannot be read or written: {0}")]
    Io(io::Error),
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::Unwritable(error)
            }
            _ => Self::Io(error),
        }
    }
}

impl From<CheckpointError> for OpenError {
    fn from(error: CheckpointError) -> Self {
        match error {
            CheckpointError::Full => Self::Full(1 << 20),
            error => Self::Corrupt {
                file: CHECKPOINT.to_owned(),
                what: error.to_string(),
            },
        }
    }
}

/// An opened directory.
pub(crate) struct Opened {
    pub(crate) lock: Box<dyn Any + Send + Sync>,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) accepted: Vec<(u64, u64)>,
    pub(crate) segments: Segments,
    pub(crate) writer: Writer,
    pub(crate) clean: bool,
}

pub(crate) fn open(fs: &Arc<dyn Fs>, options: &Options) -> Result<Opened, OpenError> {
    let lock = fs.lock()?.ok_or(OpenError::Locked)?;
    open_locked(fs, options, lock).inspect_err(|error| {
        let suspicious = match error {
            OpenError::Io(_) => true,
            OpenError::Corrupt { file, .. } => file == CHECKPOINT,
            _ => false,
        };
        if suspicious {
            // It may have been a sync that failed. Best effort, and enough: see SUSPECT.
            let _ = fs.create(SUSPECT);
        }
    })
}

fn open_locked(
    fs: &Arc<dyn Fs>,
    options: &Options,
    lock: Box<dyn Any + Send + Sync>,
) -> Result<Opened, OpenError> {
    check_format(fs.as_ref())?;
    let names = fs.list()?;
    let suspect = names.iter().any(|name| name == SUSPECT);
    for name in names.iter().filter(|n| UNFINISHED.contains(&n.as_str())) {
        fs.remove(name)?;
    }
    if suspect && !options.mutated(Mutation::TrustPageCache) {
        rewrite_checkpoint(fs.as_ref(), &names)?;
    }
    let (checkpoints, found) = Checkpoints::open(fs.clone(), options.checkpoint_cache_bytes)?;
    let log = recover_log(fs, options, &checkpoints, &found, suspect)?;
    // Renames that an earlier process saw, but perhaps not the disk.
    sync_dir(fs.as_ref(), options)?;
    checkpoints.begin(found.generation, log.end)?;
    if suspect {
        fs.remove(SUSPECT)?;
        sync_dir(fs.as_ref(), options)?;
    }
    let mut writer = Writer::new(log.active, log.end, log.high_water, found.generation);
    adopt_reserve(fs.as_ref(), options, &mut writer)?;
    Ok(Opened {
        lock,
        checkpoints,
        accepted: found.accepted,
        segments: log.segments,
        writer,
        clean: log.clean,
    })
}

/// Reads the format marker, or makes it in an empty directory.
fn check_format(fs: &dyn Fs) -> Result<(), OpenError> {
    let names = fs.list()?;
    let corrupt = |what: &str| OpenError::Corrupt {
        file: FORMAT_FILE.to_owned(),
        what: what.to_owned(),
    };
    if !names.iter().any(|name| name == FORMAT_FILE) {
        if names.iter().any(|name| name == CHECKPOINT) || !list_segments(fs)?.is_empty() {
            return Err(corrupt("it is missing beside data"));
        }
        let tmp = FORMAT_TMP;
        let file = fs.create(tmp)?;
        file.write_at(0, format!("{FORMAT_PREFIX}{FORMAT}\n").as_bytes())?;
        file.sync_data()?;
        fs.rename(tmp, FORMAT_FILE)?;
        fs.sync_dir()?;
        return Ok(());
    }
    let file = fs.open(FORMAT_FILE)?;
    let mut text = vec![0; file.len()?.min(64) as usize];
    file.read_at(0, &mut text)?;
    let text = String::from_utf8_lossy(&text);
    let number = text.trim_end().strip_prefix(FORMAT_PREFIX);
    match number.and_then(|number| number.parse::<u32>().ok()) {
        Some(found) if found > FORMAT => Err(OpenError::NewerFormat {
            found,
            known: FORMAT,
        }),
        Some(_) => Ok(()),
        None => Err(corrupt("it does not name a format")),
    }
}

fn rewrite_checkpoint(fs: &dyn Fs, names: &[String]) -> Result<(), OpenError> {
    if !names.iter().any(|name| name == CHECKPOINT) {
        return Ok(());
    }
    let old = fs.open(CHECKPOINT)?;
    let len = old.len()?;
    let tmp = CHECKPOINT_TMP;
    let new = fs.create(tmp)?;
    let copied = copy(old.as_ref(), new.as_ref(), len).and_then(|()| new.sync_data());
    copied.map_err(|error| full_or_io(error, len))?;
    fs.rename(tmp, CHECKPOINT)?;
    fs.sync_dir()?;
    Ok(())
}

struct Log {
    segments: Segments,
    active: Active,
    end: u64,
    high_water: u64,
    clean: bool,
}

fn recover_log(
    fs: &Arc<dyn Fs>,
    options: &Options,
    checkpoints: &Checkpoints,
    found: &Found,
    suspect: bool,
) -> Result<Log, OpenError> {
    let segments = Segments::default();
    let floor = checkpoints
        .applied_by_any()
        .max(found.clean_end.unwrap_or(0))
        .max(found.proven_end);
    let mut bases = list_segments(fs.as_ref())?;
    let mut newest = None;
    while let Some(base) = bases.pop() {
        let file = fs.open(&segment_name(base))?;
        if let Some(header) = read_header(&file, base)? {
            newest = Some((header, file));
            break;
        }
        if floor > base {
            // Checkpoints say that it was written: all of it is lost, and replay will say so.
            newest = Some((unreadable(base), file));
            break;
        }
        // A newest file without a header and without frames is what a power cut can leave.
        tracing::warn!(
            file = segment_name(base),
            "removing an empty newest segment"
        );
        fs.remove(&segment_name(base))?;
    }
    let Some((header, file)) = newest else {
        let clean = found.clean_end.is_some() && !suspect;
        let active = first_segment(fs.as_ref(), options, floor, found)?;
        segments.add(Segment::new(
            active.header,
            active.file.clone(),
            None,
            options.segment_bytes,
        ));
        return Ok(Log {
            segments,
            active,
            end: floor,
            high_water: found.high_water,
            clean: clean || found.generation == 1,
        });
    };

    let rules = TailRules {
        check_crc: !options.mutated(Mutation::NoHeaderCheck),
        use_claims: !options.mutated(Mutation::IgnoreSyncedThrough),
    };
    let tail = find_tail(&file, &header, floor.max(header.base), rules)?;
    let clean = found.clean_end == Some(tail.end) && !suspect;
    let trusted = clean || options.mutated(Mutation::TrustPageCache);
    let file = if trusted {
        file
    } else {
        rewrite_segment(fs.as_ref(), options, file.as_ref(), &header, tail.end)?
    };
    for base in bases {
        let file = fs.open(&segment_name(base))?;
        let bytes = file.len()?;
        let header = match read_header(&file, base) {
            Err(OpenError::Io(error)) => {
                // One bad sector of an old file stops the shards that need it, not the node.
                tracing::error!(file = segment_name(base), %error, "a segment's header cannot be read");
                None
            }
            header => header?,
        };
        let header = header.unwrap_or(unreadable(base));
        segments.add(Segment::new(header, file, Some(base), bytes));
    }
    let bytes = file.len()?;
    let capacity_end = header.base + bytes.saturating_sub(SEGMENT_HEADER);
    segments.add(Segment::new(header, file.clone(), None, bytes));
    seal_all_but_newest(&segments);
    Ok(Log {
        segments,
        active: Active {
            header,
            file,
            capacity_end,
        },
        end: tail.end,
        high_water: tail.high_water.max(found.high_water),
        clean,
    })
}

/// A sealed segment's range ends at most where the next file begins.
fn seal_all_but_newest(segments: &Segments) {
    let all = segments.snapshot();
    for pair in all.windows(2) {
        segments.seal(pair[0].header.base, pair[1].header.base);
    }
}

/// The segment's header, from its frames if need be; `None` if nothing in the file can be read.
fn read_header(file: &Arc<dyn File>, base: u64) -> Result<Option<SegmentHeader>, OpenError> {
    let header = match SegmentHeader::read(file.as_ref(), base)? {
        Some(header) => Some(header),
        None => Walk::rebuild_header(file, base)?,
    };
    match header {
        Some(header) if header.version > FORMAT => Err(OpenError::NewerFormat {
            known: FORMAT,
            found: header.version,
        }),
        header => Ok(header),
    }
}

/// The header of a segment in which no frame will be found.
fn unreadable(base: u64) -> SegmentHeader {
    SegmentHeader {
        version: FORMAT,
        generation: 0,
        base,
        nonce: 0,
        high_water: 0,
    }
}

fn first_segment(
    fs: &dyn Fs,
    options: &Options,
    base: u64,
    found: &Found,
) -> Result<Active, OpenError> {
    let header = SegmentHeader {
        version: FORMAT,
        generation: found.generation,
        base,
        nonce: fs.random()?,
        high_water: found.high_water,
    };
    let tmp = SEGMENT_TMP;
    let size = options.segment_bytes;
    let file = fs.create(tmp)?;
    file.allocate(size)
        .map_err(|error| full_or_io(error, size))?;
    file.write_at(0, &header.encode())?;
    file.sync_data()?;
    fs.rename(tmp, &segment_name(base))?;
    sync_dir(fs, options)?;
    Ok(Active {
        header,
        file,
        capacity_end: base + size - SEGMENT_HEADER,
    })
}

/// Copies the newest segment up to `end` to a new file and gives it the old one's name, durably.
fn rewrite_segment(
    fs: &dyn Fs,
    options: &Options,
    old: &dyn File,
    header: &SegmentHeader,
    end: u64,
) -> Result<Arc<dyn File>, OpenError> {
    let held = old.len()?;
    let used = (SEGMENT_HEADER + (end - header.base)).min(held);
    let size = options.segment_bytes.max(used);
    let tmp = RECOVER_TMP;
    let mut new = fs.create(tmp)?;
    if let Err(error) = new.allocate(size) {
        let reserve = fs.list()?;
        let reserve = reserve.iter().find(|name| name.starts_with(RESERVE_PREFIX));
        let Some(reserve) = reserve.filter(|_| error.kind() == io::ErrorKind::StorageFull) else {
            return Err(full_or_io(error, size));
        };
        // This is what the reserve is for.
        fs.remove(reserve)?;
        new = fs.create(tmp)?;
        new.allocate(size)
            .map_err(|error| full_or_io(error, size))?;
    }
    copy(old, new.as_ref(), used)?;
    new.sync_data()?;
    fs.rename(tmp, &segment_name(header.base))?;
    sync_dir(fs, options)?;
    Ok(new)
}

/// Takes over the preallocated files of an earlier process. What is in them does not matter: a segment's frames repeat
/// its nonce, and that is drawn when the file gets its name.
fn adopt_reserve(fs: &dyn Fs, options: &Options, writer: &mut Writer) -> Result<(), OpenError> {
    for name in fs.list()? {
        let Some(number) = name.strip_prefix(RESERVE_PREFIX) else {
            continue;
        };
        let number = u32::from_str_radix(number, 16).ok();
        let whole = fs.open(&name)?.len()? == options.segment_bytes;
        let wanted = writer.reserve.len() < options.reserve_segments as usize;
        match number.filter(|_| whole && wanted) {
            Some(number) => {
                writer.next_reserve = writer.next_reserve.max(number);
                writer.reserve.push(name);
            }
            None => fs.remove(&name)?,
        }
    }
    Ok(())
}

fn copy(from: &dyn File, to: &dyn File, len: u64) -> io::Result<()> {
    let mut buffer = vec![0; COPY.min(len as usize)];
    let mut at = 0;
    while at < len {
        let part = (len - at).min(COPY as u64) as usize;
        from.read_at(at, &mut buffer[..part])?;
        to.write_at(at, &buffer[..part])?;
        at += part as u64;
    }
    Ok(())
}

fn sync_dir(fs: &dyn Fs, options: &Options) -> io::Result<()> {
    if options.mutated(Mutation::NoDirectorySync) {
        return Ok(());
    }
    fs.sync_dir()
}

fn full_or_io(error: io::Error, need: u64) -> OpenError {
    if error.kind() == io::ErrorKind::StorageFull {
        OpenError::Full(need)
    } else {
        error.into()
    }
}

//! What redb holds: checkpoints by shard, epochs, and node-local things that nothing in the message path waits for.
//!
//! Every commit is immediate and leaves what a fast reopening needs (`quick_repair`). A database that has seen a full
//! disk is opened anew before its next use: its last commit stands. Any other failed write or sync is the disk's, and
//! fails the store.

use std::{collections::BTreeMap, io, sync::Arc};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use redb::{
    Database, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction,
};

use crate::{
    fs::{File, Fs},
    group::{Epoch, Position, ShardId},
};

pub(crate) const CHECKPOINT: &str = "checkpoint.redb";
pub(crate) const CHECKPOINT_TMP: &str = "checkpoint.tmp";
/// A copy for a backup. It loses its name as soon as it is whole.
pub(crate) const BACKUP_TMP: &str = "backup.tmp";

const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const SHARDS: TableDefinition<'_, u16, (u32, u64)> = TableDefinition::new("shards");
const STATE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("state");
const LOCAL: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("local");
/// Ranges of the log whose loss an operator accepted.
const ACCEPTED: TableDefinition<'_, u64, u64> = TableDefinition::new("accepted");

const GENERATION: &str = "generation";
/// The log's end at a clean shutdown; absent while the store is open.
const CLEAN_END: &str = "clean_end";
/// The log's end at the last opening: it was on the disk then, so what is missing before is a loss, not a torn tail.
const PROVEN_END: &str = "proven_end";
/// The largest hint at the last checkpoint, for a log that has lost even its newest header.
const HIGH_WATER: &str = "high_water";

/// Why a checkpoint operation failed.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The disk is full; nothing was changed, and the store goes on.
    #[error("the disk is too full to write a checkpoint")]
    Full,
    /// The position is below the one already checkpointed, or beyond the log's end.
    #[error("checkpoint at {applied:?} does not lie between the last one and the log's end")]
    OutOfOrder {
        /// The position refused.
        applied: Position,
    },
    /// The shard has unreadable groups and accepts nothing until they are repaired.
    #[error("shard {} is stopped because part of its log cannot be read", .0.0)]
    Stopped(ShardId),
    /// The store has failed or was closed.
    #[error("the store is not running")]
    NotRunning,
    /// The disk failed; so has the store.
    #[error("the checkpoint file failed: {0}")]
    Io(String),
}

/// A shard as the checkpoint knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShardRow {
    pub(crate) epoch: Epoch,
    pub(crate) applied: Position,
}

/// What [`Checkpoints::open`] found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// The number of this opening.
    pub(crate) generation: u32,
    pub(crate) clean_end: Option<u64>,
    pub(crate) proven_end: u64,
    pub(crate) high_water: u64,
    pub(crate) accepted: Vec<(u64, u64)>,
}

/// The checkpoint file.
pub(crate) struct Checkpoints {
    fs: Arc<dyn Fs>,
    cache: usize,
    /// `None` after a full disk, until the next use.
    database: RwLock<Option<Database>>,
    shards: Mutex<BTreeMap<ShardId, ShardRow>>,
    /// Held by the one backup that copies the file; taken before any other lock.
    exporting: Mutex<()>,
}

impl Checkpoints {
    /// Opens or makes the file. Nothing in it changes before [`begin`](Self::begin).
    pub(crate) fn open(fs: Arc<dyn Fs>, cache: usize) -> Result<(Self, Found), CheckpointError> {
        let database = open_database(&fs, cache)?;
        let transaction = database.begin_read().map_err(failed)?;
        let meta = transaction.open_table(META).map_err(failed)?;
        let number = |key| -> Result<Option<u64>, CheckpointError> {
            Ok(meta.get(key).map_err(failed)?.map(|value| value.value()))
        };
        let mut shards = BTreeMap::new();
        let table = transaction.open_table(SHARDS).map_err(failed)?;
        for row in table.iter().map_err(failed)? {
            let (shard, row) = row.map_err(failed)?;
            let (epoch, applied) = row.value();
            let row = ShardRow {
                epoch: Epoch(epoch),
                applied: Position(applied),
            };
            shards.insert(ShardId(shard.value()), row);
        }
        let mut accepted = Vec::new();
        let table = transaction.open_table(ACCEPTED).map_err(failed)?;
        for row in table.iter().map_err(failed)? {
            let (from, to) = row.map_err(failed)?;
            accepted.push((from.value(), to.value()));
        }
        let found = Found {
            generation: number(GENERATION)?.unwrap_or(0) as u32 + 1,
            clean_end: number(CLEAN_END)?,
            proven_end: number(PROVEN_END)?.unwrap_or(0),
            high_water: number(HIGH_WATER)?.unwrap_or(0),
            accepted,
        };
        drop(meta);
        drop(transaction);
        let checkpoints = Self {
            fs,
            cache,
            database: RwLock::new(Some(database)),
            shards: Mutex::new(shards),
            exporting: Mutex::new(()),
        };
        Ok((checkpoints, found))
    }

    /// Makes this opening durable: the generation counts up, the clean mark goes, the log is proven up to `end`.
    pub(crate) fn begin(&self, generation: u32, end: u64) -> Result<(), CheckpointError> {
        self.write(|transaction| {
            let mut meta = transaction.open_table(META).map_err(failed)?;
            meta.insert(GENERATION, u64::from(generation))
                .map_err(failed)?;
            meta.remove(CLEAN_END).map_err(failed)?;
            meta.insert(PROVEN_END, end).map_err(failed)?;
            Ok(())
        })
    }

    /// Marks a clean shutdown with the log ending at `end`.
    pub(crate) fn mark_clean(&self, end: u64) -> Result<(), CheckpointError> {
        self.write(|transaction| {
            let mut meta = transaction.open_table(META).map_err(failed)?;
            meta.insert(CLEAN_END, end).map_err(failed)?;
            Ok(())
        })
    }

    /// Counts the epochs of `shards` up, durably. A shard never seen before starts applied at `end`: nothing of it
    /// lies before.
    pub(crate) fn claim(
        &self,
        shards: &[ShardId],
        end: u64,
    ) -> Result<Vec<Epoch>, CheckpointError> {
        let mut rows = self.shards.lock();
        let next: Vec<(ShardId, ShardRow)> = shards
            .iter()
            .map(|shard| {
                let row = rows.get(shard).copied().unwrap_or(ShardRow {
                    epoch: Epoch(0),
                    applied: Position(end),
                });
                let epoch = Epoch(row.epoch.0 + 1);
                (*shard, ShardRow { epoch, ..row })
            })
            .collect();
        self.write(|transaction| {
            let mut table = transaction.open_table(SHARDS).map_err(failed)?;
            for (shard, row) in &next {
                table
                    .insert(shard.0, (row.epoch.0, row.applied.0))
                    .map_err(failed)?;
            }
            Ok(())
        })?;
        rows.extend(next.iter().copied());
        Ok(next.into_iter().map(|(_, row)| row.epoch).collect())
    }

    /// Writes a shard's batch and its position, both or neither.
    pub(crate) fn checkpoint(
        &self,
        shard: ShardId,
        batch: &[(Vec<u8>, Option<Vec<u8>>)],
        applied: Position,
        high_water: u64,
    ) -> Result<(), CheckpointError> {
        let mut rows = self.shards.lock();
        let Some(row) = rows
            .get(&shard)
            .copied()
            .filter(|row| row.applied <= applied)
        else {
            return Err(CheckpointError::OutOfOrder { applied });
        };
        self.write(|transaction| {
            let mut state = transaction.open_table(STATE).map_err(failed)?;
            for (key, value) in batch {
                let key = state_key(shard, key);
                match value {
                    Some(value) => state.insert(key.as_slice(), value.as_slice()),
                    None => state.remove(key.as_slice()),
                }
                .map_err(failed)?;
            }
            let mut table = transaction.open_table(SHARDS).map_err(failed)?;
            table
                .insert(shard.0, (row.epoch.0, applied.0))
                .map_err(failed)?;
            let mut meta = transaction.open_table(META).map_err(failed)?;
            meta.insert(HIGH_WATER, high_water).map_err(failed)?;
            Ok(())
        })?;
        rows.insert(shard, ShardRow { applied, ..row });
        Ok(())
    }

    pub(crate) fn row(&self, shard: ShardId) -> Option<ShardRow> {
        self.shards.lock().get(&shard).copied()
    }

    pub(crate) fn rows(&self) -> Vec<(ShardId, ShardRow)> {
        self.shards.lock().iter().map(|(s, r)| (*s, *r)).collect()
    }

    /// Where every shard's checkpoint has passed; `None` without any shard.
    pub(crate) fn applied_by_all(&self) -> Option<u64> {
        self.shards.lock().values().map(|row| row.applied.0).min()
    }

    /// The furthest checkpoint: proof that the log had been synced up to there.
    pub(crate) fn applied_by_any(&self) -> u64 {
        let rows = self.shards.lock();
        rows.values().map(|row| row.applied.0).max().unwrap_or(0)
    }

    pub(crate) fn get(&self, shard: ShardId, key: &[u8]) -> Result<Option<Bytes>, CheckpointError> {
        self.read(|database| {
            let transaction = database.begin_read().map_err(failed)?;
            let table = transaction.open_table(STATE).map_err(failed)?;
            let value = table
                .get(state_key(shard, key).as_slice())
                .map_err(failed)?;
            Ok(value.map(|value| Bytes::copy_from_slice(value.value())))
        })
    }

    pub(crate) fn scan(
        &self,
        shard: ShardId,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, CheckpointError> {
        let first = state_key(shard, after.map_or(prefix, |after| after.max(prefix)));
        let prefix = state_key(shard, prefix);
        let after = after.map(|after| state_key(shard, after));
        self.read(|database| {
            let transaction = database.begin_read().map_err(failed)?;
            let table = transaction.open_table(STATE).map_err(failed)?;
            let mut rows = Vec::new();
            for row in table.range(first.as_slice()..).map_err(failed)? {
                let (key, value) = row.map_err(failed)?;
                if rows.len() == limit || !key.value().starts_with(&prefix) {
                    break;
                }
                if after.as_deref() != Some(key.value()) {
                    let key = Bytes::copy_from_slice(&key.value()[2..]);
                    rows.push((key, Bytes::copy_from_slice(value.value())));
                }
            }
            Ok(rows)
        })
    }

    pub(crate) fn put_local(&self, key: &str, value: Option<&[u8]>) -> Result<(), CheckpointError> {
        self.write(|transaction| {
            let mut local = transaction.open_table(LOCAL).map_err(failed)?;
            match value {
                Some(value) => local.insert(key, value),
                None => local.remove(key),
            }
            .map_err(failed)?;
            Ok(())
        })
    }

    pub(crate) fn get_local(&self, key: &str) -> Result<Option<Bytes>, CheckpointError> {
        self.read(|database| {
            let transaction = database.begin_read().map_err(failed)?;
            let table = transaction.open_table(LOCAL).map_err(failed)?;
            let value = table.get(key).map_err(failed)?;
            Ok(value.map(|value| Bytes::copy_from_slice(value.value())))
        })
    }

    /// Remembers that the loss of `ranges` is accepted.
    pub(crate) fn accept(&self, ranges: &[(u64, u64)]) -> Result<(), CheckpointError> {
        self.write(|transaction| {
            let mut table = transaction.open_table(ACCEPTED).map_err(failed)?;
            for (from, to) in ranges {
                // The longer one of two that begin at the same place covers both.
                let known = table.get(from).map_err(failed)?.map_or(0, |v| v.value());
                table.insert(from, known.max(*to)).map_err(failed)?;
            }
            Ok(())
        })
    }

    /// Raises epochs to at least those that the log shows: after the checkpoint file was lost.
    pub(crate) fn raise_epochs(
        &self,
        seen: &BTreeMap<ShardId, Epoch>,
    ) -> Result<(), CheckpointError> {
        let mut rows = self.shards.lock();
        let mut next = rows.clone();
        for (shard, epoch) in seen {
            let row = next.entry(*shard).or_insert(ShardRow {
                epoch: *epoch,
                applied: Position(0),
            });
            row.epoch = row.epoch.max(*epoch);
        }
        self.write(|transaction| {
            let mut table = transaction.open_table(SHARDS).map_err(failed)?;
            for (shard, row) in &next {
                table
                    .insert(shard.0, (row.epoch.0, row.applied.0))
                    .map_err(failed)?;
            }
            Ok(())
        })?;
        *rows = next;
        Ok(())
    }

    /// Copies everything as of one moment, but the clean mark and the node-local values named in `without`, to a file
    /// without a name. Nothing is committed between that moment and the end of `meanwhile`.
    pub(crate) fn export(
        &self,
        without: &[&str],
        meanwhile: impl FnOnce(),
    ) -> Result<Arc<dyn File>, CheckpointError> {
        let _exporting = self.exporting.lock();
        let from = self.read(|database| {
            let transaction = database.begin_read().map_err(failed)?;
            meanwhile();
            Ok(transaction)
        })?;
        let file = self.fs.create(BACKUP_TMP).map_err(io_failed)?;
        let copied = copy_tables(&from, &file, self.cache, without);
        self.fs.remove(BACKUP_TMP).map_err(io_failed)?;
        copied.map(|()| file)
    }

    /// Lets go of the file.
    pub(crate) fn close(&self) -> Result<(), CheckpointError> {
        match self.database.write().take() {
            Some(database) => database.close().map_err(failed),
            None => Ok(()),
        }
    }

    fn read<T>(
        &self,
        job: impl FnOnce(&Database) -> Result<T, CheckpointError>,
    ) -> Result<T, CheckpointError> {
        let database = self.database.read();
        match database.as_ref() {
            Some(database) => job(database),
            None => {
                drop(database);
                let mut database = self.database.write();
                job(self.reopened(&mut database)?)
            }
        }
    }

    fn write(
        &self,
        job: impl FnOnce(&WriteTransaction) -> Result<(), CheckpointError>,
    ) -> Result<(), CheckpointError> {
        let mut slot = self.database.write();
        let database = self.reopened(&mut slot)?;
        let outcome = begin_write(database).and_then(|transaction| {
            job(&transaction)?;
            transaction.commit().map_err(failed)
        });
        if outcome.is_err() {
            // redb refuses everything after a failed write; a fresh handle starts from the last commit.
            *slot = None;
        }
        outcome
    }

    fn reopened<'a>(
        &self,
        slot: &'a mut Option<Database>,
    ) -> Result<&'a Database, CheckpointError> {
        match slot {
            Some(database) => Ok(database),
            None => Ok(slot.insert(open_database(&self.fs, self.cache)?)),
        }
    }
}

fn copy_tables(
    from: &ReadTransaction,
    file: &Arc<dyn File>,
    cache: usize,
    without: &[&str],
) -> Result<(), CheckpointError> {
    let database = redb::Builder::new()
        .set_cache_size(cache)
        .create_with_backend(Backend(file.clone()))
        .map_err(failed)?;
    let to = begin_write(&database)?;
    copy_table(from, &to, META, |key| key != CLEAN_END)?;
    copy_table(from, &to, SHARDS, |_| true)?;
    copy_table(from, &to, STATE, |_| true)?;
    copy_table(from, &to, LOCAL, |key| !without.contains(&key))?;
    copy_table(from, &to, ACCEPTED, |_| true)?;
    to.commit().map_err(failed)?;
    database.close().map_err(failed)
}

fn copy_table<K: redb::Key + 'static, V: redb::Value + 'static>(
    from: &ReadTransaction,
    to: &WriteTransaction,
    table: TableDefinition<'_, K, V>,
    keep: impl Fn(K::SelfType<'_>) -> bool,
) -> Result<(), CheckpointError> {
    let source = from.open_table(table).map_err(failed)?;
    let mut copy = to.open_table(table).map_err(failed)?;
    for row in source.iter().map_err(failed)? {
        let (key, value) = row.map_err(failed)?;
        if keep(key.value()) {
            copy.insert(key.value(), value.value()).map_err(failed)?;
        }
    }
    Ok(())
}

fn io_failed(error: io::Error) -> CheckpointError {
    match error.kind() {
        io::ErrorKind::StorageFull => CheckpointError::Full,
        _ => CheckpointError::Io(error.to_string()),
    }
}

fn open_database(fs: &Arc<dyn Fs>, cache: usize) -> Result<Database, CheckpointError> {
    let io = io_failed;
    let builder = |file| {
        redb::Builder::new()
            .set_cache_size(cache)
            .create_with_backend(Backend(file))
            .map_err(failed)
    };
    if !fs.list().map_err(io)?.iter().any(|name| name == CHECKPOINT) {
        // A file that a power cut left half made would never open again: it gets its name when it is whole.
        let tmp = CHECKPOINT_TMP;
        let file = fs.create(tmp).map_err(io)?;
        let database = builder(file.clone())?;
        let transaction = begin_write(&database)?;
        transaction.open_table(META).map_err(failed)?;
        transaction.open_table(SHARDS).map_err(failed)?;
        transaction.open_table(STATE).map_err(failed)?;
        transaction.open_table(LOCAL).map_err(failed)?;
        transaction.open_table(ACCEPTED).map_err(failed)?;
        transaction.commit().map_err(failed)?;
        database.close().map_err(failed)?;
        file.sync_data().map_err(io)?;
        fs.rename(tmp, CHECKPOINT).map_err(io)?;
        fs.sync_dir().map_err(io)?;
    }
    builder(fs.open(CHECKPOINT).map_err(io)?)
}

fn begin_write(database: &Database) -> Result<WriteTransaction, CheckpointError> {
    let mut transaction = database.begin_write().map_err(failed)?;
    transaction.set_quick_repair(true);
    Ok(transaction)
}

fn state_key(shard: ShardId, key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(2 + key.len());
    bytes.extend_from_slice(&shard.0.to_be_bytes());
    bytes.extend_from_slice(key);
    bytes
}

fn failed(error: impl Into<redb::Error>) -> CheckpointError {
    match error.into() {
        redb::Error::Io(error) if error.kind() == io::ErrorKind::StorageFull => {
            CheckpointError::Full
        }
        error => CheckpointError::Io(error.to_string()),
    }
}

/// redb's pages over the store's file system.
#[derive(Debug)]
struct Backend(Arc<dyn File>);

impl redb::StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_at(offset, data)
    }
}

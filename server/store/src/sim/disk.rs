//! The disk itself.

use std::{
    any::Any,
    collections::BTreeMap,
    io,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;

use super::Random;
use crate::fs::{File, Fs};

/// What the disk writes at once or not at all.
pub const SECTOR: usize = 512;

/// A simulated disk. Clones are the same disk.
#[derive(Clone, Debug)]
pub struct SimFs(Arc<Mutex<Disk>>);

#[derive(Debug)]
struct Disk {
    random: Random,
    files: BTreeMap<u64, Inode>,
    next_file: u64,
    /// What the running system sees.
    names: BTreeMap<String, u64>,
    /// What a power cut leaves.
    durable_names: BTreeMap<String, u64>,
    unsynced_names: Vec<NameChange>,
    capacity: u64,
    operations: u64,
    /// The operation at which the power fails.
    crash_at: Option<u64>,
    off: bool,
    failing_syncs: u64,
    locked: Arc<AtomicBool>,
    /// Handles opened before this boot are dead.
    boot: u64,
}

#[derive(Debug, Default)]
struct Inode {
    cache: Vec<u8>,
    platter: Vec<u8>,
    waiting: Vec<Waiting>,
    /// Bytes that no read gets past.
    broken: Option<std::ops::Range<u64>>,
}

#[derive(Clone, Debug)]
enum Waiting {
    /// Sectors of the cache that were written: what is flushed is their content at that time.
    Write {
        offset: usize,
        bytes: Vec<u8>,
    },
    Length(usize),
}

#[derive(Clone, Debug)]
enum NameChange {
    Create { name: String, file: u64 },
    Rename { from: String, to: String, file: u64 },
    Remove { name: String },
}

impl SimFs {
    /// An empty disk of `capacity` bytes.
    pub fn new(seed: u64, capacity: u64) -> Self {
        Self(Arc::new(Mutex::new(Disk {
            random: Random::new(seed),
            files: BTreeMap::new(),
            next_file: 1,
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            unsynced_names: Vec::new(),
            capacity,
            operations: 0,
            crash_at: None,
            off: false,
            failing_syncs: 0,
            locked: Arc::new(AtomicBool::new(false)),
            boot: 0,
        })))
    }

    /// Cuts the power at the `after`-th operation from now: that one and all later ones fail.
    pub fn crash_after(&self, after: u64) {
        let mut disk = self.0.lock();
        disk.crash_at = Some(disk.operations + after);
    }

    /// From now on every operation fails, as for a process that is being killed.
    pub fn freeze(&self) {
        self.0.lock().off = true;
    }

    /// Whether the power has failed.
    pub fn is_off(&self) -> bool {
        self.0.lock().off
    }

    /// Cuts the power now (if it is still on) and restores it: what was not synced survives in part, at random.
    pub fn power_cycle(&self) {
        let mut disk = self.0.lock();
        disk.lose_unsynced();
        disk.restart();
    }

    /// The process dies and starts again: the page cache stays as it is.
    pub fn kill(&self) {
        self.0.lock().restart();
    }

    /// Makes the next `count` syncs of file contents fail.
    pub fn fail_syncs(&self, count: u64) {
        self.0.lock().failing_syncs = count;
    }

    /// Changes the size of the disk; what is on it stays.
    pub fn set_capacity(&self, capacity: u64) {
        self.0.lock().capacity = capacity;
    }

    /// Bytes in files that have a name.
    pub fn used(&self) -> u64 {
        self.0.lock().used()
    }

    /// Operations so far.
    pub fn operations(&self) -> u64 {
        self.0.lock().operations
    }

    /// Makes every read that touches these bytes of a file fail. False if there is no such file.
    pub fn break_reads(&self, name: &str, bytes: std::ops::Range<u64>) -> bool {
        let mut disk = self.0.lock();
        let id = disk.names.get(name).copied();
        let inode = id.and_then(|id| disk.files.get_mut(&id));
        inode.map(|inode| inode.broken = Some(bytes)).is_some()
    }

    /// Flips one bit of a file, in the cache and on the platter. False if the file is not that long.
    pub fn flip(&self, name: &str, offset: u64, bit: u8) -> bool {
        let mut disk = self.0.lock();
        let Some(id) = disk.names.get(name).copied() else {
            return false;
        };
        let Some(inode) = disk.files.get_mut(&id) else {
            return false;
        };
        let mask = 1 << (bit % 8);
        let Some(byte) = inode.cache.get_mut(offset as usize) else {
            return false;
        };
        *byte ^= mask;
        if let Some(byte) = inode.platter.get_mut(offset as usize) {
            *byte ^= mask;
        }
        true
    }
}

impl Disk {
    /// Counts an operation. Whether it may still happen: the one at which the power fails leaves its trace in what waits.
    fn operate(&mut self) -> io::Result<()> {
        if self.off {
            return Err(power_is_off());
        }
        self.operations += 1;
        if self.crash_at.is_some_and(|at| self.operations >= at) {
            self.off = true;
        }
        Ok(())
    }

    fn finish(&self) -> io::Result<()> {
        if self.off {
            Err(power_is_off())
        } else {
            Ok(())
        }
    }

    fn used(&self) -> u64 {
        let files = self.names.values().filter_map(|id| self.files.get(id));
        files.map(|inode| inode.cache.len() as u64).sum()
    }

    fn inode(&mut self, id: u64) -> io::Result<&mut Inode> {
        self.files
            .get_mut(&id)
            .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    fn grow(&mut self, id: u64, len: usize) -> io::Result<()> {
        let more = (len as u64).saturating_sub(self.inode(id)?.cache.len() as u64);
        if more > 0 && self.used() + more > self.capacity {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn lose_unsynced(&mut self) {
        let mut random = self.random.clone();
        for inode in self.files.values_mut() {
            let mut waiting = std::mem::take(&mut inode.waiting);
            inode.settle(&mut waiting, &mut random);
            inode.cache.clone_from(&inode.platter);
        }
        // Names keep their order, but any of the changes may be missing.
        for change in std::mem::take(&mut self.unsynced_names) {
            if random.percent(50) {
                change.apply(&mut self.durable_names);
            }
        }
        self.names.clone_from(&self.durable_names);
        let kept: std::collections::BTreeSet<u64> = self.names.values().copied().collect();
        self.files.retain(|id, _| kept.contains(id));
        self.random = random;
    }

    fn restart(&mut self) {
        self.off = false;
        self.crash_at = None;
        self.failing_syncs = 0;
        self.boot += 1;
        self.locked = Arc::new(AtomicBool::new(false));
    }
}

impl Inode {
    /// Applies all of `waiting` to the platter.
    fn flush(&mut self) {
        for change in std::mem::take(&mut self.waiting) {
            match change {
                Waiting::Write { offset, bytes } => {
                    let end = offset + bytes.len();
                    if self.platter.len() < end {
                        self.platter.resize(end, 0);
                    }
                    self.platter[offset..end].copy_from_slice(&bytes);
                }
                Waiting::Length(len) => self.platter.resize(len, 0),
            }
        }
    }

    /// Applies some of `waiting`, torn at sectors and in any order.
    fn settle(&mut self, waiting: &mut Vec<Waiting>, random: &mut Random) {
        // All, none, or a different fate for each sector: the extremes must not be rare.
        let style = random.below(4);
        if style == 0 {
            return;
        }
        if style == 2 {
            for at in (1..waiting.len()).rev() {
                waiting.swap(at, random.below(at as u64 + 1) as usize);
            }
        }
        for change in waiting.drain(..) {
            match change {
                Waiting::Length(len) => {
                    if style == 1 || random.percent(70) {
                        self.platter.resize(len, 0);
                    }
                }
                Waiting::Write { offset, bytes } => {
                    let mut at = offset;
                    let end = offset + bytes.len();
                    while at < end {
                        let sector_end = ((at / SECTOR + 1) * SECTOR).min(end);
                        if style == 1 || random.percent(50) {
                            if self.platter.len() < sector_end {
                                self.platter.resize(sector_end, 0);
                            }
                            self.platter[at..sector_end]
                                .copy_from_slice(&bytes[at - offset..sector_end - offset]);
                        }
                        at = sector_end;
                    }
                }
            }
        }
    }
}

impl NameChange {
    fn apply(self, names: &mut BTreeMap<String, u64>) {
        match self {
            Self::Create { name, file } => {
                names.insert(name, file);
            }
            Self::Rename { from, to, file } => {
                if names.get(&from) == Some(&file) {
                    names.remove(&from);
                }
                names.insert(to, file);
            }
            Self::Remove { name } => {
                names.remove(&name);
            }
        }
    }
}

impl Fs for SimFs {
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut disk = self.0.lock();
        disk.operate()?;
        let id = disk.names.get(name).copied();
        let id = id.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        disk.finish()?;
        Ok(self.handle(&disk, id))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut disk = self.0.lock();
        disk.operate()?;
        if let Some(id) = disk.names.get(name).copied() {
            let inode = disk.inode(id)?;
            inode.cache.clear();
            inode.waiting.push(Waiting::Length(0));
            disk.finish()?;
            return Ok(self.handle(&disk, id));
        }
        let id = disk.next_file;
        disk.next_file += 1;
        disk.files.insert(id, Inode::default());
        disk.names.insert(name.to_owned(), id);
        disk.unsynced_names.push(NameChange::Create {
            name: name.to_owned(),
            file: id,
        });
        disk.finish()?;
        Ok(self.handle(&disk, id))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut disk = self.0.lock();
        disk.operate()?;
        let file = disk.names.remove(from);
        let file = file.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        disk.names.insert(to.to_owned(), file);
        disk.unsynced_names.push(NameChange::Rename {
            from: from.to_owned(),
            to: to.to_owned(),
            file,
        });
        disk.finish()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut disk = self.0.lock();
        disk.operate()?;
        let file = disk.names.remove(name);
        file.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        disk.unsynced_names.push(NameChange::Remove {
            name: name.to_owned(),
        });
        disk.finish()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut disk = self.0.lock();
        disk.operate()?;
        disk.finish()?;
        Ok(disk.names.keys().cloned().collect())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut disk = self.0.lock();
        disk.operate()?;
        disk.finish()?;
        for change in std::mem::take(&mut disk.unsynced_names) {
            change.apply(&mut disk.durable_names);
        }
        Ok(())
    }

    fn lock(&self) -> io::Result<Option<Box<dyn Any + Send + Sync>>> {
        let mut disk = self.0.lock();
        disk.operate()?;
        disk.finish()?;
        if disk.locked.swap(true, Ordering::AcqRel) {
            return Ok(None);
        }
        Ok(Some(Box::new(Locked(disk.locked.clone()))))
    }

    fn free_space(&self) -> io::Result<u64> {
        let disk = self.0.lock();
        disk.finish()?;
        Ok(disk.capacity.saturating_sub(disk.used()))
    }

    fn random(&self) -> io::Result<u64> {
        Ok(self.0.lock().random.bits())
    }
}

impl SimFs {
    fn handle(&self, disk: &Disk, id: u64) -> Arc<dyn File> {
        Arc::new(SimFile {
            disk: Arc::downgrade(&self.0),
            id,
            boot: disk.boot,
        })
    }
}

struct Locked(Arc<AtomicBool>);

impl Drop for Locked {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

#[derive(Debug)]
struct SimFile {
    disk: Weak<Mutex<Disk>>,
    id: u64,
    boot: u64,
}

impl SimFile {
    /// Runs `job` on the file as one operation of the disk.
    fn with<T>(&self, job: impl FnOnce(&mut Disk, u64) -> io::Result<T>) -> io::Result<T> {
        let disk = self.disk.upgrade().ok_or_else(power_is_off)?;
        let mut disk = disk.lock();
        if disk.boot != self.boot {
            return Err(power_is_off());
        }
        disk.operate()?;
        let outcome = job(&mut disk, self.id)?;
        disk.finish()?;
        Ok(outcome)
    }
}

impl File for SimFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.with(|disk, id| {
            let inode = disk.inode(id)?;
            let end = offset + into.len() as u64;
            let broken = inode.broken.as_ref();
            if broken.is_some_and(|broken| offset < broken.end && broken.start < end) {
                return Err(io::Error::other("simulated failure of a read"));
            }
            let cache = &inode.cache;
            let from = offset as usize;
            let bytes = cache.get(from..from.saturating_add(into.len()));
            let bytes = bytes.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
            into.copy_from_slice(bytes);
            Ok(())
        })
    }

    fn read_cached_at(&self, offset: u64, into: &mut [u8]) -> io::Result<bool> {
        self.read_at(offset, into).map(|()| true)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.with(|disk, id| {
            let (from, end) = (offset as usize, offset as usize + bytes.len());
            disk.grow(id, end)?;
            let inode = disk.inode(id)?;
            if inode.cache.len() < end {
                inode.cache.resize(end, 0);
            }
            inode.cache[from..end].copy_from_slice(bytes);
            // A disk writes whole sectors, with whatever the cache has around the bytes.
            let first = from / SECTOR * SECTOR;
            let last = end.next_multiple_of(SECTOR).min(inode.cache.len());
            let bytes = inode.cache[first..last].to_vec();
            inode.waiting.push(Waiting::Write {
                offset: first,
                bytes,
            });
            Ok(())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.with(|disk, id| {
            if disk.off {
                // The power fails during the sync: what waits is still waiting.
                return Ok(());
            }
            if disk.failing_syncs > 0 {
                disk.failing_syncs -= 1;
                let mut random = disk.random.clone();
                let inode = disk.inode(id)?;
                let mut waiting = std::mem::take(&mut inode.waiting);
                inode.settle(&mut waiting, &mut random);
                disk.random = random;
                return Err(io::Error::other("simulated failure of a sync"));
            }
            disk.inode(id)?.flush();
            Ok(())
        })
    }

    fn len(&self) -> io::Result<u64> {
        self.with(|disk, id| Ok(disk.inode(id)?.cache.len() as u64))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with(|disk, id| {
            disk.grow(id, len as usize)?;
            let inode = disk.inode(id)?;
            inode.cache.resize(len as usize, 0);
            inode.waiting.push(Waiting::Length(len as usize));
            Ok(())
        })
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.with(|disk, id| {
            disk.grow(id, len as usize)?;
            let inode = disk.inode(id)?;
            if inode.cache.len() < len as usize {
                inode.cache.resize(len as usize, 0);
                inode.waiting.push(Waiting::Length(len as usize));
            }
            Ok(())
        })
    }
}

fn power_is_off() -> io::Error {
    io::Error::other("the power is off")
}

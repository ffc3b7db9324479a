//! The real file system.

use std::{
    any::Any,
    fs, io,
    io::{IoSliceMut, Read},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::{
    fs::FallocateFlags,
    io::{Errno, ReadWriteFlags, preadv2},
};

use crate::fs::{File, Fs};

const LOCK: &str = "LOCK";

/// A directory of the real file system.
#[derive(Debug)]
pub struct DiskFs {
    root: PathBuf,
    /// Kept open: it is what `sync_dir` and `free_space` ask.
    directory: fs::File,
}

impl DiskFs {
    /// Opens the directory, making it (readable by its owner only) if it does not exist.
    pub fn new(root: impl AsRef<Path>) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        let root = root.as_ref().to_owned();
        if !root.is_dir() {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&root)?;
            // The new name itself must survive a power cut.
            if let Some(parent) = root.parent() {
                let parent = if parent.as_os_str().is_empty() {
                    Path::new(".")
                } else {
                    parent
                };
                fs::File::open(parent)?.sync_all()?;
            }
        }
        let directory = fs::File::open(&root)?;
        Ok(Self { root, directory })
    }

    fn options() -> fs::OpenOptions {
        use std::os::unix::fs::OpenOptionsExt;
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        options
    }
}

impl Fs for DiskFs {
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let file = Self::options().open(self.root.join(name))?;
        Ok(Arc::new(DiskFile(file)))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let file = Self::options()
            .create(true)
            .truncate(true)
            .open(self.root.join(name))?;
        Ok(Arc::new(DiskFile(file)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.root.join(from), self.root.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.root.join(name))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.root)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.directory.sync_all()
    }

    fn lock(&self) -> io::Result<Option<Box<dyn Any + Send + Sync>>> {
        let file = Self::options()
            .create(true)
            .truncate(false)
            .open(self.root.join(LOCK))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(file))),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }

    fn free_space(&self) -> io::Result<u64> {
        let stat = rustix::fs::fstatvfs(&self.directory)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn random(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

#[derive(Debug)]
struct DiskFile(fs::File);

impl File for DiskFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(into, offset)
    }

    fn read_cached_at(&self, offset: u64, into: &mut [u8]) -> io::Result<bool> {
        let wanted = into.len();
        match preadv2(
            &self.0,
            &mut [IoSliceMut::new(into)],
            offset,
            ReadWriteFlags::NOWAIT,
        ) {
            // Less than all: the rest is not in memory, or there is no more; who waits for it will see which.
            Ok(read) => Ok(read == wanted),
            // Not in memory; or a file system or kernel that cannot say.
            Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.0, FallocateFlags::empty(), 0, len) {
            Ok(()) => Ok(()),
            // Some file systems (NFS, tmpfs of old kernels) cannot reserve; the length alone must do.
            Err(Errno::OPNOTSUPP) => {
                if self.len()? < len {
                    self.set_len(len)?;
                }
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}

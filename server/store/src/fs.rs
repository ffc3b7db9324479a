//! The file system as the store sees it: one flat directory of files.
//!
//! Everything durable goes through [`Fs`] and [`File`], redb's pages included, so that the simulated disk lies under
//! the shipped code. Nothing here buffers: a write is in the page cache when it returns, and on the disk only after
//! [`File::sync_data`]; a new, renamed or removed name is on the disk only after [`Fs::sync_dir`].

use std::{any::Any, fmt::Debug, io, sync::Arc};

/// One directory that belongs to one store.
pub trait Fs: Send + Sync + Debug {
    /// Opens an existing file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>>;
    /// Creates an empty file; one of that name is emptied.
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>>;
    /// Renames, replacing what has the new name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a name. Whoever holds the file open can still read it.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// The names in the directory, sorted.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Makes every create, rename and remove so far durable.
    fn sync_dir(&self) -> io::Result<()>;
    /// Takes the directory for this process; `None` if another one has it. Released when the result is dropped.
    fn lock(&self) -> io::Result<Option<Box<dyn Any + Send + Sync>>>;
    /// Bytes that an unprivileged process can still allocate.
    fn free_space(&self) -> io::Result<u64>;
    /// Sixty-four bits that nobody outside can guess.
    fn random(&self) -> io::Result<u64>;
}

/// An open file. Positions are bytes from its start.
pub trait File: Send + Sync + Debug {
    /// Fills `into` from `offset`, or fails with `UnexpectedEof`.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;
    /// The same if that takes no waiting for the disk; false, with `into` in any state, if it would or if nobody can tell.
    fn read_cached_at(&self, offset: u64, into: &mut [u8]) -> io::Result<bool>;
    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Waits until the content and the length are on the disk. After a failure the page cache is not evidence.
    fn sync_data(&self) -> io::Result<()>;
    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether there is nothing in it.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Cuts the file, or extends it with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Reserves the blocks of the first `len` bytes and extends the file to them with zeros.
    fn allocate(&self, len: u64) -> io::Result<()>;
}

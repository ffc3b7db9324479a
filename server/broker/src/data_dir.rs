//! The data directory: ours alone, in a format we know.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The format that this program writes. A higher number on disk is refused, a lower one is ours to upgrade.
const FORMAT: u32 = 1;

/// The directory, held until dropped.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    /// The lock goes with the process, however that ends.
    _lock: File,
}

impl DataDir {
    /// Makes the directory if it is missing (readable by its owner only), locks it and looks at its format.
    ///
    /// # Errors
    /// [`Failure`] if it cannot be written, belongs to another broker or is newer than we are.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let unwritable = |reason| Failure::Unwritable {
            path: path.to_owned(),
            reason,
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(unwritable)?;
        let lock = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(path.join("lock"))
            .map_err(unwritable)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Failure::Locked {
                    path: path.to_owned(),
                });
            }
            Err(TryLockError::Error(reason)) => return Err(unwritable(reason)),
        }
        let dir = Self {
            path: path.to_owned(),
            _lock: lock,
        };
        dir.check_format()?;
        Ok(dir)
    }

    /// Where it is, from the root.
    pub fn path(&self) -> PathBuf {
        std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone())
    }

    /// A small file's text, if the file is there.
    pub fn read(&self, name: &str) -> Result<Option<String>, Failure> {
        match fs::read_to_string(self.path.join(name)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.unwritable(error)),
        }
    }

    /// Writes a small file: after a crash it is whole or not there.
    pub fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        self.replace(name, text)
            .map_err(|error| self.unwritable(error))
    }

    /// Names the file that does not hold what it should.
    pub fn damaged(&self, name: &str, expected: &'static str) -> Failure {
        Failure::Damaged {
            path: self.path.join(name),
            expected,
        }
    }

    fn check_format(&self) -> Result<(), Failure> {
        const NAME: &str = "format";
        let Some(text) = self.read(NAME)? else {
            return self.write(NAME, &format!("{FORMAT}\n"));
        };
        let found = text
            .trim()
            .parse()
            .map_err(|_| self.damaged(NAME, "the number of a format"))?;
        if found > FORMAT {
            return Err(Failure::NewerFormat {
                path: self.path.clone(),
                found,
                known: FORMAT,
            });
        }
        Ok(())
    }

    fn replace(&self, name: &str, text: &str) -> io::Result<()> {
        let new = self.path.join(format!("{name}.new"));
        let mut file = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true)
            .mode(0o600)
            .open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, self.path.join(name))?;
        File::open(&self.path)?.sync_all()
    }

    fn unwritable(&self, reason: io::Error) -> Failure {
        Failure::Unwritable {
            path: self.path.clone(),
            reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_made_and_held_by_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        let held = DataDir::open(&path).unwrap();
        assert!(matches!(DataDir::open(&path), Err(Failure::Locked { .. })));
        drop(held);
        DataDir::open(&path).unwrap();
    }

    #[test]
    fn a_newer_format_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("format"), "2\n").unwrap();
        let refusal = DataDir::open(folder.path()).unwrap_err().to_string();
        assert!(
            refusal
                .ends_with("has format 2, written by a newer powerqueue; this one knows format 1"),
            "{refusal}"
        );
    }

    #[test]
    fn a_path_through_a_file_is_unwritable() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        let refusal = DataDir::open(&folder.path().join("file/data"));
        assert!(matches!(refusal, Err(Failure::Unwritable { .. })));
    }
}

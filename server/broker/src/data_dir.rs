//! The data directory and the small files in it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The directory. Who else may use it, and in which format it is, is the store's matter.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
}

impl DataDir {
    /// Makes the directory if it is missing (readable by its owner only) and finds out whether it can be written.
    ///
    /// # Errors
    /// [`Failure::Unwritable`].
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let dir = Self {
            path: path.to_owned(),
        };
        let mut made = DirBuilder::new();
        made.recursive(true)
            .mode(0o700)
            .create(path)
            .and_then(|()| {
                rustix::fs::access(path, rustix::fs::Access::WRITE_OK).map_err(io::Error::from)
            })
            .map_err(|reason| dir.unwritable(reason))?;
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
    fn a_directory_is_made_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        DataDir::open(&path).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o700
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

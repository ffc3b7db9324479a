//! `powerqueue backup DIR`: a consistent copy of the data directory, while the broker runs or while it does not.
//!
//! The copy is a data directory itself. It holds everything that was durable when the backup began, and no secret for
//! handles: a broker that starts on it makes a new one, so receipt handles given out by the original are refused there
//! instead of meaning another message. A running broker streams the files over its control socket:
//!
//! ```text
//! file NAME LENGTH      then LENGTH bytes; repeated
//! end POSITION
//! ```
//!
//! or `error TEXT`. The directory gets its name when all of it is on the disk.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use powerqueue_store::{Backup, BackupError, FORMAT, Store};

use crate::config::Config;
use crate::control;
use crate::node::{STORE, open_disk, refusal, store_options};

/// The last file written into a backup: what it is, for people and for `ops/restore`.
const LABEL: &str = "BACKUP";
/// What a copy must not know: see the module.
const LEFT_OUT: [&str; 1] = [powerqueue_node::HANDLE_SECRET];
/// Bytes moved at a time.
const PIECE: usize = 1 << 20;
/// The longest line of the stream.
const LINE: u64 = 4096;

/// The files of a backup of this store.
///
/// # Errors
/// If the store's files cannot be read.
pub fn of(store: &Store) -> Result<Backup, BackupError> {
    store.backup(&LEFT_OUT)
}

/// Writes a backup as a stream.
///
/// # Errors
/// If a file cannot be read, or the other side is gone.
pub fn send(backup: &Backup, to: &mut impl Write) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    for file in &backup.files {
        writeln!(to, "file {} {}", file.name, file.len())?;
        let mut at = 0;
        while at < file.len() {
            let len = (file.len() - at).min(PIECE as u64) as usize;
            let bytes = &mut piece[..len];
            file.read_at(at, bytes)?;
            to.write_all(bytes)?;
            at += len as u64;
        }
    }
    writeln!(to, "end {}", backup.end.0)?;
    to.flush()
}

/// Makes the backup.
///
/// # Errors
/// If there is nothing to back up, the directory exists, or something cannot be read or written.
pub fn run(config: &Config, into: &Path) -> anyhow::Result<ExitCode> {
    let data = std::path::absolute(&config.data)?;
    let into = std::path::absolute(into)?;
    ensure!(
        data.join(STORE).is_dir(),
        "there is nothing to back up in {}",
        data.display()
    );
    ensure!(!into.exists(), "{} is there already", into.display());
    let mut name = into.clone().into_os_string();
    name.push(".partial");
    let partial = PathBuf::from(name);
    if partial.exists() {
        fs::remove_dir_all(&partial)
            .with_context(|| format!("cannot clear {}", partial.display()))?;
    }
    let end = receive_into(config, &data, &partial)?;
    let parent = into.parent().context("a backup needs a parent directory")?;
    fs::rename(&partial, &into)?;
    File::open(parent)?.sync_all()?;
    println!("backed up to {} (position {end})", into.display());
    Ok(ExitCode::SUCCESS)
}

fn receive_into(config: &Config, data: &Path, partial: &Path) -> anyhow::Result<u64> {
    let store = partial.join(STORE);
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&store)
        .with_context(|| format!("cannot make {}", store.display()))?;
    let end = match UnixStream::connect(data.join(control::SOCKET)) {
        Ok(mut stream) => {
            stream.write_all(control::BACKUP)?;
            receive(BufReader::with_capacity(PIECE, stream), &store)?
        }
        Err(error) if not_there(&error) => stopped(config, data, &store)?,
        Err(error) => return Err(error).context("the broker's control socket does not answer"),
    };
    let label = format!(
        "A backup of PowerQueue {}, store format {FORMAT}, up to position {end}.\n\
         It is a data directory. ops/restore puts it in place.\n",
        env!("CARGO_PKG_VERSION"),
    );
    write_file(
        &partial.join(LABEL),
        &mut label.as_bytes(),
        label.len() as u64,
    )?;
    File::open(&store)?.sync_all()?;
    File::open(partial)?.sync_all()?;
    Ok(end)
}

/// Whether no broker serves the directory.
fn not_there(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
    )
}

/// Without a broker the store is opened here, which keeps everybody else out meanwhile.
fn stopped(config: &Config, data: &Path, into: &Path) -> anyhow::Result<u64> {
    let disk = open_disk(data)?;
    let store = Store::open(disk, store_options(config))
        .map_err(|error| refusal(data.to_owned(), error))?;
    let backup = of(&store)?;
    let mut piece = vec![0; PIECE];
    for file in &backup.files {
        let mut out = create(&into.join(&file.name))?;
        let mut at = 0;
        while at < file.len() {
            let len = (file.len() - at).min(PIECE as u64) as usize;
            file.read_at(at, &mut piece[..len])?;
            out.write_all(&piece[..len])?;
            at += len as u64;
        }
        out.sync_all()?;
    }
    Ok(backup.end.0)
}

/// Reads a stream into files, and says where the log ends.
fn receive(mut from: impl BufRead, into: &Path) -> anyhow::Result<u64> {
    loop {
        let mut line = String::new();
        from.by_ref().take(LINE).read_line(&mut line)?;
        let fields: Vec<&str> = line.trim_end().split(' ').collect();
        match fields.as_slice() {
            ["file", name, length] => {
                ensure!(is_plain(name), "the broker sent the file name {name:?}");
                let length = length.parse().context("the broker sent no length")?;
                write_file(&into.join(name), &mut from, length)?;
            }
            ["end", position] => return position.parse().context("the broker sent no position"),
            ["error", ..] => bail!(
                "the broker says: {}",
                line.trim_start_matches("error ").trim()
            ),
            _ => bail!("the backup broke off; the broker's log says why"),
        }
    }
}

/// A name of one of the store's files, and nothing that leads elsewhere.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('.')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-')
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(path)
}

fn write_file(path: &Path, from: &mut impl Read, length: u64) -> anyhow::Result<()> {
    let mut file = create(path).with_context(|| format!("cannot make {}", path.display()))?;
    let copied = io::copy(&mut from.take(length), &mut file)?;
    ensure!(
        copied == length,
        "the backup broke off; the broker's log says why"
    );
    file.sync_all()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    type Files = Vec<(String, Vec<u8>)>;

    fn received(stream: &[u8]) -> anyhow::Result<(u64, Files)> {
        let folder = tempfile::tempdir()?;
        let end = receive(stream, folder.path())?;
        let mut files = Vec::new();
        for entry in fs::read_dir(folder.path())? {
            let entry = entry?;
            files.push((
                entry.file_name().into_string().unwrap(),
                fs::read(entry.path())?,
            ));
        }
        files.sort();
        Ok((end, files))
    }

    #[test]
    fn a_stream_becomes_files() {
        let (end, files) = received(b"file FORMAT 2\nhifile a.seg 0\nend 12\n").unwrap();
        assert_eq!(end, 12);
        assert_eq!(
            files,
            [
                ("FORMAT".into(), b"hi".to_vec()),
                ("a.seg".into(), Vec::new())
            ]
        );
    }

    #[test]
    fn a_stream_that_breaks_off_or_leads_elsewhere_is_refused() {
        for stream in [
            "",
            "file a 3\nab",
            "file a 2\nab",
            "file ../a 2\nabend 1\n",
            "file .a 2\nabend 1\n",
            "file a 2\nabfile a 2\nabend 1\n",
            "file a x\nend 1\n",
            "error no space\n",
        ] {
            assert!(received(stream.as_bytes()).is_err(), "{stream:?}");
        }
    }
}

//! The socket in the data directory by which `powerqueue backup` talks to the broker that has the directory.
//!
//! Whoever may read the directory may connect: it belongs to the broker's user alone. A client sends one line and gets
//! a stream; one client is served at a time. The broker opens no path that a client names: it only sends.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use powerqueue_node::Node;
use tokio::net::UnixListener;

use crate::backup;

/// The socket's name in the data directory.
pub const SOCKET: &str = "control.sock";
/// What a client says to get a backup.
pub const BACKUP: &[u8] = b"backup 1\n";
/// For how long a client may neither send nor take anything.
const PATIENCE: Duration = Duration::from_secs(30);

/// Listens until it is dropped; without the socket there is only no backup of a running broker.
pub async fn serve(data: &Path, node: Node) {
    let listener = match listen(data) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::warn!(%error, "no control socket: `powerqueue backup` needs the broker to be stopped");
            return std::future::pending().await;
        }
    };
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, most likely. It passes.
            tokio::time::sleep(Duration::from_secs(1)).await;
            continue;
        };
        let node = node.clone();
        let served = stream.into_std().map(|stream| {
            tokio::task::spawn_blocking(move || {
                if let Err(error) = answer(stream, &node) {
                    tracing::warn!(error = format!("{error:#}"), "a backup was not finished");
                }
            })
        });
        if let Ok(task) = served {
            let _ = task.await;
        }
    }
}

fn listen(data: &Path) -> io::Result<UnixListener> {
    let path = data.join(SOCKET);
    // The store's lock says that nobody else serves here: what is left is an earlier process's.
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    UnixListener::bind(path)
}

fn answer(mut stream: UnixStream, node: &Node) -> anyhow::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = [0; BACKUP.len()];
    stream.read_exact(&mut request)?;
    if request != BACKUP {
        stream.write_all(b"error this broker does not know the request\n")?;
        return Ok(());
    }
    match backup::of(node.store()) {
        Ok(backup) => {
            backup::send(&backup, &mut stream).context("the backup could not be sent")?;
            tracing::info!(end = backup.end.0, "sent a backup");
            Ok(())
        }
        Err(error) => {
            let line = error.to_string().replace('\n', " ");
            stream.write_all(format!("error {line}\n").as_bytes())?;
            Err(error.into())
        }
    }
}

//! The accept loop.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::{Response, request::Parts};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout_at};

use crate::body::Body;
use crate::client::Client;
use crate::connection::{BoxError, Shared, connection};
use crate::drain::Drain;
use crate::in_place::in_place;
use crate::listener::Listener;
use crate::settings::Settings;
use crate::stats::Refusal;

/// How often the loop turns when nobody connects, so that a watchdog sees it alive.
const TURN: Duration = Duration::from_secs(2);

/// How long accepting pauses when the process or the system is out of descriptors or memory.
const EXHAUSTED: Duration = Duration::from_millis(50);

/// A request as a front end gets it.
#[derive(Debug)]
pub struct Request {
    /// Method, URI, version, headers (without the proxy's own).
    pub parts: Parts,
    /// The body, not read yet.
    pub body: Body,
    /// Who sent it.
    pub client: Client,
}

/// Serves HTTP/1 and HTTP/2 (by its preface, or over TLS by ALPN) until the drain's deadline, or until the last
/// connection ends after its signal.
///
/// # Errors
/// If a socket cannot be used with this runtime. Afterwards nothing ends the loop but the drain.
pub async fn serve<H, F, B>(
    listener: Listener,
    settings: Settings,
    mut drain: Drain,
    handler: H,
) -> io::Result<()>
where
    H: Fn(Request) -> F + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let name = listener.name().to_owned();
    let sockets = listener
        .into_sockets()
        .into_iter()
        .map(TcpListener::from_std)
        .collect::<io::Result<Vec<_>>>()?;
    let shared = Arc::new(Shared::new(settings, handler));
    let stats = Arc::clone(&shared.settings.stats);
    let room = shared
        .settings
        .sizes
        .connections
        .min(Semaphore::MAX_PERMITS);
    let room = Arc::new(Semaphore::new(room));
    let mut connections = JoinSet::new();
    let mut turns = interval(TURN);
    turns.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut exhausted = false;

    let deadline = loop {
        stats.turn();
        let next = async {
            // A connection that has no place yet waits in the kernel's backlog.
            let place = Arc::clone(&room).acquire_owned().await;
            (accept(&sockets).await, place)
        };
        tokio::select! {
            deadline = drain.signalled() => break deadline,
            _ = turns.tick() => {}
            Some(ended) = connections.join_next() => report(&name, ended),
            (accepted, place) = next => match accepted {
                Ok((stream, peer)) => {
                    exhausted = false;
                    let task = connection(stream, peer.ip(), Arc::clone(&shared), drain.clone());
                    let stats = Arc::clone(&stats);
                    stats.connection_opened();
                    connections.spawn(async move {
                        let _open = Open(stats);
                        let _place = place;
                        in_place(task).await;
                    });
                }
                Err(error) if concerns_one_connection(&error) => {}
                Err(error) => {
                    stats.refuse(Refusal::Resources);
                    if !exhausted {
                        tracing::warn!(listener = %name, %error, "cannot accept connections for the moment");
                    }
                    exhausted = true;
                    sleep(EXHAUSTED).await;
                }
            }
        }
    };

    drop(sockets);
    finish(&name, connections, deadline).await;
    Ok(())
}

/// Waits for the connections that are left, then drops those that did not end in time.
async fn finish(name: &str, mut connections: JoinSet<()>, deadline: Instant) {
    while !connections.is_empty() {
        match timeout_at(deadline, connections.join_next()).await {
            Ok(Some(ended)) => report(name, ended),
            Ok(None) => return,
            Err(_) => {
                let left = connections.len();
                tracing::warn!(listener = %name, left, "dropping connections that did not finish in time");
                return connections.shutdown().await;
            }
        }
    }
}

async fn accept(sockets: &[TcpListener]) -> io::Result<(TcpStream, SocketAddr)> {
    poll_fn(|cx| {
        for socket in sockets {
            if let Poll::Ready(accepted) = socket.poll_accept(cx) {
                return Poll::Ready(accepted);
            }
        }
        Poll::Pending
    })
    .await
}

/// Errors of the connection that was about to be accepted, not of the listener.
fn concerns_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

fn report(name: &str, ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(listener = %name, "a connection ended with a panic");
    }
}

/// Counts a connection as closed when its task ends, however it ends.
struct Open(Arc<crate::stats::Stats>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.connection_closed();
    }
}

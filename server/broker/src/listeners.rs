//! Opens the configured sockets, before anything else is started: a port that is taken should cost no time.

use std::net::SocketAddr;

use powerqueue_net::{Inherited, Listener, bind};

use crate::config::{LISTENERS, Loaded};
use crate::failure::Failure;

/// What is left to the process's own files when connections have taken their share of the descriptors.
const FILES: u64 = 128;

/// The open listeners, and what the operator should know about the others.
#[derive(Debug)]
pub struct Opened {
    /// One for each name that has at least one socket.
    pub listeners: Vec<Listener>,
    /// Sentences.
    pub warnings: Vec<String>,
}

/// Takes over what the service manager passed and binds the rest. A default address that is taken, or that this
/// machine does not have, is left out; a configured one is an error.
///
/// # Errors
/// [`Failure::Listen`] for a configured address.
pub fn open(loaded: &Loaded) -> anyhow::Result<Opened> {
    let mut inherited = Inherited::from_environment()?;
    let mut opened = Opened {
        listeners: Vec::new(),
        warnings: Vec::new(),
    };
    for name in LISTENERS {
        let mut sockets = inherited.take(name);
        if sockets.is_empty() {
            let by_default = !loaded.is_set(&format!("listen.{name}"));
            for address in loaded.config.addresses(name) {
                match bind(address) {
                    Ok(socket) => sockets.push(socket),
                    Err(error) if by_default && error.no_such_address() => {}
                    Err(error) if by_default && error.in_use() => {
                        opened.warnings.push(taken(name, address));
                    }
                    Err(error) => {
                        return Err(Failure::Listen {
                            listener: name,
                            error,
                        }
                        .into());
                    }
                }
            }
        }
        if !sockets.is_empty() {
            opened.listeners.push(Listener::new(name, sockets));
        }
    }
    for name in inherited.left() {
        opened.warnings.push(format!(
            "the service manager passed a socket named {name:?}, which no listener has"
        ));
    }
    Ok(opened)
}

fn taken(name: &str, address: SocketAddr) -> String {
    format!(
        "{name} does not listen on {address}: another program has the port (set listen.{name} to move it)"
    )
}

/// How many connections each listener may hold: as configured, as far as the process's descriptors go.
pub fn connections(configured: usize) -> usize {
    let descriptors = raise_descriptors();
    let share = (descriptors / 10 * 9).saturating_sub(FILES) / LISTENERS.len() as u64;
    configured.min(usize::try_from(share.max(1)).unwrap_or(usize::MAX))
}

/// Raises the soft limit to the hard one. Where that is forbidden (our systemd unit, which sets it itself), it stays.
fn raise_descriptors() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let limit = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => raised,
        Err(_) => limit,
    };
    limit.current.unwrap_or(u64::MAX)
}

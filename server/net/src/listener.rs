//! Sockets that listen: bound by us, or inherited from the service manager by name.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};

use listenfd::ListenFd;
use socket2::{Domain, Protocol, Socket, Type};

/// How many connections the kernel keeps for us while we are busy or restarting.
const BACKLOG: i32 = 4096;

/// One named listener, on one or more addresses.
#[derive(Debug)]
pub struct Listener {
    name: String,
    sockets: Vec<TcpListener>,
}

impl Listener {
    /// A listener over sockets from [`bind`] or [`Inherited`].
    pub fn new(name: impl Into<String>, sockets: Vec<TcpListener>) -> Self {
        Self {
            name: name.into(),
            sockets,
        }
    }

    /// Its name, as in the configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it listens, with the ports the system chose.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sockets
            .iter()
            .filter_map(|socket| socket.local_addr().ok())
            .collect()
    }

    pub(crate) fn into_sockets(self) -> Vec<TcpListener> {
        self.sockets
    }
}

/// Why an address could not be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {}", explain(source))]
pub struct BindError {
    /// The address.
    pub address: SocketAddr,
    /// What the system said.
    pub source: io::Error,
}

impl BindError {
    /// Whether another program has the port.
    pub fn in_use(&self) -> bool {
        self.source.kind() == io::ErrorKind::AddrInUse
    }

    /// Whether this machine does not have the address (IPv6 switched off, for one).
    pub fn no_such_address(&self) -> bool {
        self.source.kind() == io::ErrorKind::AddrNotAvailable
            || self.source.raw_os_error() == Some(EAFNOSUPPORT)
    }
}

/// "Address family not supported": a kernel without IPv6.
const EAFNOSUPPORT: i32 = 97;

fn explain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "the port is in use by another program".to_owned(),
        io::ErrorKind::AddrNotAvailable => "this machine does not have that address".to_owned(),
        io::ErrorKind::PermissionDenied => "ports below 1024 need a privilege".to_owned(),
        _ => error.to_string(),
    }
}

/// Listens on exactly that address: `[::]` means IPv6 only, and stands beside `0.0.0.0` on the same port.
///
/// # Errors
/// [`BindError`] with the system's reason.
pub fn bind(address: SocketAddr) -> Result<TcpListener, BindError> {
    listen(address).map_err(|source| BindError { address, source })
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // A restart must not wait for the connections of the process before it to leave TIME_WAIT.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// The sockets that systemd passed, by `FileDescriptorName`.
#[derive(Debug, Default)]
pub struct Inherited(BTreeMap<String, Vec<TcpListener>>);

impl Inherited {
    /// Takes them over. Without a service manager there are none.
    ///
    /// # Errors
    /// If a passed descriptor is not a listening TCP socket.
    pub fn from_environment() -> io::Result<Self> {
        let mut passed = ListenFd::from_env();
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let mut sockets = BTreeMap::<String, Vec<TcpListener>>::new();
        for index in 0..passed.len() {
            let name = names.next().unwrap_or("unknown").to_owned();
            if let Some(socket) = passed.take_tcp_listener(index)? {
                socket.set_nonblocking(true)?;
                sockets.entry(name).or_default().push(socket);
            }
        }
        Ok(Self(sockets))
    }

    /// The sockets of that name; empty if none were passed.
    pub fn take(&mut self, name: &str) -> Vec<TcpListener> {
        self.0.remove(name).unwrap_or_default()
    }

    /// The names nobody has taken.
    pub fn left(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wildcards_of_both_families_share_a_port() {
        let four = bind("0.0.0.0:0".parse().unwrap()).unwrap();
        let port = four.local_addr().unwrap().port();
        match bind(format!("[::]:{port}").parse().unwrap()) {
            Ok(_) => {}
            Err(error) => assert!(error.no_such_address(), "{error}"),
        }
    }

    #[test]
    fn a_port_in_use_is_said_so() {
        let first = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = first.local_addr().unwrap();
        let error = bind(address).unwrap_err();
        assert!(error.in_use());
        assert_eq!(
            error.to_string(),
            format!("cannot listen on {address}: the port is in use by another program")
        );
    }

    #[test]
    fn without_a_service_manager_nothing_is_inherited() {
        let mut inherited = Inherited::from_environment().unwrap();
        assert!(inherited.take("sqs").is_empty());
        assert_eq!(inherited.left().count(), 0);
    }
}

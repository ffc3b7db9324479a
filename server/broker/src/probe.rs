//! Asks a running broker how it is, as `powerqueue health` and `powerqueue wait`.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::config::Config;
use crate::endpoints::reachable;
use crate::failure::Failure;
use crate::tls::unverified;

const TIMEOUT: Duration = Duration::from_secs(5);
const BETWEEN: Duration = Duration::from_millis(100);

/// The listener that is asked.
const HTTP: &str = "http";

/// The answer of `/healthz/ready`.
struct Answer {
    ready: bool,
    body: String,
}

/// Prints the readiness report; succeeds if everything is ready.
///
/// # Errors
/// If the broker cannot be reached.
pub fn health(config: &Config) -> anyhow::Result<ExitCode> {
    let (address, tls) = (address(config)?, config.tls.covers(HTTP));
    let answer = ask(address, tls)
        .map_err(|error| anyhow::anyhow!("no broker answers on {address}: {error}"))?;
    print!("{}", answer.body);
    Ok(code(answer.ready))
}

/// Waits until the broker is ready.
///
/// # Errors
/// If it is not in time.
pub fn wait(config: &Config, timeout: Duration) -> anyhow::Result<ExitCode> {
    let (address, tls) = (address(config)?, config.tls.covers(HTTP));
    let deadline = Instant::now() + timeout;
    loop {
        let state = match ask(address, tls) {
            Ok(answer) if answer.ready => return Ok(ExitCode::SUCCESS),
            Ok(answer) => answer.body,
            Err(error) => error.to_string(),
        };
        if Instant::now() + BETWEEN > deadline {
            anyhow::bail!("the broker on {address} is not ready: {}", state.trim());
        }
        sleep(BETWEEN);
    }
}

fn code(ready: bool) -> ExitCode {
    if ready {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn address(config: &Config) -> Result<SocketAddr, Failure> {
    let address = config.listen.http.iter().next().map(reachable);
    address
        .filter(|address| address.port() != 0)
        .ok_or_else(|| {
            Failure::Config("listen.http names no address with a port to ask on".to_owned())
        })
}

fn ask(address: SocketAddr, tls: bool) -> io::Result<Answer> {
    let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    if tls {
        ask_over(unverified::connect(stream)?, address)
    } else {
        ask_over(stream, address)
    }
}

fn ask_over(mut stream: impl Read + Write, address: SocketAddr) -> io::Result<Answer> {
    // Where the listener is behind the proxy, we stand in for it; elsewhere the header is removed unread.
    let client = address.ip();
    write!(
        stream,
        "GET /healthz/ready HTTP/1.0\r\nHost: {address}\r\nX-PQ-Client-IP: {client}\r\n\r\n"
    )?;
    let mut text = String::new();
    stream.take(64 << 10).read_to_string(&mut text)?;
    let (head, body) = text
        .split_once("\r\n\r\n")
        .ok_or_else(|| io::Error::other("what answers is not a broker"))?;
    Ok(Answer {
        ready: head.split(' ').nth(1) == Some("200"),
        body: body.to_owned(),
    })
}

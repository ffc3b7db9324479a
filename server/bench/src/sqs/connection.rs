//! A connection that speaks just enough HTTP/1.1 to load a server without being the bottleneck itself.

use anyhow::Context;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// A reply may not be larger.
const MAX_REPLY: usize = 16 << 20;

/// One connection, opened when it is needed.
pub(crate) struct Connection {
    address: String,
    /// Lines of the header that say who asks, each with its end.
    credentials: String,
    stream: Option<TcpStream>,
    out: Vec<u8>,
    buffer: Vec<u8>,
}

/// A reply.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// What a reply's header says of its body.
struct Head {
    status: u16,
    length: Length,
    keeps_alive: bool,
    /// Where the body begins.
    end: usize,
}

enum Length {
    Known(usize),
    Chunked,
    UntilClose,
}

impl Connection {
    pub(crate) fn new(address: &str, authorization: Option<&str>) -> Self {
        Self {
            address: address.to_owned(),
            credentials: authorization
                .map(|value| format!("authorization: {value}\r\n"))
                .unwrap_or_default(),
            stream: None,
            out: Vec::new(),
            buffer: Vec::new(),
        }
    }

    /// Calls an action. A kept connection that the server has closed meanwhile is opened anew, once.
    pub(crate) async fn call(&mut self, action: &str, body: &[u8]) -> anyhow::Result<Answer> {
        self.out.clear();
        let head = format!(
            "POST / HTTP/1.1\r\nhost: {}\r\nx-amz-target: AmazonSQS.{action}\r\ncontent-type: application/x-amz-json-1.0\
             \r\ncontent-length: {}\r\n{}\r\n",
            self.address,
            body.len(),
            self.credentials
        );
        self.out.extend_from_slice(head.as_bytes());
        self.out.extend_from_slice(body);
        let kept = self.stream.is_some();
        match self.exchange().await {
            Err(_) if kept && self.buffer.is_empty() => {
                self.stream = None;
                self.exchange().await
            }
            outcome => outcome,
        }
    }

    async fn exchange(&mut self) -> anyhow::Result<Answer> {
        self.buffer.clear();
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect(&self.address).await?;
                stream.set_nodelay(true)?;
                stream
            }
        };
        stream.write_all(&self.out).await?;
        let head = loop {
            if let Some(head) = Head::parse(&self.buffer)? {
                break head;
            }
            more(&mut stream, &mut self.buffer).await?;
        };
        let body = match head.length {
            Length::Known(length) => {
                while self.buffer.len() < head.end + length {
                    more(&mut stream, &mut self.buffer).await?;
                }
                self.buffer.split_off(head.end)
            }
            Length::Chunked => loop {
                match unchunk(self.buffer.get(head.end..).unwrap_or_default())? {
                    Some(body) => break body,
                    None => more(&mut stream, &mut self.buffer).await?,
                }
            },
            Length::UntilClose => {
                while stream.read_buf(&mut self.buffer).await? > 0 {}
                self.buffer.split_off(head.end)
            }
        };
        if head.keeps_alive {
            self.stream = Some(stream);
        }
        Ok(Answer {
            status: head.status,
            body,
        })
    }
}

async fn more(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> anyhow::Result<()> {
    anyhow::ensure!(buffer.len() < MAX_REPLY, "the reply is too large");
    let read = stream.read_buf(buffer).await?;
    anyhow::ensure!(read > 0, "the server closed the connection");
    Ok(())
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|some| some == what)
}

impl Head {
    /// `None` while it is not whole.
    fn parse(bytes: &[u8]) -> anyhow::Result<Option<Self>> {
        let Some(end) = find(bytes, b"\r\n\r\n") else {
            return Ok(None);
        };
        let text = std::str::from_utf8(bytes.get(..end).unwrap_or_default())?;
        let mut lines = text.split("\r\n");
        let first = lines.next().unwrap_or_default();
        let status = first.split(' ').nth(1).context("no status")?.parse()?;
        let mut keeps_alive = first.starts_with("HTTP/1.1");
        let mut length = Length::UntilClose;
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") {
                length = Length::Known(value.parse()?);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                length = Length::Chunked;
            } else if name.eq_ignore_ascii_case("connection") {
                keeps_alive = value.eq_ignore_ascii_case("keep-alive");
            }
        }
        keeps_alive &= !matches!(length, Length::UntilClose);
        Ok(Some(Self {
            status,
            length,
            keeps_alive,
            end: end + 4,
        }))
    }
}

/// The body out of its chunks; `None` while they are not whole. Trailers are not expected.
fn unchunk(mut bytes: &[u8]) -> anyhow::Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    loop {
        let Some(line) = find(bytes, b"\r\n") else {
            return Ok(None);
        };
        let size = std::str::from_utf8(bytes.get(..line).unwrap_or_default())?;
        let size = size.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16)?;
        anyhow::ensure!(size < MAX_REPLY, "the chunk is too large");
        let from = line + 2;
        let Some(chunk) = bytes.get(from..from + size + 2) else {
            return Ok(None);
        };
        if size == 0 {
            return Ok(Some(body));
        }
        body.extend_from_slice(chunk.get(..size).unwrap_or_default());
        bytes = bytes.get(from + size + 2..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunked_body_is_put_together_once_it_is_whole() {
        let whole = b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n";
        assert_eq!(
            unchunk(whole).ok().flatten().as_deref(),
            Some(&b"abcde"[..])
        );
        for end in 0..whole.len() {
            assert!(matches!(unchunk(&whole[..end]), Ok(None)));
        }
    }

    #[test]
    fn a_server_of_http_1_0_does_not_keep_the_connection() {
        let head = Head::parse(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}");
        let head = head.ok().flatten();
        assert!(head.is_some_and(|head| !head.keeps_alive && head.status == 200 && head.end == 38));
    }
}

//! The serving loop through real sockets: what slow, large, forged and hurried clients get.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use powerqueue_net::{
    ClientRule, Drain, DrainSignal, Listener, Refusal, Request, Settings, Stats, bind, serve,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

struct Server {
    address: SocketAddr,
    stats: Arc<Stats>,
    stop: DrainSignal,
    /// Requests to `/wait` are announced here …
    entered: Arc<Notify>,
    /// … and answered after this.
    release: Arc<Notify>,
    task: JoinHandle<std::io::Result<()>>,
}

/// Answers with the client's address and the body; `/wait` waits for the test; `/never` does not answer;
/// `/early` answers without reading the body; `/flood` answers with 64 MiB.
fn start(settings: Settings) -> Server {
    let socket = bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    let (stop, drain) = Drain::new();
    let stats = Arc::clone(&settings.stats);
    let entered = Arc::new(Notify::new());
    let release = Arc::new(Notify::new());
    let (enter, wait) = (Arc::clone(&entered), Arc::clone(&release));
    let handler = move |request: Request| {
        let (enter, wait) = (Arc::clone(&enter), Arc::clone(&wait));
        async move {
            match request.parts.uri.path() {
                "/wait" => {
                    enter.notify_one();
                    wait.notified().await;
                }
                "/never" => pending().await,
                "/early" => return Response::new(Full::from("early")),
                "/flood" => return Response::new(Full::from(vec![b'x'; 64 << 20])),
                _ => {}
            }
            let client = format!("{}|", request.client.address);
            match request.body.collect().await {
                Ok(body) => {
                    Response::new(Full::from(Bytes::from([client.as_bytes(), &body].concat())))
                }
                Err(error) => error.response(),
            }
        }
    };
    let listener = Listener::new("test", vec![socket]);
    let task = tokio::spawn(serve(listener, settings, drain, handler));
    Server {
        address,
        stats,
        stop,
        entered,
        release,
        task,
    }
}

impl Server {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends the bytes and reads until the server closes.
    async fn exchange(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect().await;
        stream.write_all(bytes).await.unwrap();
        read_all(&mut stream).await
    }
}

async fn read_all(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    // A reset after the answer is the answer all the same.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

/// Reads one answer whose body ends with `end`.
async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut answer = Vec::new();
    let mut buf = [0; 4096];
    while !answer.ends_with(end.as_bytes()) {
        let read = stream.read(&mut buf).await.unwrap();
        assert_ne!(
            read,
            0,
            "closed after {:?}",
            String::from_utf8_lossy(&answer)
        );
        answer.extend_from_slice(&buf[..read]);
    }
    String::from_utf8(answer).unwrap()
}

fn settings(change: impl FnOnce(&mut Settings)) -> Settings {
    let mut settings = Settings::default();
    change(&mut settings);
    settings
}

fn seconds(since: Instant) -> u64 {
    since.elapsed().as_secs()
}

#[tokio::test]
async fn a_request_is_answered_with_the_sockets_address() {
    let server = start(Settings::default());
    let answer = server
        .exchange(
            b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
        )
        .await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("127.0.0.1|hello"), "{answer}");
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let server = start(Settings::default());
    let answer = server
        .exchange(
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\none\
              POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ntwo\r\n0\r\n\r\n\
              GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        )
        .await;
    let bodies: Vec<&str> = answer
        .split("127.0.0.1|")
        .skip(1)
        .map(|body| &body[..body.len().min(3)])
        .collect();
    assert_eq!(bodies, ["one", "two", ""], "{answer}");
    assert_eq!(server.stats.requests(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_sends_nothing_is_closed_after_five_seconds() {
    let server = start(Settings::default());
    let started = Instant::now();
    assert_eq!(server.exchange(b"").await, "");
    assert_eq!(seconds(started), 5);
    assert_eq!(server.stats.refused(Refusal::FirstByte), 1);
}

#[tokio::test(start_paused = true)]
async fn half_an_http2_preface_is_closed_after_five_seconds() {
    let server = start(Settings::default());
    let started = Instant::now();
    assert_eq!(server.exchange(b"PRI * HTTP/2.0\r\n").await, "");
    assert_eq!(seconds(started), 5);
}

#[tokio::test(start_paused = true)]
async fn a_header_that_trickles_is_closed_after_ten_seconds() {
    let server = start(Settings::default());
    let mut stream = server.connect().await;
    stream.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    let started = Instant::now();
    let (mut read, mut write) = stream.split();
    let trickle = async {
        loop {
            if write.write_all(b"A: b\r\n").await.is_err() {
                pending::<()>().await;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    let closed = async {
        let mut buf = [0; 16];
        let _ = read.read(&mut buf).await;
    };
    tokio::select! { () = trickle => {}, () = closed => {} }
    assert_eq!(seconds(started), 10);
    assert_eq!(server.stats.refused(Refusal::Header), 1);
}

#[tokio::test(start_paused = true)]
async fn a_slow_second_header_has_its_own_ten_seconds() {
    let server = start(Settings::default());
    let mut stream = server.connect().await;
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    read_until(&mut stream, "127.0.0.1|").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    stream.write_all(b"GET / HT").await.unwrap();
    let started = Instant::now();
    assert_eq!(read_all(&mut stream).await, "");
    assert_eq!(seconds(started), 10);
}

#[tokio::test(start_paused = true)]
async fn a_resting_connection_lives_two_minutes_from_its_last_request() {
    let server = start(Settings::default());
    let mut stream = server.connect().await;
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_secs(4)).await;
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            .await
            .unwrap();
        read_until(&mut stream, "127.0.0.1|").await;
        tokio::time::sleep(Duration::from_secs(100)).await;
    }
    let started = Instant::now();
    assert_eq!(read_all(&mut stream).await, "");
    assert_eq!(seconds(started), 20);
    assert_eq!(server.stats.requests(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_beginning_of_a_pipelined_header_does_not_hold_the_connection() {
    let server = start(Settings::default());
    let mut stream = server.connect().await;
    let started = Instant::now();
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HT")
        .await
        .unwrap();
    let answer = read_all(&mut stream).await;
    assert!(answer.ends_with("127.0.0.1|"), "{answer}");
    assert_eq!(seconds(started), 120);
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_outlives_every_deadline() {
    let server = start(Settings::default());
    let mut stream = server.connect().await;
    stream
        .write_all(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    server.entered.notified().await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    server.release.notify_one();
    read_until(&mut stream, "127.0.0.1|").await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stops_gets_408_after_ten_seconds() {
    let server = start(Settings::default());
    let started = Instant::now();
    let answer = server
        .exchange(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhe")
        .await;
    assert!(
        answer.starts_with("HTTP/1.1 408 Request Timeout\r\n"),
        "{answer}"
    );
    assert!(answer.ends_with("did not arrive in time\n"), "{answer}");
    assert!(
        (10..=12).contains(&seconds(started)),
        "{}",
        seconds(started)
    );
    assert_eq!(server.stats.refused(Refusal::BodyTime), 1);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_trickles_gets_408_after_a_minute() {
    let server = start(Settings::default());
    let mut stream = server.connect().await;
    stream
        .write_all(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
        .await
        .unwrap();
    let started = Instant::now();
    let (mut read, mut write) = stream.split();
    let trickle = async {
        while write.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        pending::<()>().await;
    };
    let mut buf = [0; 1024];
    let length =
        tokio::select! { () = trickle => 0, length = read.read(&mut buf) => length.unwrap() };
    assert!(buf[..length].starts_with(b"HTTP/1.1 408 "));
    assert_eq!(seconds(started), 60);
}

#[tokio::test]
async fn a_huge_content_length_gets_413_without_a_byte_of_it() {
    let server = start(Settings::default());
    let mut stream = server.connect().await;
    stream
        .write_all(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n")
        .await
        .unwrap();
    let answer = read_until(&mut stream, "bytes\n").await;
    assert!(
        answer.starts_with("HTTP/1.1 413 Payload Too Large\r\n"),
        "{answer}"
    );
    assert!(answer.contains("connection: close\r\n"), "{answer}");
    assert_eq!(server.stats.refused(Refusal::BodySize), 1);
}

#[tokio::test]
async fn a_client_that_sends_all_of_a_body_too_large_still_reads_its_413() {
    let server = start(settings(|s| s.sizes.body = 1000));
    let mut request = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n".to_vec();
    request.resize(request.len() + 4_000_000, b'x');
    let answer = server.exchange(&request).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(
        answer.ends_with("exceeds the maximum of 1000 bytes\n"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_chunked_body_is_counted_as_it_comes() {
    let server = start(settings(|s| s.sizes.body = 10));
    let request = |size| {
        let data = "x".repeat(size);
        format!(
            "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n{size:x}\r\n{data}\r\n0\r\n\r\n"
        )
    };
    assert!(
        server
            .exchange(request(10).as_bytes())
            .await
            .starts_with("HTTP/1.1 200 ")
    );
    assert!(
        server
            .exchange(request(11).as_bytes())
            .await
            .starts_with("HTTP/1.1 413 ")
    );
}

#[tokio::test]
async fn bodies_of_all_requests_together_are_bounded() {
    let server = start(settings(|s| s.sizes.bodies = 10));
    let post =
        b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 8\r\n\r\n12345678";
    // Room is given back with the answer: the second finds it again.
    for _ in 0..2 {
        assert!(server.exchange(post).await.starts_with("HTTP/1.1 200 "));
    }
    let large =
        b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 11\r\n\r\n12345678901";
    assert!(server.exchange(large).await.starts_with("HTTP/1.1 503 "));
}

#[tokio::test]
async fn an_answer_before_the_body_closes_the_connection() {
    let server = start(Settings::default());
    let answer = server
        .exchange(b"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nsome")
        .await;
    assert!(answer.contains("connection: close\r\n"), "{answer}");
    assert!(answer.ends_with("early"), "{answer}");
}

#[tokio::test]
async fn a_header_too_large_is_refused() {
    let server = start(Settings::default());
    let mut request = b"GET / HTTP/1.1\r\nHost: x\r\nA: ".to_vec();
    request.resize(request.len() + (40 << 10), b'a');
    request.extend_from_slice(b"\r\n\r\n");
    let answer = server.exchange(&request).await;
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 431 "),
        "{answer}"
    );
    assert_eq!(server.stats.requests(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_its_answer_is_dropped() {
    let server = start(Settings::default());
    let mut stream = server.connect().await;
    stream
        .write_all(b"GET /flood HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(server.stats.refused(Refusal::Write), 1);
    assert_eq!(server.stats.open(), 0);
}

#[tokio::test]
async fn requests_beyond_the_maximum_are_refused_at_once() {
    let server = start(settings(|s| s.sizes.requests = 1));
    let mut waiting = server.connect().await;
    waiting
        .write_all(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    server.entered.notified().await;
    let get = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let answer = server.exchange(get).await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("retry-after: 1\r\n"), "{answer}");
    server.release.notify_one();
    read_until(&mut waiting, "127.0.0.1|").await;
    assert!(server.exchange(get).await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn a_connection_beyond_the_maximum_waits_for_its_turn() {
    let server = start(settings(|s| s.sizes.connections = 1));
    let mut first = server.connect().await;
    first
        .write_all(b"GET /wait HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    server.entered.notified().await;
    let mut second = server.connect().await;
    second
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    assert_eq!(server.stats.opened(), 1);
    server.release.notify_one();
    read_all(&mut first).await;
    read_until(&mut second, "127.0.0.1|").await;
}

#[tokio::test]
async fn the_proxys_header_counts_only_where_it_is_expected() {
    let get =
        |headers: &str| format!("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n");
    let plain = start(Settings::default());
    let forged = plain
        .exchange(get("X-PQ-Client-IP: 8.8.8.8\r\n").as_bytes())
        .await;
    assert!(forged.ends_with("127.0.0.1|"), "{forged}");

    let proxied = start(settings(|s| s.client = ClientRule::BehindProxy));
    let named = proxied
        .exchange(get("X-PQ-Client-IP: ::ffff:8.8.8.8\r\n").as_bytes())
        .await;
    assert!(named.ends_with("\r\n\r\n8.8.8.8|"), "{named}");
    for wrong in [
        "",
        "X-PQ-Client-IP: 8.8.8.8\r\nx-pq-client-ip: 9.9.9.9\r\n",
        "X-PQ-Client-IP: me\r\n",
    ] {
        let answer = proxied.exchange(get(wrong).as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
    assert_eq!(proxied.stats.refused(Refusal::ClientAddress), 3);
}

#[tokio::test]
async fn a_drain_finishes_the_request_in_flight_and_accepts_no_more() {
    let mut server = start(Settings::default());
    let mut resting = server.connect().await;
    resting
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    read_until(&mut resting, "127.0.0.1|").await;
    let mut stream = server.connect().await;
    stream
        .write_all(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    server.entered.notified().await;

    server.stop.start(Duration::from_secs(30));
    assert_eq!(
        read_all(&mut resting).await,
        "",
        "a resting connection is closed"
    );
    while TcpStream::connect(server.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    server.release.notify_one();
    let answer = read_all(&mut stream).await;
    assert!(answer.contains("connection: close\r\n"), "{answer}");
    assert!(answer.ends_with("127.0.0.1|"), "{answer}");
    (&mut server.task).await.unwrap().unwrap();
    assert_eq!(server.stats.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_connection_accepted_just_before_a_drain_still_gets_its_first_answer() {
    let mut server = start(Settings::default());
    let mut used = server.connect().await;
    let mut unused = server.connect().await;
    while server.stats.opened() < 2 {
        tokio::task::yield_now().await;
    }
    let started = Instant::now();
    server.stop.start(Duration::from_secs(30));
    // The sockets are gone: the drain has begun.
    while TcpStream::connect(server.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    used.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    let answer = read_all(&mut used).await;
    assert!(answer.ends_with("127.0.0.1|"), "{answer}");
    assert_eq!(read_all(&mut unused).await, "");
    assert_eq!(seconds(started), 2);
    (&mut server.task).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_drain_drops_what_does_not_finish_in_time() {
    let mut server = start(Settings::default());
    let mut stream = server.connect().await;
    stream
        .write_all(b"GET /never HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    while server.stats.requests() == 0 {
        tokio::task::yield_now().await;
    }
    let started = Instant::now();
    server.stop.start(Duration::from_secs(7));
    assert_eq!(read_all(&mut stream).await, "");
    (&mut server.task).await.unwrap().unwrap();
    assert_eq!(seconds(started), 7);
}

#[tokio::test(start_paused = true)]
async fn the_accept_loop_turns_even_when_nobody_connects() {
    let server = start(Settings::default());
    let before = server.stats.turns();
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(server.stats.turns() >= before + 9);
}

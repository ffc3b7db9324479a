//! How a listener without a proxy uses the judge: before any work for a connection, and for as long as it is open.
#![allow(clippy::unwrap_used, missing_docs)]

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use powerqueue_admission::{Admission, Clock, Ladder, Rate, Reason, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// Greets whom it lets in and keeps the connection; closes the others without a byte.
async fn listen(admission: Admission) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, peer)) = listener.accept().await {
            let Ok(slot) = admission.connection(peer.ip()) else {
                continue;
            };
            tokio::spawn(async move {
                let _slot = slot;
                let _ = stream.write_all(b"!").await;
                let _ = stream.read(&mut [0]).await;
            });
        }
    });
    address
}

/// A connection from a loopback address of its own, and whether it was greeted.
async fn connect(from: &str, to: SocketAddr) -> (TcpStream, bool) {
    let socket = TcpSocket::new_v4().unwrap();
    socket
        .bind(SocketAddr::new(from.parse::<IpAddr>().unwrap(), 0))
        .unwrap();
    let mut stream = socket.connect(to).await.unwrap();
    let greeted = matches!(stream.read(&mut [0]).await, Ok(1));
    (stream, greeted)
}

#[tokio::test]
async fn two_loopback_addresses_are_judged_apart_over_all_listeners_together() {
    let settings = Settings {
        connections: Some(3),
        ..Settings::OFF
    };
    let admission = Admission::new(settings, &Clock::system());
    let (amqp, amqps) = (
        listen(admission.clone()).await,
        listen(admission.clone()).await,
    );
    let mut open = Vec::new();
    for to in [amqp, amqps, amqp] {
        let (stream, greeted) = connect("127.0.0.1", to).await;
        assert!(greeted);
        open.push(stream);
    }
    assert!(!connect("127.0.0.1", amqps).await.1, "a fourth");
    assert!(connect("127.0.0.2", amqps).await.1, "another address");
    drop(open.pop());
    // The listener notices the end by itself; until then the place is taken.
    while !connect("127.0.0.1", amqps).await.1 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_ban_closes_new_sockets_and_leaves_open_ones() {
    let (clock, hand) = Clock::by_hand(1_800_000_000_000);
    let minute = Duration::from_secs(60);
    let settings = Settings {
        new_connections: Some(Rate::new(5, Duration::from_secs(1), 20)),
        bans: Some(Ladder {
            refusals: 10,
            counted_per_second: None,
            lengths: vec![minute],
            forgotten_after: minute,
        }),
        ..Settings::OFF
    };
    let admission = Admission::new(settings, &clock);
    let to = listen(admission.clone()).await;
    let (mut first, greeted) = connect("127.0.0.1", to).await;
    assert!(greeted);
    for _ in 1..20 {
        assert!(connect("127.0.0.1", to).await.1);
    }
    for _ in 0..10 {
        assert!(!connect("127.0.0.1", to).await.1);
    }
    let banned = admission
        .connection("127.0.0.1".parse().unwrap())
        .unwrap_err();
    assert_eq!(banned.reason, Reason::Banned);
    hand.advance(Duration::from_secs(30));
    assert!(
        !connect("127.0.0.1", to).await.1,
        "the budget is whole, the ban is not over"
    );
    assert!(connect("127.0.0.2", to).await.1);
    // The connection from before is still there: nothing to read, and no end.
    let quiet = tokio::time::timeout(Duration::from_millis(50), first.read(&mut [0])).await;
    assert!(quiet.is_err());
    hand.advance(Duration::from_secs(30));
    assert!(connect("127.0.0.1", to).await.1, "the ban is over");
}

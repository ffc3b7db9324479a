//! The node over a real disk: what front ends rely on.
#![allow(clippy::unwrap_used, missing_docs)]

use std::{path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use powerqueue_engine::{
    Claim, Dedup, DedupKey, Delivery, GroupMode, Millis, NewMessage, Origin, QueueId,
    QueueSettings, Receive, Settle, Stale,
};
use powerqueue_node::{Node, Options, Room, Tenant, open};
use powerqueue_store::{DiskFs, Store};

fn start(path: &Path) -> Node {
    start_with(path, 64 << 20)
}

/// The store in that folder, once whoever had it has let go: tasks of a closed node end at their next turn.
fn unlocked_store(path: &Path, options: &powerqueue_store::Options) -> Store {
    loop {
        let fs = Arc::new(DiskFs::new(path).unwrap());
        match Store::open(fs, options.clone()) {
            Err(powerqueue_store::OpenError::Locked) => {
                std::thread::sleep(Duration::from_millis(5));
            }
            opened => return opened.unwrap(),
        }
    }
}

fn start_with(path: &Path, segment_bytes: u64) -> Node {
    let options = powerqueue_store::Options {
        segment_bytes,
        min_free_bytes: 0,
        ..Default::default()
    };
    open(
        unlocked_store(path, &options),
        Options {
            shards: 2,
            ..Options::default()
        },
    )
    .unwrap()
}

fn message(text: &str) -> NewMessage {
    NewMessage {
        content: Bytes::copy_from_slice(text.as_bytes()),
        id: 7,
        charge: text.len() as u32,
        group: None,
        dedup: None,
        delay: None,
        ttl: None,
        priority: 0,
    }
}

const ONE: Receive = Receive {
    max: 1,
    lease: None,
};
const TEN: Receive = Receive {
    max: 10,
    lease: None,
};

async fn queue(node: &Node, tenant: &Tenant, settings: QueueSettings) -> QueueId {
    node.run(tenant, Room::Growth(100), |tx| {
        tx.create_queue(tenant.id, "q", settings, Origin::Explicit)
    })
    .await
    .unwrap()
    .unwrap()
}

async fn send(node: &Node, tenant: &Tenant, queue: QueueId, text: &str) {
    node.run(tenant, Room::Growth(text.len()), |tx| {
        tx.send(queue, message(text))
    })
    .await
    .unwrap()
    .unwrap();
}

async fn complete(node: &Node, tenant: &Tenant, claim: Claim) {
    node.run(tenant, Room::Settlement, |tx| {
        tx.settle(claim, Settle::Complete, Stale::Refuse)
    })
    .await
    .unwrap()
    .unwrap();
}

async fn texts(node: &Node, deliveries: &[Delivery]) -> Vec<String> {
    let contents = node.contents(deliveries).await;
    contents
        .into_iter()
        .map(|content| String::from_utf8(content.unwrap().to_vec()).unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_sent_is_received_after_a_restart_and_what_was_settled_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let node = start(dir.path());
    let tenant = node.tenant("t").unwrap();
    let q = queue(&node, &tenant, QueueSettings::default()).await;
    for text in ["one", "two", "three"] {
        send(&node, &tenant, q, text).await;
    }
    let got = node.receive(&tenant, q, ONE, Millis::ZERO).await.unwrap();
    assert_eq!(texts(&node, &got).await, ["one"]);
    complete(&node, &tenant, got[0].claim).await;
    node.close().await;
    drop(node);
    let node = start(dir.path());
    let tenant = node.find_tenant("t").unwrap();
    let got = node.receive(&tenant, q, TEN, Millis::ZERO).await.unwrap();
    assert_eq!(texts(&node, &got).await, ["two", "three"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unclean_end_loses_nothing_that_was_answered() {
    let dir = tempfile::tempdir().unwrap();
    let node = start(dir.path());
    let tenant = node.tenant("t").unwrap();
    let q = queue(&node, &tenant, QueueSettings::default()).await;
    for n in 0..50 {
        send(&node, &tenant, q, &n.to_string()).await;
    }
    let got = node.receive(&tenant, q, TEN, Millis::ZERO).await.unwrap();
    for delivery in &got[..5] {
        complete(&node, &tenant, delivery.claim).await;
    }
    drop(node);
    let node = reopened(dir.path()).await;
    let tenant = node.find_tenant("t").unwrap();
    // A handle from before proves its delivery, whether or not the journal knows of the lease.
    complete(&node, &tenant, got[5].claim).await;
    let mut left = Vec::new();
    loop {
        let got = node
            .receive(
                &tenant,
                q,
                Receive {
                    max: 10,
                    lease: Some(Millis::from_secs(60)),
                },
                Millis::ZERO,
            )
            .await
            .unwrap();
        if got.is_empty() {
            break;
        }
        left.extend(texts(&node, &got).await);
    }
    // Ten were leased; the journal may know of it or not. The settled ones are gone for good.
    assert!(left.iter().all(|text| text.parse::<u32>().unwrap() >= 6));
    assert!((10..50).all(|n| left.contains(&n.to_string())));
}

/// The background tasks hold the node for moments.
async fn reopened(path: &Path) -> Node {
    loop {
        let fs = Arc::new(DiskFs::new(path).unwrap());
        match Store::open(
            fs,
            powerqueue_store::Options {
                min_free_bytes: 0,
                ..Default::default()
            },
        ) {
            Ok(store) => {
                return open(
                    store,
                    Options {
                        shards: 2,
                        ..Options::default()
                    },
                )
                .unwrap();
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_poll_gets_a_message_sent_later() {
    let dir = tempfile::tempdir().unwrap();
    let node = start(dir.path());
    let tenant = node.tenant("t").unwrap();
    let q = queue(&node, &tenant, QueueSettings::default()).await;
    let waiting = {
        let (node, tenant) = (node.clone(), tenant);
        tokio::spawn(async move {
            node.receive(&tenant, q, TEN, Millis::from_secs(20))
                .await
                .unwrap()
        })
    };
    while node.stats().shards.receivers == 0 {
        tokio::task::yield_now().await;
    }
    send(&node, &tenant, q, "late").await;
    let got = waiting.await.unwrap();
    assert_eq!(texts(&node, &got).await, ["late"]);
    assert_eq!(node.stats().shards.receivers, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_long_poll_leaves_no_message_leased() {
    let dir = tempfile::tempdir().unwrap();
    let node = start(dir.path());
    let tenant = node.tenant("t").unwrap();
    let q = queue(&node, &tenant, QueueSettings::default()).await;
    let mut poll = Box::pin(node.receive(&tenant, q, TEN, Millis::from_secs(20)));
    assert!(futures_poll_once(&mut poll).await.is_none());
    send(&node, &tenant, q, "m").await;
    drop(poll);
    let got = node.receive(&tenant, q, ONE, Millis::ZERO).await.unwrap();
    assert_eq!(got[0].claim.delivery, 1);
}

async fn futures_poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(match std::pin::Pin::new(&mut *future).poll(context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn draining_ends_long_polls_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let node = start(dir.path());
    let tenant = node.tenant("t").unwrap();
    let q = queue(&node, &tenant, QueueSettings::default()).await;
    let mut poll = Box::pin(node.receive(&tenant, q, TEN, Millis::from_secs(20)));
    assert!(futures_poll_once(&mut poll).await.is_none());
    node.drain();
    assert!(poll.await.unwrap().is_empty());
    assert!(
        node.receive(&tenant, q, TEN, Millis::from_secs(20))
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_ends_wakes_the_next_receiver() {
    let dir = tempfile::tempdir().unwrap();
    let node = start(dir.path());
    let tenant = node.tenant("t").unwrap();
    let q = queue(
        &node,
        &tenant,
        QueueSettings {
            lease: Millis(50),
            ..QueueSettings::default()
        },
    )
    .await;
    send(&node, &tenant, q, "m").await;
    assert_eq!(
        node.receive(&tenant, q, ONE, Millis::ZERO)
            .await
            .unwrap()
            .len(),
        1
    );
    let again = node
        .receive(&tenant, q, ONE, Millis::from_secs(20))
        .await
        .unwrap();
    assert_eq!(again[0].claim.delivery, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_is_answered_with_the_first_send_and_stored_once() {
    let dir = tempfile::tempdir().unwrap();
    let node = start(dir.path());
    let tenant = node.tenant("t").unwrap();
    let fifo = QueueSettings {
        groups: Some(GroupMode::Fifo),
        dedup: Some(Dedup {
            window: Millis::from_secs(300),
        }),
        ..QueueSettings::default()
    };
    let q = queue(&node, &tenant, fifo).await;
    let message = |id| NewMessage {
        id,
        group: Some(Arc::from("g")),
        dedup: Some(DedupKey::new("", "d")),
        ..message("m")
    };
    let first = node
        .run(&tenant, Room::Growth(1), |tx| tx.send(q, message(1)))
        .await
        .unwrap()
        .unwrap();
    let second = node
        .run(&tenant, Room::Growth(1), |tx| tx.send(q, message(2)))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (second.id, second.seq, second.duplicate),
        (first.id, first.seq, true)
    );
    assert_eq!(
        node.receive(&tenant, q, TEN, Millis::ZERO)
            .await
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_and_reclaiming_keep_the_journal_small_and_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let node = start_with(dir.path(), 64 << 10);
    let tenant = node.tenant("t").unwrap();
    let q = queue(&node, &tenant, QueueSettings::default()).await;
    let body = "x".repeat(1000);
    for n in 0..600 {
        send(&node, &tenant, q, &format!("{n} {body}")).await;
        if n % 20 != 0 {
            let all = node.receive(&tenant, q, TEN, Millis::ZERO).await.unwrap();
            for delivery in all {
                let kept = texts(&node, std::slice::from_ref(&delivery)).await[0]
                    .split(' ')
                    .next()
                    .unwrap()
                    .parse::<u32>()
                    .unwrap()
                    % 20
                    == 0;
                if !kept {
                    complete(&node, &tenant, delivery.claim).await;
                }
            }
        }
        if n % 100 == 99 {
            node.checkpoint().await.unwrap();
            node.reclaim().await;
            node.checkpoint().await.unwrap();
        }
    }
    let status = node.store().status();
    assert!(status.segments <= 5, "{status:?}");
    assert_eq!(status.live_bodies, 30);
    node.close().await;
    drop(node);
    let node = start_with(dir.path(), 64 << 10);
    let tenant = node.find_tenant("t").unwrap();
    assert_eq!(node.stats().shards.entries, 30);
    let kept = node
        .view(&tenant, |tx| tx.browse(q, Default::default(), 100))
        .unwrap();
    let numbers: Vec<u32> = texts(&node, &kept)
        .await
        .iter()
        .map(|text| text.split(' ').next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(numbers, (0..600).step_by(20).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_short_of_memory_refuses_growth_and_recovers_by_deletes() {
    let dir = tempfile::tempdir().unwrap();
    let fs = Arc::new(DiskFs::new(dir.path()).unwrap());
    let options = powerqueue_store::Options {
        min_free_bytes: 0,
        ..Default::default()
    };
    let options_of_node = Options {
        shards: 1,
        memory_bytes: 3000,
        save_every: Duration::from_millis(1),
        ..Options::default()
    };
    let node = open(Store::open(fs, options).unwrap(), options_of_node).unwrap();
    let tenant = node.tenant("t").unwrap();
    let q = queue(&node, &tenant, QueueSettings::default()).await;
    let mut sent = 0;
    let refused = loop {
        match node
            .run(&tenant, Room::Growth(1), |tx| tx.send(q, message("m")))
            .await
        {
            Ok(stored) => {
                stored.unwrap();
                sent += 1;
            }
            Err(error) => break error,
        }
    };
    assert!(refused.to_string().contains("memory"), "{refused}");
    assert!(sent >= 10);
    for delivery in node.receive(&tenant, q, TEN, Millis::ZERO).await.unwrap() {
        complete(&node, &tenant, delivery.claim).await;
    }
    while node.stats().memory_bytes > 3000 || node.stats().memory_short {
        let got = node.receive(&tenant, q, TEN, Millis::ZERO).await.unwrap();
        for delivery in got {
            complete(&node, &tenant, delivery.claim).await;
        }
        tokio::task::yield_now().await;
    }
    send(&node, &tenant, q, "again").await;
}

/// The one at the end may meet one that is under way.
#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_at_the_same_time_do_not_mix() {
    let dir = tempfile::tempdir().unwrap();
    let node = start(dir.path());
    let tenant = node.tenant("t").unwrap();
    let q = queue(&node, &tenant, QueueSettings::default()).await;
    let mut sent = 0;
    for _ in 0..40 {
        for _ in 0..50 {
            send(&node, &tenant, q, &sent.to_string()).await;
            sent += 1;
        }
        let (one, other) = tokio::join!(node.checkpoint(), node.checkpoint());
        one.unwrap();
        other.unwrap();
    }
    drop(node);
    let node = reopened(dir.path()).await;
    let tenant = node.find_tenant("t").unwrap();
    assert_eq!(node.stats().shards.entries, sent);
    for n in 0..sent {
        let got = node.receive(&tenant, q, ONE, Millis::ZERO).await.unwrap();
        assert_eq!(texts(&node, &got).await, [n.to_string()]);
    }
}

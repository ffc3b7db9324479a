//! The node over a disk that loses power in the middle of everything: sends, atomic moves, checkpoints, reclaiming.
#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use powerqueue_engine::{
    Command, Millis, NewMessage, Origin, QueueId, QueueSettings, Receive, Settle, Stale,
};
use powerqueue_node::{Node, Options, Room, Tenant, open};
use powerqueue_store::{OpenError, Store, sim::SimFs};
use rand::{Rng, SeedableRng, rngs::StdRng};

/// `POWERQUEUE_HISTORIES` asks for another number.
const CRASHES: u64 = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_cut_loses_no_confirmed_message_and_halves_no_move() {
    let crashes = std::env::var("POWERQUEUE_HISTORIES").ok();
    for seed in 0..crashes.map_or(CRASHES, |count| count.parse().unwrap()) {
        history(seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sync_that_fails_is_answered_as_unknown_and_ends_the_node() {
    let disk = SimFs::new(1, 64 << 20);
    let node = start(&disk);
    let tenant = node.tenant("t").unwrap();
    let [a, _] = queues(&node, &tenant).await;
    disk.fail_syncs(1);
    let answer = node
        .run(&tenant, Room::Growth(10), |tx| tx.send(a, message("m")))
        .await;
    assert_eq!(answer, Err(powerqueue_node::Error::Unavailable));
    tokio::time::timeout(Duration::from_secs(20), node.failed())
        .await
        .unwrap();
    let later = node
        .run(&tenant, Room::Growth(10), |tx| tx.send(a, message("m")))
        .await;
    assert!(later.is_err());
}

/// Messages are sent to one queue and moved, each in a transaction, to the other, until the power fails. Afterwards
/// every confirmed one is in exactly one of them.
async fn history(seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let disk = SimFs::new(seed, 256 << 20);
    let node = start(&disk);
    let tenant = node.tenant("t").unwrap();
    let [a, b] = queues(&node, &tenant).await;
    let confirmed = Arc::new(Mutex::new(Vec::new()));
    let numbers = Arc::new(AtomicU64::new(0));
    disk.crash_after(rng.random_range(200..6000));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..3 {
        tasks.spawn(send(
            node.clone(),
            tenant,
            a,
            numbers.clone(),
            confirmed.clone(),
        ));
        tasks.spawn(move_on(node.clone(), tenant, a, b));
    }
    let keeper = node.clone();
    tasks.spawn(async move {
        while keeper.checkpoint().await.is_ok() {
            keeper.reclaim().await;
        }
    });
    tasks.join_all().await;
    drop(node);
    disk.power_cycle();

    let node = start(&disk);
    let tenant = node.find_tenant("t").unwrap();
    let mut found: BTreeMap<String, u32> = BTreeMap::new();
    for queue in [a, b] {
        for text in texts(&node, &tenant, queue).await {
            *found.entry(text).or_default() += 1;
        }
    }
    let twice: Vec<_> = found.iter().filter(|(_, times)| **times > 1).collect();
    assert!(
        twice.is_empty(),
        "in both queues after seed {seed}: {twice:?}"
    );
    let lost: Vec<String> = confirmed
        .lock()
        .iter()
        .filter(|text| !found.contains_key(*text))
        .cloned()
        .collect();
    assert!(
        lost.is_empty(),
        "lost after seed {seed}: {lost:?} of {}",
        confirmed.lock().len()
    );
}

async fn send(
    node: Node,
    tenant: Tenant,
    queue: QueueId,
    numbers: Arc<AtomicU64>,
    confirmed: Arc<Mutex<Vec<String>>>,
) {
    loop {
        let text = format!("{:0200}", numbers.fetch_add(1, Ordering::Relaxed));
        let sent = node
            .run(&tenant, Room::Growth(200), |tx| {
                tx.send(queue, message(&text))
            })
            .await;
        match sent {
            Ok(stored) => {
                stored.unwrap();
                confirmed.lock().push(text);
            }
            Err(_) => return,
        }
    }
}

async fn move_on(node: Node, tenant: Tenant, from: QueueId, to: QueueId) {
    let one = Receive {
        max: 1,
        lease: None,
    };
    while !node.has_failed() {
        let Ok(got) = node.receive(&tenant, from, one, Millis(20)).await else {
            return;
        };
        for delivery in got {
            let content = node
                .contents(std::slice::from_ref(&delivery))
                .await
                .remove(0);
            let Ok(content) = content else { return };
            let text = String::from_utf8(content.to_vec()).unwrap();
            let commands = vec![
                Command::Settle(delivery.claim, Settle::Complete, Stale::Refuse),
                Command::Send(to, message(&text)),
            ];
            if node
                .run(&tenant, Room::Growth(200), |tx| tx.transact(commands))
                .await
                .is_err()
            {
                return;
            }
        }
    }
}

async fn texts(node: &Node, tenant: &Tenant, queue: QueueId) -> Vec<String> {
    let mut texts = Vec::new();
    let mut from = powerqueue_engine::Seq(0);
    loop {
        let some = node.view(tenant, |tx| tx.browse(queue, from, 200)).unwrap();
        let Some(last) = some.last() else {
            return texts;
        };
        from = powerqueue_engine::Seq(last.claim.seq.0 + 1);
        for content in node.contents(&some).await {
            texts.push(String::from_utf8(content.unwrap().to_vec()).unwrap());
        }
    }
}

async fn queues(node: &Node, tenant: &Tenant) -> [QueueId; 2] {
    let made = node.run(tenant, Room::Growth(100), |tx| {
        ["a", "b"].map(|name| {
            tx.create_queue(tenant.id, name, QueueSettings::default(), Origin::Explicit)
                .unwrap()
        })
    });
    made.await.unwrap()
}

fn message(text: &str) -> NewMessage {
    NewMessage {
        content: Bytes::copy_from_slice(text.as_bytes()),
        id: 1,
        charge: text.len() as u32,
        group: None,
        dedup: None,
        delay: None,
        ttl: None,
        priority: 0,
    }
}

/// A node on that disk, once the tasks of the one before have let go.
fn start(disk: &SimFs) -> Node {
    let options = powerqueue_store::Options {
        segment_bytes: 16 << 10,
        min_free_bytes: 0,
        ..Default::default()
    };
    loop {
        match Store::open(Arc::new(disk.clone()), options.clone()) {
            Err(OpenError::Locked) => std::thread::sleep(Duration::from_millis(2)),
            store => {
                let options = Options {
                    shards: 1,
                    cache_bytes: 0,
                    ..Options::default()
                };
                return open(store.unwrap(), options).unwrap();
            }
        }
    }
}

//! Tenants that nobody uses go; those that somebody uses stay; accounts and memory follow.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use powerqueue_engine::{Error as EngineError, Limits, Millis, NewMessage, Origin, QueueSettings};
use powerqueue_node::{Error, Node, Options, Room, Tenant, open};
use powerqueue_store::{OpenError, Store, sim::SimFs};
use tokio::time::advance;

const HOUR: Duration = Duration::from_secs(3600);
const WEEK: Duration = Duration::from_secs(7 * 86_400);

fn start(disk: &SimFs, options: Options) -> Node {
    let store = powerqueue_store::Options {
        segment_bytes: 64 << 10,
        min_free_bytes: 0,
        ..Default::default()
    };
    loop {
        // The tasks of a node before may hold the folder for a turn.
        match Store::open(Arc::new(disk.clone()), store.clone()) {
            Err(OpenError::Locked) => std::thread::sleep(Duration::from_millis(5)),
            opened => return open(opened.unwrap(), options).unwrap(),
        }
    }
}

fn weekly() -> Options {
    Options {
        shards: 2,
        tenant_idle: Millis::from_secs(WEEK.as_secs()),
        ..Options::default()
    }
}

/// Simulated time stands still until a test moves it: while this lives, the runtime does not skip ahead as it waits for
/// the store's threads.
struct Still {
    _hold: std::sync::mpsc::Sender<()>,
}

impl Still {
    fn stand() -> Self {
        let (hold, held) = std::sync::mpsc::channel();
        tokio::task::spawn_blocking(move || held.recv());
        Self { _hold: hold }
    }
}

async fn fill(node: &Node, tenant: &Tenant) {
    let id = node
        .run(tenant, Room::Growth(100), |tx| {
            tx.create_queue(tenant.id, "q", QueueSettings::default(), Origin::Explicit)
        })
        .await
        .unwrap()
        .unwrap();
    let message = NewMessage {
        content: Bytes::from_static(b"m"),
        id: 7,
        charge: 1,
        group: None,
        dedup: None,
        delay: None,
        ttl: Some(Millis::NEVER),
        priority: 0,
    };
    node.run(tenant, Room::Growth(1), |tx| tx.send(id, message))
        .await
        .unwrap()
        .unwrap();
}

/// Lets simulated time pass in steps, so that background tasks keep up with it.
async fn pass(span: Duration, step: Duration) {
    let mut left = span;
    while !left.is_zero() {
        let some = step.min(left);
        advance(some).await;
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        left -= some;
    }
}

/// Lets background tasks run until it is so.
async fn until(what: &str, mut so: impl FnMut() -> bool) {
    for _ in 0..100_000 {
        if so() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("never: {what}");
}

/// The names, without using them.
fn names(node: &Node) -> Vec<String> {
    let mut names: Vec<_> = node
        .tenants()
        .into_iter()
        .map(|(name, _)| name.to_string())
        .collect();
    names.sort();
    names
}

#[tokio::test(start_paused = true)]
async fn a_tenant_goes_after_a_week_without_use_with_everything_in_it() {
    let _still = Still::stand();
    let disk = SimFs::new(1, 64 << 20);
    let node = start(&disk, weekly());
    for name in ["used", "unused"] {
        fill(&node, &node.tenant(name).unwrap()).await;
    }
    for _ in 0..8 {
        pass(24 * HOUR, HOUR).await;
        assert!(node.find_tenant("used").is_some());
    }
    assert_eq!(names(&node), ["used"]);
    let stats = node.stats();
    assert_eq!((stats.tenants_made, stats.tenants_reaped_idle), (2, 1));
    assert_eq!((stats.shards.tenants, stats.shards.queues), (1, 1));
    // The same identifier is a new, empty tenant.
    let again = node.tenant("unused").unwrap();
    assert_eq!(
        node.view(&again, |tx| tx.queue_names(again.id, "", None, 10))
            .len(),
        0
    );
    node.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_tenant_with_a_connection_open_is_never_reaped() {
    let _still = Still::stand();
    let disk = SimFs::new(2, 64 << 20);
    let node = start(&disk, weekly());
    node.tenant("t").unwrap();
    let connection = node.connected("t").unwrap();
    assert!(node.connected("nobody").is_none());
    pass(5 * WEEK, 6 * HOUR).await;
    assert_eq!(names(&node), ["t"]);
    drop(connection);
    pass(WEEK - 2 * HOUR, 6 * HOUR).await;
    assert_eq!(names(&node), ["t"], "its end was the last use");
    pass(4 * HOUR, HOUR).await;
    assert_eq!(names(&node), Vec::<String>::new());
    node.close().await;
}

#[tokio::test(start_paused = true)]
async fn idle_time_is_serving_time_over_restarts() {
    let _still = Still::stand();
    let disk = SimFs::new(3, 64 << 20);
    let node = start(&disk, weekly());
    node.tenant("t").unwrap();
    pass(4 * 24 * HOUR, HOUR).await;
    node.close().await;
    drop(node);
    // However long it is down, nobody's clock runs; and the four days are not forgotten.
    let node = start(&disk, weekly());
    pass(2 * 24 * HOUR, HOUR).await;
    assert_eq!(names(&node), ["t"]);
    pass(25 * HOUR, HOUR).await;
    assert_eq!(names(&node), Vec::<String>::new());
    node.close().await;
    drop(node);
    let node = start(&disk, weekly());
    assert_eq!(
        names(&node),
        Vec::<String>::new(),
        "what was reaped stays reaped"
    );
    node.close().await;
}

#[tokio::test(start_paused = true)]
async fn near_the_maximum_tenants_that_hold_nothing_make_room_longest_unseen_first() {
    let _still = Still::stand();
    let disk = SimFs::new(4, 64 << 20);
    let options = Options {
        shards: 2,
        max_tenants: 20,
        ..Options::default()
    };
    let node = start(&disk, options);
    for number in 0..18 {
        let tenant = node.tenant(&format!("t{number:02}")).unwrap();
        if number % 2 == 0 {
            fill(&node, &tenant).await;
        }
        advance(Duration::from_secs(1)).await;
    }
    advance(Duration::from_secs(61)).await;
    assert!(
        node.find_tenant("t01").is_some(),
        "seen again, so not the longest unseen"
    );
    node.tenant("new").unwrap();
    assert!(!names(&node).contains(&"t03".to_owned()));
    assert!(names(&node).contains(&"t01".to_owned()));
    assert_eq!(node.tenants().len(), 18);
    // All that hold something stay, whoever comes.
    advance(Duration::from_secs(61)).await;
    for number in 0..100 {
        let _ = node.tenant(&format!("crowd{number}"));
    }
    let left = names(&node);
    for number in (0..18).step_by(2) {
        assert!(left.contains(&format!("t{number:02}")), "{left:?}");
    }
    assert_eq!(
        node.tenant("one more"),
        Err(Error::Engine(EngineError::NodeFull(
            "it holds its maximum of tenants"
        ))),
        "those just seen make no room"
    );
    assert_eq!(node.tenants().len(), 20);
    node.close().await;
}

/// The process's resident bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_tenants_come_and_go_and_memory_is_back_to_the_start() {
    let _still = Still::stand();
    let disk = SimFs::new(5, 1 << 30);
    let options = Options {
        limits: Limits {
            implicit_idle: Millis::from_secs(3600),
            ..Limits::UNLIMITED
        },
        ..weekly()
    };
    let node = start(&disk, options);
    let mut held = Vec::new();
    for round in 0..2 {
        for number in 0..10_000 {
            let tenant = node.tenant(&format!("t{round}-{number}")).unwrap();
            let made = node.run(&tenant, Room::Growth(100), |tx| {
                tx.create_queue(tenant.id, "q", QueueSettings::default(), Origin::ByUse)
            });
            made.await.unwrap().unwrap();
        }
        assert_eq!(node.stats().shards.queues, 10_000);
        pass(2 * HOUR, HOUR / 2).await;
        until("no queue is left", || node.stats().shards.queues == 0).await;
        pass(WEEK, 12 * HOUR).await;
        until("no tenant is left", || node.tenants().is_empty()).await;
        let stats = node.stats().shards;
        assert_eq!((stats.tenants, stats.entries, stats.bodies), (0, 0, 0));
        node.checkpoint().await.unwrap();
        held.push(resident());
    }
    let grown = held[1].saturating_sub(held[0]);
    println!("10,000 more tenants left {} KiB behind", grown / 1024);
    assert!(
        grown < 16 << 20,
        "{grown} bytes more than after the first round"
    );
    node.close().await;
}

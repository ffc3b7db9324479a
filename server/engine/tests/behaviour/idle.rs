//! Queues that use made go when they have been empty and unused for long enough.

use powerqueue_engine::{Limits, Millis, Origin, QueueId, QueueSettings, Settle};

use crate::engine::{Engine, dying};

const IDLE: Millis = Millis::from_secs(3600);
const NEARLY: Millis = Millis::from_secs(3599);
const SECOND: Millis = Millis::from_secs(1);

fn engine() -> Engine {
    Engine::with(Limits {
        implicit_idle: IDLE,
        ..Limits::UNLIMITED
    })
}

fn by_use(engine: &mut Engine, name: &str, settings: QueueSettings) -> QueueId {
    let tenant = engine.tenant;
    engine
        .tx(|tx| tx.create_queue(tenant, name, settings, Origin::ByUse))
        .unwrap()
}

/// Whether the name is there, without using it.
fn is_there(engine: &mut Engine, name: &str) -> bool {
    let tenant = engine.tenant;
    engine.tx(|tx| tx.find_queue(tenant, name)).is_some()
}

#[test]
fn an_implicit_queue_goes_after_its_idle_time_and_an_explicit_one_stays() {
    let mut engine = engine();
    by_use(&mut engine, "implicit", QueueSettings::default());
    engine.queue("explicit", QueueSettings::default());
    engine.pass(NEARLY);
    assert!(is_there(&mut engine, "implicit"));
    engine.pass(SECOND);
    assert!(!is_there(&mut engine, "implicit"));
    assert_eq!(engine.shard.stats().reaped, 1);
    engine.pass(Millis::from_secs(1_000_000));
    assert!(is_there(&mut engine, "explicit"));
    assert_eq!(engine.shard.next_due(), None, "nothing is left to look at");
}

#[test]
fn every_use_gives_it_another_idle_time() {
    let uses: [fn(&mut Engine, QueueId); 4] = [
        |engine, queue| {
            engine.receive(queue, 1);
        },
        |engine, queue| {
            engine.counts(queue);
        },
        |engine, queue| {
            engine.tx(|tx| tx.purge(queue, Millis::ZERO)).unwrap();
        },
        |engine, queue| {
            engine.send(queue, "m");
            let claim = engine.receive(queue, 1)[0].claim;
            engine.settle(claim, Settle::Complete).unwrap();
        },
    ];
    for (number, using) in uses.into_iter().enumerate() {
        let mut engine = engine();
        let queue = by_use(&mut engine, "q", QueueSettings::default());
        for _ in 0..3 {
            engine.pass(NEARLY);
            using(&mut engine, queue);
        }
        engine.pass(NEARLY);
        assert!(is_there(&mut engine, "q"), "use {number}");
        engine.pass(SECOND);
        assert!(!is_there(&mut engine, "q"), "use {number}");
    }
}

#[test]
fn a_queue_is_idle_only_once_its_last_message_is_gone() {
    let mut engine = engine();
    let settings = QueueSettings {
        retention: Millis::from_secs(5000),
        ..QueueSettings::default()
    };
    let queue = by_use(&mut engine, "q", settings);
    engine.send(queue, "m");
    engine.pass(Millis::from_secs(4999));
    assert!(is_there(&mut engine, "q"));
    // The message expires now, and the idle time begins.
    engine.pass(SECOND);
    engine.pass(NEARLY);
    assert!(is_there(&mut engine, "q"));
    engine.pass(SECOND);
    assert!(!is_there(&mut engine, "q"));
    let usage = engine.shard.usage(engine.tenant).unwrap();
    assert_eq!(
        (usage.entities, usage.messages, usage.message_bytes),
        (0, 0, 0)
    );
}

#[test]
fn a_queue_that_somebody_waits_at_stays() {
    let mut engine = engine();
    let queue = by_use(&mut engine, "q", QueueSettings::default());
    let receiver = engine.tx(|tx| tx.subscribe(queue, 1, None)).unwrap();
    engine.pass(Millis::from_secs(100_000));
    assert!(is_there(&mut engine, "q"));
    engine.tx(|tx| tx.cancel(receiver));
    engine.pass(IDLE);
    engine.pass(IDLE);
    assert!(!is_there(&mut engine, "q"));
}

#[test]
fn the_dead_letter_queue_of_another_queue_stays() {
    let mut engine = engine();
    by_use(&mut engine, "dead", QueueSettings::default());
    let source = engine.queue("source", dying("dead", 3));
    engine.pass(Millis::from_secs(100_000));
    assert!(is_there(&mut engine, "dead"));
    engine
        .tx(|tx| tx.delete_queue(source, Millis::ZERO))
        .unwrap();
    engine.pass(IDLE);
    engine.pass(IDLE);
    assert!(!is_there(&mut engine, "dead"));
}

#[test]
fn an_implicit_queue_that_is_created_explicitly_stays() {
    let mut engine = engine();
    let queue = by_use(&mut engine, "q", QueueSettings::default());
    engine.tx(|tx| tx.adopt_queue(queue)).unwrap();
    engine.pass(Millis::from_secs(100_000));
    assert!(is_there(&mut engine, "q"));
}

#[test]
fn after_a_restart_the_idle_time_begins_anew_and_what_was_reaped_stays_reaped() {
    let mut engine = engine();
    by_use(&mut engine, "first", QueueSettings::default());
    engine.pass(Millis::from_secs(1800));
    by_use(&mut engine, "second", QueueSettings::default());
    engine.pass(Millis::from_secs(1800));
    assert!(!is_there(&mut engine, "first"));
    // A long time down.
    engine.now = engine.now.plus(Millis::from_secs(1_000_000));
    engine.restart();
    engine.pass(NEARLY);
    assert!(!is_there(&mut engine, "first"));
    assert!(is_there(&mut engine, "second"));
    engine.pass(SECOND);
    assert!(!is_there(&mut engine, "second"));
}

#[test]
fn a_reaped_name_can_be_made_again_at_once_and_is_another_queue() {
    let mut engine = engine();
    let first = by_use(&mut engine, "q", QueueSettings::default());
    engine.pass(IDLE);
    let second = by_use(&mut engine, "q", QueueSettings::default());
    assert_ne!(first, second);
    engine.send(second, "m");
    engine.restart();
    assert_eq!(engine.counts(second), (1, 0, 0));
}

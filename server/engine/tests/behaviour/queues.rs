use powerqueue_engine::{Error, Limits, Millis, NewMessage, Origin, QueueSettings, Settle};

use crate::engine::{Engine, in_group, message};

#[test]
fn a_purge_of_ten_thousand_messages_frees_the_tenant_at_once_and_memory_in_slices() {
    let mut engine = Engine::new();
    let queue = engine.queue("q", crate::engine::fifo());
    for number in 0..10_000 {
        let group = format!("g{number}");
        engine
            .tx(|tx| tx.send(queue, in_group(&group, "m")))
            .unwrap();
    }
    let leased = engine.receive(queue, 1);
    engine
        .tx(|tx| tx.purge(queue, Millis::from_secs(60)))
        .unwrap();
    let usage = engine.shard.usage(engine.tenant).unwrap();
    assert_eq!((usage.messages, usage.message_bytes), (0, 0));
    assert_eq!(engine.shard.stats().entries, 10_000);
    assert_eq!(
        engine.tx(|tx| tx.purge(queue, Millis::from_secs(60))),
        Err(Error::Busy)
    );
    assert_eq!(
        engine.settle(leased[0].claim, Settle::Complete),
        Err(Error::NotFound)
    );
    engine.tx(|tx| tx.give_back(&leased[0].claim));
    let sent = engine.tx(|tx| tx.send(queue, in_group("g1", "m"))).unwrap();
    assert_eq!(sent.seq.0, 10_001);
    assert!(engine.pass(Millis::ZERO) >= 20);
    assert_eq!(engine.shard.stats().entries, 1);
    assert_eq!(engine.shard.stats().bodies, 1);
}

#[test]
fn what_a_deleted_queue_held_may_fall_due_before_it_is_cleared() {
    let mut engine = Engine::new();
    let queue = engine.queue("q", QueueSettings::default());
    engine.send(queue, "m");
    engine.receive(queue, 1);
    engine
        .tx(|tx| tx.delete_queue(queue, Millis::ZERO))
        .unwrap();
    engine.pass(Millis::from_secs(31));
    assert_eq!(engine.shard.stats().entries, 0);
}

#[test]
fn a_mass_of_expired_messages_is_skipped_at_once_and_removed_in_slices() {
    let mut engine = Engine::new();
    let queue = engine.queue("q", QueueSettings::default());
    for _ in 0..5_000 {
        let short = NewMessage {
            ttl: Some(Millis::from_secs(1)),
            ..message("m")
        };
        engine.tx(|tx| tx.send(queue, short)).unwrap();
    }
    engine.now = engine.now.plus(Millis::from_secs(1));
    assert!(engine.receive(queue, 10).is_empty());
    assert!(engine.pass(Millis::ZERO) >= 4);
    assert_eq!(engine.shard.stats().entries, 0);
    assert_eq!(engine.shard.usage(engine.tenant).unwrap().message_bytes, 0);
}

#[test]
fn a_shorter_retention_reaches_messages_already_there() {
    let mut engine = Engine::new();
    let queue = engine.queue("q", QueueSettings::default());
    for _ in 0..1_100 {
        engine.send(queue, "m");
    }
    let own = NewMessage {
        ttl: Some(Millis::from_secs(500)),
        ..message("m")
    };
    engine.tx(|tx| tx.send(queue, own)).unwrap();
    engine.now = engine.now.plus(Millis::from_secs(100));
    let shorter = QueueSettings {
        retention: Millis::from_secs(60),
        ..QueueSettings::default()
    };
    engine.tx(|tx| tx.update_queue(queue, shorter)).unwrap();
    let mut got = Vec::new();
    while got.is_empty() {
        got = engine.receive(queue, 5);
    }
    assert_eq!(
        got[0].claim.seq.0, 1_101,
        "no expired one is delivered, swept or not"
    );
}

#[test]
fn a_deleted_name_rests() {
    let mut engine = Engine::new();
    let tenant = engine.tenant;
    let queue = engine.queue("q", QueueSettings::default());
    engine
        .tx(|tx| tx.delete_queue(queue, Millis::from_secs(60)))
        .unwrap();
    let make = |engine: &mut Engine| {
        engine.tx(|tx| tx.create_queue(tenant, "q", QueueSettings::default(), Origin::Explicit))
    };
    assert_eq!(make(&mut engine), Err(Error::DeletedRecently));
    engine.restart();
    assert_eq!(make(&mut engine), Err(Error::DeletedRecently));
    engine.pass(Millis::from_secs(60));
    assert!(make(&mut engine).is_ok_and(|again| again != queue));
}

#[test]
fn past_the_cap_of_resting_names_the_one_nearest_its_end_goes() {
    let mut engine = Engine::with(Limits {
        tombstones: 2,
        ..Limits::UNLIMITED
    });
    let tenant = engine.tenant;
    for name in ["a", "b", "c"] {
        let queue = engine.queue(name, QueueSettings::default());
        engine.pass(Millis(1));
        engine
            .tx(|tx| tx.delete_queue(queue, Millis::from_secs(60)))
            .unwrap();
    }
    let mut make = |name| {
        engine
            .tx(|tx| tx.create_queue(tenant, name, QueueSettings::default(), Origin::Explicit))
            .is_ok()
    };
    assert_eq!([make("a"), make("b"), make("c")], [true, false, false]);
}

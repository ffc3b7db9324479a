use powerqueue_engine::{Command, Error, Limits, Millis, NewMessage, QueueSettings, Settle, Stale};

use crate::engine::{Engine, dying, message, once, seqs, text};

#[test]
fn a_message_is_delivered_before_it_is_durable_and_its_body_left_out() {
    let mut engine = Engine::new();
    let queue = engine.queue("q", QueueSettings::default());
    engine.send(queue, "hello");
    let got = engine.receive(queue, 1);
    assert_eq!(text(&got[0]), "hello");
    let mut tx = engine.shard.begin(engine.now);
    tx.settle(got[0].claim, Settle::Complete, Stale::Refuse)
        .unwrap();
    let group = tx.finish().group.unwrap();
    assert!(group.settles_only && group.durable && group.dead.len() == 1);
}

#[test]
fn a_command_over_several_queues_is_refused_whole() {
    let mut engine = Engine::with(Limits {
        messages_per_queue: 2,
        ..Limits::UNLIMITED
    });
    let (a, b) = (
        engine.queue("a", dying("b", 5)),
        engine.queue("b", QueueSettings::default()),
    );
    engine.send(a, "m");
    engine.send(b, "m");
    let got = engine.receive(a, 1);
    let commands = vec![
        Command::Send(a, message("m")),
        Command::Send(b, message("m")),
        Command::Settle(got[0].claim, Settle::DeadLetter, Stale::Refuse),
    ];
    let refused = engine.tx(|tx| tx.transact(commands));
    assert_eq!(refused, Err(Error::QueueFull { limit: 2 }));
    assert_eq!((engine.counts(a), engine.counts(b)), ((0, 1, 0), (1, 0, 0)));
    let commands = vec![
        Command::Send(a, message("m")),
        Command::Settle(got[0].claim, Settle::Complete, Stale::Refuse),
    ];
    engine.tx(|tx| tx.transact(commands)).unwrap();
    assert!(engine.receive(a, 1).is_empty(), "it is not durable yet");
    engine.sync();
    assert_eq!(seqs(&engine.receive(a, 5)), [2]);
}

#[test]
fn a_fan_out_with_one_full_target_is_refused_whole() {
    let mut engine = Engine::with(Limits {
        messages_per_queue: 1,
        ..Limits::UNLIMITED
    });
    let queues = ["a", "b", "c"].map(|name| engine.queue(name, QueueSettings::default()));
    engine.send(queues[2], "m");
    let refused = engine.tx(|tx| tx.publish(&queues, message("m")));
    assert_eq!(refused, Err(Error::QueueFull { limit: 1 }));
    assert_eq!(engine.shard.stats().entries, 1);
}

#[test]
fn a_fan_out_stores_its_body_once_and_charges_each_copy() {
    let mut engine = Engine::new();
    let queues = ["a", "b", "c"].map(|name| engine.queue(name, QueueSettings::default()));
    let mut tx = engine.shard.begin(engine.now);
    tx.publish(&queues, message("12345")).unwrap();
    let group = tx.finish().group.unwrap();
    assert_eq!(group.bodies.len(), 1);
    assert_eq!(engine.shard.stats().bodies, 1);
    assert_eq!(engine.shard.usage(engine.tenant).unwrap().message_bytes, 15);
    for queue in queues {
        let got = engine.receive(queue, 1);
        assert_eq!(text(&got[0]), "12345");
        engine.settle(got[0].claim, Settle::Complete).unwrap();
    }
    assert_eq!(engine.shard.stats().bodies, 0);
}

#[test]
fn lifetimes_beyond_the_cap_are_refused() {
    let hour = Millis::from_secs(3600);
    let mut engine = Engine::with(Limits {
        lifetime: hour,
        ..Limits::UNLIMITED
    });
    let settings = QueueSettings {
        retention: hour,
        ..QueueSettings::default()
    };
    let queue = engine.queue("q", settings.clone());
    let longer = hour.plus(Millis(1));
    let refused = |what| {
        Some(Error::TooLong {
            what,
            limit_ms: hour.0,
        })
    };
    let ttl = NewMessage {
        ttl: Some(longer),
        ..message("m")
    };
    assert_eq!(
        engine.tx(|tx| tx.send(queue, ttl)).err(),
        refused("time to live")
    );
    let delay = NewMessage {
        delay: Some(longer),
        ..message("m")
    };
    assert_eq!(
        engine.tx(|tx| tx.send(queue, delay)).err(),
        refused("delay")
    );
    let kept = QueueSettings {
        retain_acked: Some(longer),
        ..settings
    };
    assert_eq!(
        engine.tx(|tx| tx.update_queue(queue, kept)).err(),
        refused("retention of acknowledged messages")
    );
    engine.send(queue, "m");
    let got = engine.receive(queue, 1);
    assert_eq!(
        engine.settle(got[0].claim, Settle::Lease(longer)).err(),
        refused("lease")
    );
}

#[test]
fn the_tenants_bytes_and_deduplication_memory_have_caps() {
    let limits = Limits {
        message_bytes: 10,
        dedup_bytes: 193,
        ..Limits::UNLIMITED
    };
    let mut engine = Engine::with(limits);
    let queue = engine.queue("q", QueueSettings::default());
    engine.send(queue, "12345");
    assert_eq!(
        engine.tx(|tx| tx.send(queue, message("123456"))),
        Err(Error::TenantFull { limit: 10 })
    );
    let fifo = engine.queue("q.fifo", crate::engine::fifo());
    engine.tx(|tx| tx.send(fifo, once("a", "1"))).unwrap();
    assert_eq!(
        engine.tx(|tx| tx.send(fifo, once("b", "1"))),
        Err(Error::DeduplicationFull { limit: 193 })
    );
    assert!(
        engine
            .tx(|tx| tx.send(fifo, once("a", "1")))
            .unwrap()
            .duplicate
    );
}

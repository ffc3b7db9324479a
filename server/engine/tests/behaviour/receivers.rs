use powerqueue_engine::{Effect, Error, Millis, NewMessage, QueueSettings, Receive, Settle};

use crate::engine::{Engine, message, seqs};

#[test]
fn consumers_take_turns_and_stop_without_credit() {
    let mut engine = Engine::new();
    let queue = engine.queue("q", QueueSettings::default());
    let first = engine.tx(|tx| tx.subscribe(queue, 2, None)).unwrap();
    let second = engine.tx(|tx| tx.subscribe(queue, 3, None)).unwrap();
    for _ in 0..6 {
        engine.send(queue, "m");
    }
    let given = [
        (first, vec![1]),
        (second, vec![2]),
        (first, vec![3]),
        (second, vec![4]),
        (second, vec![5]),
    ];
    assert_eq!(engine.given(), given);
    engine.tx(|tx| tx.grant(first, 1)).unwrap();
    assert_eq!(engine.given(), [(first, vec![6])]);
    assert_eq!(engine.counts(queue), (0, 6, 0));
}

#[test]
fn a_long_poll_gets_a_whole_batch_at_once_and_is_gone() {
    let mut engine = Engine::new();
    let queue = engine.queue("q", QueueSettings::default());
    let poll = engine
        .tx(|tx| {
            tx.wait(
                queue,
                Receive {
                    max: 10,
                    lease: None,
                },
            )
        })
        .unwrap();
    engine.tx(|tx| {
        for _ in 0..3 {
            tx.send(queue, message("m")).unwrap();
        }
    });
    assert_eq!(engine.given(), [(poll, vec![1, 2, 3])]);
    assert!(!engine.tx(|tx| tx.cancel(poll)));
}

#[test]
fn a_returned_message_has_its_old_place() {
    let mut engine = Engine::new();
    let queue = engine.queue("q", QueueSettings::default());
    for _ in 0..4 {
        engine.send(queue, "m");
    }
    let got = engine.receive(queue, 2);
    engine
        .settle(got[1].claim, Settle::Release(Millis::ZERO))
        .unwrap();
    assert_eq!(seqs(&engine.receive(queue, 2)), [2, 3]);
}

#[test]
fn a_message_set_aside_is_had_by_its_number_alone() {
    let mut engine = Engine::new();
    let queue = engine.queue("q", QueueSettings::default());
    let sent = engine.send(queue, "m");
    let got = engine.receive(queue, 1);
    engine.settle(got[0].claim, Settle::Defer).unwrap();
    engine.pass(Millis::from_secs(60));
    assert!(engine.receive(queue, 1).is_empty());
    engine.restart();
    let again = engine
        .tx(|tx| tx.receive_deferred(queue, &[sent.seq], None))
        .unwrap();
    assert_eq!(seqs(&again), [1]);
    assert_eq!(
        engine
            .tx(|tx| tx.receive_deferred(queue, &[sent.seq], None))
            .err(),
        Some(Error::NotFound)
    );
    engine.settle(again[0].claim, Settle::Complete).unwrap();
    assert_eq!(engine.shard.stats().entries, 0);
}

#[test]
fn past_the_cap_of_leases_a_receive_says_so_and_a_receiver_waits() {
    let mut engine = Engine::new();
    let queue = engine.queue(
        "q",
        QueueSettings {
            max_leased: 2,
            ..QueueSettings::default()
        },
    );
    for _ in 0..4 {
        engine.send(queue, "m");
    }
    let got = engine.receive(queue, 10);
    assert_eq!(seqs(&got), [1, 2]);
    let over = engine.tx(|tx| {
        tx.receive(
            queue,
            Receive {
                max: 1,
                lease: None,
            },
        )
    });
    assert_eq!(
        over.err(),
        Some(Error::TooMany {
            what: "messages in flight",
            limit: 2
        })
    );
    let consumer = engine.tx(|tx| tx.subscribe(queue, 5, None)).unwrap();
    assert!(engine.given().is_empty());
    engine.settle(got[0].claim, Settle::Complete).unwrap();
    assert_eq!(engine.given(), [(consumer, vec![3])]);
    let more = QueueSettings {
        max_leased: 3,
        ..QueueSettings::default()
    };
    engine.tx(|tx| tx.update_queue(queue, more)).unwrap();
    assert_eq!(engine.given(), [(consumer, vec![4])]);
}

#[test]
fn a_receive_without_a_lease_leaves_messages_ready_and_its_claims_good() {
    let mut engine = Engine::new();
    let queue = engine.queue(
        "q",
        QueueSettings {
            max_leased: 1,
            ..QueueSettings::default()
        },
    );
    engine.send(queue, "m");
    engine.send(queue, "m");
    let request = Receive {
        max: 5,
        lease: Some(Millis::ZERO),
    };
    let got = engine.tx(|tx| tx.receive(queue, request)).unwrap();
    assert_eq!(engine.counts(queue), (2, 0, 0));
    engine
        .tx(|tx| {
            tx.settle(
                got[0].claim,
                Settle::Complete,
                powerqueue_engine::Stale::Accept,
            )
        })
        .unwrap();
    assert_eq!(engine.counts(queue), (1, 0, 0));
}

#[test]
fn a_deleted_queue_ends_its_receivers() {
    let mut engine = Engine::new();
    let queue = engine.queue("q", QueueSettings::default());
    let consumer = engine.tx(|tx| tx.subscribe(queue, 1, None)).unwrap();
    let poll = engine
        .tx(|tx| {
            tx.wait(
                queue,
                Receive {
                    max: 1,
                    lease: None,
                },
            )
        })
        .unwrap();
    engine
        .tx(|tx| tx.delete_queue(queue, Millis::ZERO))
        .unwrap();
    let ended: Vec<_> = engine
        .effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::End { receiver } => Some(*receiver),
            Effect::Deliver { .. } => None,
        })
        .collect();
    assert_eq!(ended, [consumer, poll]);
    assert_eq!(engine.shard.stats().receivers, 0);
}

#[test]
fn delayed_messages_come_at_their_time_and_in_order() {
    let mut engine = Engine::new();
    let queue = engine.queue("q", QueueSettings::default());
    for secs in [3, 1, 2] {
        let delayed = NewMessage {
            delay: Some(Millis::from_secs(secs)),
            ..message("m")
        };
        engine.tx(|tx| tx.send(queue, delayed)).unwrap();
    }
    let consumer = engine.tx(|tx| tx.subscribe(queue, 9, None)).unwrap();
    engine.pass(Millis(999));
    assert!(engine.given().is_empty());
    engine.pass(Millis(1));
    assert_eq!(engine.given(), [(consumer, vec![2])]);
    engine.pass(Millis::from_secs(5));
    assert_eq!(engine.given(), [(consumer, vec![1]), (consumer, vec![3])]);
}

#[test]
fn a_queue_that_always_has_more_to_do_does_not_hold_up_the_others() {
    let mut engine = Engine::new();
    let (busy, other) = (
        engine.queue("a", QueueSettings::default()),
        engine.queue("b", QueueSettings::default()),
    );
    engine.send(busy, "m");
    engine
        .tx(|tx| tx.subscribe(busy, 1_000_000, Some(Millis::ZERO)))
        .unwrap();
    let consumer = engine.tx(|tx| tx.subscribe(other, 1, None)).unwrap();
    engine.send(other, "m");
    engine.tick();
    engine.tick();
    assert!(
        engine
            .given()
            .iter()
            .any(|(receiver, _)| *receiver == consumer)
    );
}

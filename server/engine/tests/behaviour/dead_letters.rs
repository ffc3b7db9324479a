use powerqueue_engine::{Error, Limits, Millis, QueueSettings, Settle};

use crate::engine::{Engine, dying, seqs};

#[test]
fn a_message_delivered_too_often_is_moved_in_place_of_the_next_delivery() {
    let mut engine = Engine::new();
    let dead = engine.queue("dead", QueueSettings::default());
    let queue = engine.queue("q", dying("dead", 2));
    engine.send(queue, "m");
    for _ in 0..2 {
        assert_eq!(engine.receive(queue, 1).len(), 1);
        engine.pass(Millis::from_secs(30));
    }
    assert_eq!(engine.counts(dead), (0, 0, 0));
    assert!(engine.receive(queue, 1).is_empty());
    let got = engine.receive(dead, 1);
    assert_eq!(got[0].claim.delivery, 3, "the count goes on");
    let overlay = got[0].overlay.as_ref().unwrap();
    assert_eq!(overlay.dead_letter_source.as_deref(), Some("source"));
}

#[test]
fn a_full_dead_letter_queue_is_tried_again_later() {
    let mut engine = Engine::with(Limits {
        messages_per_queue: 1,
        ..Limits::UNLIMITED
    });
    let dead = engine.queue("dead", QueueSettings::default());
    let queue = engine.queue("q", dying("dead", 1));
    engine.send(dead, "in the way");
    engine.send(queue, "m");
    let got = engine.receive(queue, 1);
    assert_eq!(
        engine.settle(got[0].claim, Settle::DeadLetter),
        Err(Error::QueueFull { limit: 1 })
    );
    assert_eq!(
        engine.counts(queue),
        (0, 1, 0),
        "the refused move left it leased"
    );
    engine.pass(Millis::from_secs(30));
    assert!(engine.receive(queue, 1).is_empty());
    assert_eq!(engine.counts(queue), (0, 0, 1));
    let other = engine.receive(dead, 1);
    engine.settle(other[0].claim, Settle::Complete).unwrap();
    engine.pass(Millis::from_secs(1));
    assert!(engine.receive(queue, 1).is_empty());
    assert_eq!(seqs(&engine.receive(dead, 1)), [2]);
}

#[test]
fn without_a_dead_letter_queue_there_messages_are_had_as_before() {
    let mut engine = Engine::new();
    let queue = engine.queue("q", dying("missing", 1));
    engine.send(queue, "m");
    for delivery in 1..4 {
        assert_eq!(engine.receive(queue, 1)[0].claim.delivery, delivery);
        engine.pass(Millis::from_secs(30));
    }
}

#[test]
fn a_queue_that_is_its_own_dead_letter_queue_keeps_delivering() {
    let mut engine = Engine::new();
    let queue = engine.queue("q", dying("q", 1));
    engine.send(queue, "m");
    for delivery in 1..4 {
        assert_eq!(engine.receive(queue, 1)[0].claim.delivery, delivery);
        engine.pass(Millis::from_secs(30));
    }
}

#[test]
fn two_dead_letter_queues_of_each_other_come_to_rest() {
    let mut engine = Engine::new();
    let (a, b) = (
        engine.queue("a", dying("b", 1)),
        engine.queue("b", dying("a", 1)),
    );
    for queue in [a, b] {
        engine.tx(|tx| tx.subscribe(queue, 100, None)).unwrap();
    }
    engine.send(a, "m");
    assert!(engine.pass(Millis::from_secs(30)) < 10);
    assert!(engine.pass(Millis::from_secs(30)) < 10);
    assert_eq!(engine.given().len(), 3);
}

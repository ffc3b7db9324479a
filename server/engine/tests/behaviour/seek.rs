use powerqueue_engine::{Error, Millis, QueueId, SeekTo, Seq, Settle};

use crate::engine::{Engine, message, retaining, seqs};

/// A queue of so many messages, one a millisecond, all acknowledged.
fn acknowledged(engine: &mut Engine, count: u32) -> QueueId {
    let queue = engine.queue("q", retaining());
    for _ in 0..count {
        engine.now = engine.now.plus(Millis(1));
        engine.send(queue, "m");
    }
    for delivery in engine.receive(queue, count) {
        engine.settle(delivery.claim, Settle::Complete).unwrap();
    }
    assert_eq!(engine.counts(queue), (0, 0, 0));
    queue
}

fn seek(engine: &mut Engine, queue: QueueId, to: SeekTo) {
    engine.tx(|tx| tx.seek(queue, to)).unwrap();
}

#[test]
fn a_queue_that_keeps_nothing_cannot_be_sought() {
    let mut engine = Engine::new();
    let queue = engine.queue("q", Default::default());
    let refused = engine.tx(|tx| tx.seek(queue, SeekTo::Seq(Seq(1))));
    assert!(matches!(refused, Err(Error::NotAllowed(_))));
}

#[test]
fn a_seek_back_delivers_acknowledged_messages_again() {
    let mut engine = Engine::new();
    let queue = acknowledged(&mut engine, 1200);
    seek(&mut engine, queue, SeekTo::Seq(Seq(201)));
    assert!(engine.pass(Millis::ZERO) > 2, "it is done in slices");
    assert_eq!(engine.counts(queue), (1000, 0, 0));
    assert_eq!(seqs(&engine.receive(queue, 3)), [201, 202, 203]);
}

#[test]
fn a_seek_to_a_time_counts_from_what_was_sent_then() {
    let mut engine = Engine::new();
    let start = engine.now;
    let queue = acknowledged(&mut engine, 700);
    seek(&mut engine, queue, SeekTo::Time(start.plus(Millis(600))));
    engine.pass(Millis::ZERO);
    assert_eq!(engine.counts(queue), (101, 0, 0));
    assert_eq!(seqs(&engine.receive(queue, 1)), [600]);
}

#[test]
fn a_seek_forward_acknowledges_at_once_whatever_the_slices_have_reached() {
    let mut engine = Engine::new();
    let queue = engine.queue("q", retaining());
    for _ in 0..1300 {
        engine.send(queue, "m");
    }
    let leased = engine.receive(queue, 1);
    seek(&mut engine, queue, SeekTo::Seq(Seq(1299)));
    assert_eq!(
        engine.settle(leased[0].claim, Settle::Complete),
        Err(Error::NotFound)
    );
    let mut got = Vec::new();
    while got.is_empty() {
        got = engine.receive(queue, 5);
    }
    assert_eq!(seqs(&got), [1299, 1300]);
    engine.pass(Millis::ZERO);
    assert_eq!(engine.counts(queue), (0, 2, 0));
}

#[test]
fn settling_during_a_sweep_outlasts_it() {
    let mut engine = Engine::new();
    let queue = acknowledged(&mut engine, 1200);
    seek(&mut engine, queue, SeekTo::Seq(Seq(1)));
    engine.tick();
    let got = engine.receive(queue, 1);
    engine.settle(got[0].claim, Settle::Complete).unwrap();
    engine.tick();
    engine.pass(Millis::ZERO);
    assert_eq!(engine.counts(queue), (1199, 0, 0));
    engine.restart();
    assert_eq!(engine.counts(queue), (1199, 0, 0));
}

#[test]
fn a_crash_in_the_middle_of_a_sweep_finishes_it() {
    let mut engine = Engine::new();
    let queue = acknowledged(&mut engine, 1200);
    seek(&mut engine, queue, SeekTo::Seq(Seq(1)));
    engine.tick();
    engine.restart();
    assert_eq!(engine.counts(queue), (1200, 0, 0));
}

#[test]
fn a_lease_saved_during_a_sweep_does_not_bring_a_sought_message_back() {
    let mut engine = Engine::new();
    let queue = engine.queue("q", retaining());
    for _ in 0..600 {
        engine.send(queue, "m");
    }
    engine.receive(queue, 600);
    seek(&mut engine, queue, SeekTo::Seq(Seq(601)));
    engine.save();
    engine.restart();
    engine.pass(Millis::from_secs(31));
    assert_eq!(engine.counts(queue), (0, 0, 0));
}

#[test]
fn seeks_follow_one_another_in_order_and_too_many_are_refused() {
    let mut engine = Engine::new();
    let queue = acknowledged(&mut engine, 1200);
    for turn in 0..16 {
        seek(
            &mut engine,
            queue,
            SeekTo::Seq(Seq(if turn % 2 == 0 { 1 } else { 2000 })),
        );
    }
    assert_eq!(
        engine.tx(|tx| tx.seek(queue, SeekTo::Seq(Seq(1)))),
        Err(Error::Busy)
    );
    engine.pass(Millis::ZERO);
    assert_eq!(engine.counts(queue), (0, 0, 0));
    seek(&mut engine, queue, SeekTo::Seq(Seq(1101)));
    engine.pass(Millis::ZERO);
    assert_eq!(engine.counts(queue), (100, 0, 0));
}

#[test]
fn kept_messages_go_when_their_time_is_over() {
    let mut engine = Engine::new();
    let queue = acknowledged(&mut engine, 10);
    engine.tx(|tx| tx.send(queue, message("m"))).unwrap();
    engine.pass(Millis::from_secs(3600));
    assert_eq!(engine.shard.stats().entries, 1);
}

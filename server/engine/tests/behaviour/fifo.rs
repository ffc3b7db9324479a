use powerqueue_engine::{Error, Millis, NewMessage, QueueId, QueueSettings, Receive, Settle};

use crate::engine::{Engine, fifo, in_group, once, seqs};

fn sent(engine: &mut Engine, queue: QueueId, groups: &[&str]) {
    for group in groups {
        engine
            .tx(|tx| tx.send(queue, in_group(group, "m")))
            .unwrap();
    }
}

#[test]
fn a_receive_fills_from_one_group_and_then_from_others() {
    let mut engine = Engine::new();
    let queue = engine.queue("q.fifo", fifo());
    sent(&mut engine, queue, &["a", "b", "a", "b", "a"]);
    assert_eq!(seqs(&engine.receive(queue, 4)), [1, 3, 5, 2]);
    assert!(
        engine.receive(queue, 4).is_empty(),
        "both groups have a message in flight"
    );
}

#[test]
fn deleting_a_part_does_not_unlock_the_group() {
    let mut engine = Engine::new();
    let queue = engine.queue("q.fifo", fifo());
    sent(&mut engine, queue, &["a", "a", "a"]);
    let got = engine.receive(queue, 2);
    engine.settle(got[1].claim, Settle::Complete).unwrap();
    assert!(engine.receive(queue, 1).is_empty());
    engine.settle(got[0].claim, Settle::Complete).unwrap();
    assert_eq!(seqs(&engine.receive(queue, 1)), [3]);
}

#[test]
fn extending_the_middle_one_of_three_hides_it_and_the_later_one() {
    let mut engine = Engine::new();
    let queue = engine.queue("q.fifo", fifo());
    sent(&mut engine, queue, &["a", "a", "a"]);
    let got = engine.receive(queue, 3);
    engine
        .settle(got[1].claim, Settle::Lease(Millis::from_secs(100)))
        .unwrap();
    engine.pass(Millis::from_secs(40));
    assert_eq!(seqs(&engine.receive(queue, 10)), [1]);
}

#[test]
fn an_expired_lease_returns_the_message_to_the_head_of_its_group() {
    let mut engine = Engine::new();
    let queue = engine.queue("q.fifo", fifo());
    sent(&mut engine, queue, &["a", "a"]);
    let got = engine.receive(queue, 1);
    engine.pass(Millis::from_secs(31));
    assert_eq!(
        engine.settle(got[0].claim, Settle::Complete),
        Err(Error::LeaseLost)
    );
    assert_eq!(seqs(&engine.receive(queue, 10)), [1, 2]);
}

#[test]
fn an_expired_message_in_the_middle_of_a_run_is_left_out() {
    let mut engine = Engine::new();
    let queue = engine.queue("q.fifo", fifo());
    sent(&mut engine, queue, &["a"]);
    let short = NewMessage {
        ttl: Some(Millis(10)),
        ..in_group("a", "m")
    };
    engine.tx(|tx| tx.send(queue, short)).unwrap();
    sent(&mut engine, queue, &["a"]);
    engine.now = engine.now.plus(Millis(20));
    assert_eq!(seqs(&engine.receive(queue, 10)), [1, 3]);
}

#[test]
fn acknowledged_messages_that_are_kept_hold_nothing_up() {
    let mut engine = Engine::new();
    let settings = QueueSettings {
        retain_acked: Some(Millis::from_secs(3600)),
        ..fifo()
    };
    let queue = engine.queue("q.fifo", settings);
    sent(&mut engine, queue, &["a", "a", "a"]);
    let got = engine.receive(queue, 2);
    engine.settle(got[0].claim, Settle::Complete).unwrap();
    engine.settle(got[1].claim, Settle::Complete).unwrap();
    assert_eq!(seqs(&engine.receive(queue, 1)), [3]);
}

#[test]
fn a_duplicate_answers_with_the_first_for_five_minutes_even_after_its_deletion() {
    let mut engine = Engine::new();
    let queue = engine.queue("q.fifo", fifo());
    let first = engine.tx(|tx| tx.send(queue, once("d", "m"))).unwrap();
    assert!(engine.receive(queue, 1).is_empty(), "it is not durable yet");
    engine.sync();
    let got = engine.receive(queue, 1);
    engine.settle(got[0].claim, Settle::Complete).unwrap();
    engine.pass(Millis::from_secs(299));
    let again = engine
        .tx(|tx| tx.send(queue, once("d", "another")))
        .unwrap();
    assert_eq!(
        (again.id, again.seq, again.duplicate),
        (first.id, first.seq, true)
    );
    engine.pass(Millis::from_secs(1));
    assert!(
        !engine
            .tx(|tx| tx.send(queue, once("d", "m")))
            .unwrap()
            .duplicate
    );
}

#[test]
fn a_purge_forgets_deduplication_ids() {
    let mut engine = Engine::new();
    let queue = engine.queue("q.fifo", fifo());
    engine.tx(|tx| tx.send(queue, once("d", "m"))).unwrap();
    engine.tx(|tx| tx.purge(queue, Millis::ZERO)).unwrap();
    assert_eq!(engine.shard.usage(engine.tenant).unwrap().dedup_bytes, 0);
    assert!(
        !engine
            .tx(|tx| tx.send(queue, once("d", "m")))
            .unwrap()
            .duplicate
    );
}

#[test]
fn a_receive_again_gives_the_same_deliveries_unless_one_was_settled() {
    let mut engine = Engine::new();
    let queue = engine.queue("q.fifo", fifo());
    sent(&mut engine, queue, &["a", "a"]);
    let request = Receive {
        max: 2,
        lease: None,
    };
    let got = engine.tx(|tx| tx.receive(queue, request)).unwrap();
    let claims: Vec<_> = got.iter().map(|delivery| delivery.claim).collect();
    engine.pass(Millis::from_secs(20));
    let again = engine.tx(|tx| tx.reissue(&claims, None)).unwrap();
    assert_eq!(
        again
            .iter()
            .map(|delivery| delivery.claim)
            .collect::<Vec<_>>(),
        claims
    );
    assert_eq!(
        again[0].leased_until,
        engine.now.plus(Millis::from_secs(30))
    );
    engine.settle(claims[0], Settle::Complete).unwrap();
    assert!(engine.tx(|tx| tx.reissue(&claims, None)).is_none());
}

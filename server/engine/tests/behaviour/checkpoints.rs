use powerqueue_engine::{Capture, Millis, QueueSettings};

use crate::engine::{Engine, message, seqs};

/// Everything, as it is captured now.
fn captured(engine: &Engine) -> Vec<Vec<u8>> {
    let mut capture = Capture::default();
    let mut pieces = Vec::new();
    while !capture.is_done() {
        pieces.push(engine.shard.capture(&mut capture));
    }
    pieces
}

#[test]
fn a_message_moved_before_it_was_written_survives_the_deletion_of_where_it_was() {
    let mut engine = Engine::new();
    let from = engine.queue("from", QueueSettings::default());
    let to = engine.queue("to", QueueSettings::default());
    engine.sync();
    let position = engine.written();
    engine.send(from, "m");
    let moved = engine.tx(|tx| tx.move_ready(from, 1, &mut |_, _| Some((to, 9))));
    assert_eq!(moved, Ok(1));
    engine.tx(|tx| tx.delete_queue(from, Millis::ZERO)).unwrap();
    let pieces = captured(&engine);
    engine.restart_from(&pieces, position);
    assert_eq!(seqs(&engine.receive(to, 5)), [1]);
}

#[test]
fn a_message_unwritten_at_a_checkpoint_follows_the_settings_that_came_after_it() {
    let mut engine = Engine::new();
    let queue = engine.queue("q", QueueSettings::default());
    engine.sync();
    let position = engine.written();
    engine.tx(|tx| tx.send(queue, message("m"))).unwrap();
    let shorter = QueueSettings {
        retention: Millis::from_secs(60),
        ..QueueSettings::default()
    };
    engine.tx(|tx| tx.update_queue(queue, shorter)).unwrap();
    engine.pass(Millis::ZERO);
    let pieces = captured(&engine);
    engine.restart_from(&pieces, position);
    engine.pass(Millis::from_secs(60));
    assert_eq!(engine.shard.stats().entries, 0);
}

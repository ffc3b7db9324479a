//! Crashes: the shard is made anew from what the journal kept, and has to be what the model was at its end.

use rand::Rng;

use super::{
    history::{Seen, World},
    model::{Model, Msg},
};
use crate::{Epoch, Millis, QueueId, Recovery, Seq, Shard, entry::State};

impl World {
    pub(super) fn crash(&mut self) {
        let lose = self.rng.random_range(0..3);
        let last = self.model.clone();
        self.journal.crash(lose);
        self.capture = None;
        self.captured = None;
        self.now = self.now.plus(Millis(self.rng.random_range(0..2000)));
        self.epoch += 1;
        self.shard = self.recover();
        let mut expected = match self.journal.log.last() {
            Some(written) => written.after.clone(),
            None => Model {
                max_messages: last.max_messages,
                picks: Vec::new(),
                ..Model::default()
            },
        };
        expected.now = self.shard.now();
        self.check_elided(&mut expected, &last);
        for id in expected
            .queues
            .iter()
            .map(|queue| queue.id)
            .collect::<Vec<_>>()
        {
            expected.touch_all(id);
        }
        self.model = expected;
        self.compare_names(&self.model);
        self.adopt();
    }

    fn recover(&mut self) -> Shard {
        let mut recovery = Recovery::new(3, Epoch(self.epoch), self.limits, self.now);
        let mut from = 0;
        // It may hold leases that the log never had: once a life began from it, the log alone is not enough.
        if !self.relies && self.rng.random_bool(0.3) {
            self.checkpoint = None;
        }
        if let Some((position, pieces)) = &self.checkpoint {
            for piece in pieces {
                recovery.apply(piece, &[]).expect("it can be read");
            }
            from = *position;
            self.relies = true;
        }
        for written in self
            .journal
            .log
            .iter()
            .skip(from)
            .filter(|written| !written.needless)
        {
            recovery
                .apply(&written.group.records, &written.bodies)
                .expect("it can be read");
        }
        recovery.finish(self.now, false)
    }

    /// Messages whose bodies were left out are gone, and were settled.
    fn check_elided(&self, expected: &mut Model, last: &Model) {
        let left_out = |content: u64| self.journal.elided.contains(content.to_string().as_bytes());
        for msg in last.queues.iter().flat_map(|queue| &queue.msgs) {
            assert!(
                !left_out(msg.content),
                "content {} was left out and is wanted",
                msg.content
            );
        }
        for queue in &mut expected.queues {
            queue.msgs.retain(|msg| !left_out(msg.content));
        }
    }

    /// Checks what the shard has against the model, and takes over what the journal may have forgotten.
    fn adopt(&mut self) {
        let ids: Vec<QueueId> = self.model.queues.iter().map(|queue| queue.id).collect();
        for id in ids {
            let now = self.model.now;
            let slot = self.shard.queue_slots[&id];
            let queue = self.model.queue(id).expect("it is there");
            queue.waiters.clear();
            let mut queue = queue.clone();
            let real = &self.shard.queues[slot];
            let highest = self.highest.get(&id).copied().unwrap_or(0);
            assert!(
                real.next_seq.0 > highest,
                "a sequence number would be used again"
            );
            queue.next_seq = real.next_seq.0;
            assert_eq!(*real.settings, queue.settings);
            self.compare_dedup(&queue);
            let there = |seq: &u64| real.index.get(Seq(*seq)).is_some();
            // What expired may be gone or not.
            queue
                .msgs
                .retain(|msg| !is_over(msg, now) || there(&msg.seq));
            let seqs: Vec<u64> = real.index.from(Seq(0)).map(|(seq, _)| seq.0).collect();
            let expected: Vec<u64> = queue.msgs.iter().map(|msg| msg.seq).collect();
            assert_eq!(
                seqs, expected,
                "the messages of queue {id} ({}) after a crash",
                queue.name
            );
            for msg in &mut queue.msgs {
                self.adopt_message(id, msg);
            }
            *self.model.queue(id).expect("it is there") = queue;
        }
    }

    fn adopt_message(&self, id: QueueId, msg: &mut Msg) {
        let key = self.shard.find(id, Seq(msg.seq)).expect("it is there");
        let entry = &self.shard.entries[key];
        let what = format!("message {} of queue {id} after a crash", msg.seq);
        self.compare_content(key, msg, &what, false);
        assert_ne!(entry.state, State::Held, "{what} waits for ever");
        let seen = self
            .seen
            .get(&(id, Seq(msg.seq)))
            .map_or(&[][..], Vec::as_slice);
        let now = Seen {
            state: msg.state,
            due: msg.due,
            deliveries: msg.deliveries,
            first: msg.first,
        };
        // That a lease ended by itself is not journaled.
        let leased_from = if entry.due <= self.model.now {
            0
        } else {
            msg.standing_from
        };
        match (msg.state, entry.state) {
            (State::Acked, State::Acked) => assert_eq!(entry.due, msg.due, "{what}"),
            (State::Acked, other) => panic!("{what} was acknowledged and is {other:?}"),
            (_, State::Acked) => panic!("{what} was not acknowledged and is"),
            // The checkpoint may show what was leased since.
            (State::Deferred, other) => assert!(
                later(seen, msg.standing_from, &now).any(|seen| seen.state == other),
                "{what} was deferred and is {other:?}"
            ),
            (_, State::Deferred) => assert!(msg.was_deferred, "{what} was not deferred and is"),
            (_, State::Leased) => assert!(
                later(seen, leased_from, &now)
                    .any(|seen| seen.state == State::Leased && seen.due == entry.due),
                "{what} was never leased like this: {entry:?} {msg:?} {seen:?}"
            ),
            _ => {}
        }
        let counts = (entry.deliveries, entry.first_delivered_at);
        let born = msg.counts_from == 0 && counts == msg.born;
        assert!(
            born || later(seen, msg.counts_from, &now).any(|seen| (seen.deliveries, seen.first)
                == (entry.deliveries, entry.first_delivered_at)),
            "{what} was never counted like this: {entry:?} {seen:?} {}",
            msg.counts_from
        );
        (msg.state, msg.due) = (entry.state, entry.due);
        (msg.deliveries, msg.first) = (entry.deliveries, entry.first_delivered_at);
        (msg.here, msg.touched, msg.was_deferred) = (false, false, msg.state == State::Deferred);
        (msg.held_by, msg.pending) = (0, vec![]);
        // The history goes on from what was adopted.
        (msg.standing_from, msg.counts_from) = (0, 0);
    }
}

fn later<'a>(seen: &'a [Seen], from: usize, now: &'a Seen) -> impl Iterator<Item = &'a Seen> {
    seen.iter().skip(from).chain(std::iter::once(now))
}

fn is_over(msg: &Msg, now: Millis) -> bool {
    msg.is_expired(now) || msg.state == State::Acked && msg.due <= now
}

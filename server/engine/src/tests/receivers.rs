//! Steps that receive.

use super::{
    history::{SECOND, World},
    model::{Expected, Waiter},
};
use crate::{Claim, Content, Delivery, Error, Millis, QueueId, Receive, Seq, entry::State};
use rand::Rng;

impl World {
    pub(super) fn request(&mut self) -> Receive {
        let leases = [
            None,
            Some(Millis(5 * SECOND)),
            Some(Millis(SECOND)),
            Some(Millis::ZERO),
        ];
        Receive {
            max: self.rng.random_range(1..5),
            lease: leases[self.rng.random_range(0..leases.len())],
        }
    }

    pub(super) fn receive(&mut self) {
        let Some(id) = self.any_queue() else { return };
        let request = self.request();
        let mut tx = self.shard.begin(self.now);
        let result = tx.receive(id, request);
        let output = tx.finish();
        self.follow_picks();
        match (result, self.model.take(id, request)) {
            (Ok(got), Ok(expected)) => self.delivered(id, got, &expected),
            (Err(Error::TooMany { .. }), Err(())) => {}
            (got, expected) => panic!("{got:?} in place of {expected:?}"),
        }
        self.process(output);
    }

    pub(super) fn register(&mut self) {
        let Some(id) = self.any_queue() else { return };
        let Receive { max, lease } = self.request();
        let once = self.rng.random_bool(0.5);
        let credit = if once {
            max
        } else {
            self.rng.random_range(0..4)
        };
        let mut tx = self.shard.begin(self.now);
        let receiver = if once {
            tx.wait(id, Receive { max, lease })
        } else {
            tx.subscribe(id, credit, lease)
        };
        let output = tx.finish();
        let waiter = Waiter {
            id: receiver.expect("there is room"),
            credit,
            lease,
            once,
        };
        self.model
            .queue(id)
            .expect("it is there")
            .waiters
            .push(waiter);
        self.process(output);
    }

    pub(super) fn grant_or_cancel(&mut self) {
        let waiters: Vec<_> = self
            .model
            .queues
            .iter()
            .flat_map(|q| q.waiters.iter().map(|w| (q.id, *w)))
            .collect();
        if waiters.is_empty() {
            return;
        }
        let (queue, waiter) = waiters[self.rng.random_range(0..waiters.len())];
        let cancel = waiter.once || self.rng.random_bool(0.4);
        let mut tx = self.shard.begin(self.now);
        if cancel {
            assert!(tx.cancel(waiter.id) && !tx.cancel(waiter.id));
        } else {
            assert_eq!(tx.grant(waiter.id, 2), Ok(()));
        }
        let output = tx.finish();
        let waiters = &mut self.model.queue(queue).expect("it is there").waiters;
        if cancel {
            waiters.retain(|other| other.id != waiter.id);
        } else if let Some(known) = waiters.iter_mut().find(|other| other.id == waiter.id) {
            known.credit += 2;
        }
        self.process(output);
    }

    pub(super) fn give_back(&mut self) {
        let Some(claim) = self.any_claim() else {
            return;
        };
        let mut tx = self.shard.begin(self.now);
        tx.give_back(&claim);
        let output = tx.finish();
        self.model.touch(claim.queue, claim.seq.0);
        let current = self.is_current(&claim) && claim.epoch.0 == self.epoch;
        let now = self.model.now;
        if let Some(msg) = self.model.msg(claim.queue, claim.seq.0)
            && current
            && msg.state == State::Leased
        {
            msg.deliveries -= 1;
            if msg.deliveries == 0 {
                msg.first = Millis::ZERO;
            }
            (msg.state, msg.due) = (State::Ready, now);
            self.claims.retain(|other| *other != claim);
            if let Some(issued) = self.issued.get_mut(&(claim.queue, claim.seq)) {
                issued.pop();
            }
        }
        self.process(output);
    }

    pub(super) fn reissue(&mut self) {
        let mut claims: Vec<Claim> = (0..2).filter_map(|_| self.any_claim()).collect();
        claims.dedup();
        let mut tx = self.shard.begin(self.now);
        let result = tx.reissue(&claims, Some(Millis(4 * SECOND)));
        let output = tx.finish();
        let now = self.model.now;
        // It stops at the first that cannot be.
        let all = claims.iter().all(|claim| {
            self.model.touch(claim.queue, claim.seq.0);
            let current = self.is_current(claim) && claim.epoch.0 == self.epoch;
            self.model.msg(claim.queue, claim.seq.0).is_some_and(|msg| {
                current
                    && msg.state == State::Leased
                    && msg.due > now
                    && !msg.touched
                    && !msg.is_expired(now)
            })
        });
        assert_eq!(result.is_some(), all);
        for delivery in result.into_iter().flatten() {
            let until = now.plus(Millis(4 * SECOND));
            assert_eq!(delivery.leased_until, until);
            self.model
                .msg(delivery.claim.queue, delivery.claim.seq.0)
                .expect("leased")
                .due = until;
        }
        self.process(output);
    }

    pub(super) fn receive_deferred(&mut self) {
        let Some(id) = self.any_queue() else { return };
        self.tick();
        let now = self.model.now;
        let queue = self.model.queue(id).expect("it is there");
        let seqs: Vec<u64> = queue
            .msgs
            .iter()
            .filter(|msg| msg.state == State::Deferred && !msg.is_expired(now))
            .map(|msg| msg.seq)
            .collect();
        if seqs.is_empty() {
            return;
        }
        let wanted: Vec<Seq> = seqs.iter().map(|seq| Seq(*seq)).collect();
        let mut tx = self.shard.begin(self.now);
        assert!(
            tx.receive_deferred(id, &[wanted[0], wanted[0]], None)
                .is_err()
        );
        let got = tx
            .receive_deferred(id, &wanted, Some(Millis(SECOND)))
            .expect("all are deferred");
        let output = tx.finish();
        let expected: Vec<Expected> = seqs
            .iter()
            .map(|seq| {
                let msg = self.model.msg(id, *seq).expect("it is there");
                msg.was_deferred = true;
                msg.deliver(now, Millis(SECOND))
            })
            .collect();
        self.delivered(id, got, &expected);
        self.process(output);
    }

    /// Checks deliveries and notes their claims.
    pub(super) fn delivered(&mut self, id: QueueId, got: Vec<Delivery>, expected: &[Expected]) {
        let seen: Vec<Expected> = got
            .iter()
            .map(|delivery| Expected {
                seq: delivery.claim.seq.0,
                delivery: delivery.claim.delivery,
                content: self.content(&delivery.content),
                until: delivery.leased_until,
                group: delivery.group.as_ref().map(|group| group.to_string()),
            })
            .collect();
        assert_eq!(seen, expected, "deliveries of queue {id}");
        for delivery in got {
            let claim = delivery.claim;
            assert_eq!((claim.queue, claim.epoch.0), (id, self.epoch));
            self.issued.entry((id, claim.seq)).or_default().push(claim);
            self.claims.push(claim);
        }
    }

    pub(super) fn content(&self, content: &Content) -> u64 {
        let bytes = match content {
            Content::Pinned(bytes) => bytes.clone(),
            Content::Stored(at) => self.journal.stored[&at.position].clone(),
        };
        String::from_utf8_lossy(&bytes).parse().expect("a number")
    }
}

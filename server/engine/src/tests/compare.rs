//! The shard against the model, message by message.

use super::{
    history::World,
    model::{Model, Msg, Queue},
};
use crate::{Millis, Seq, entry::State};

impl World {
    pub(super) fn compare(&self) {
        let (shard, model) = (&self.shard, &self.model);
        assert_eq!(shard.now(), model.now, "the time");
        self.compare_names(model);
        for queue in &model.queues {
            let slot = shard.queue_slots[&queue.id];
            let real = &shard.queues[slot];
            assert_eq!(
                real.next_seq.0, queue.next_seq,
                "the next number of {}",
                queue.id
            );
            assert_eq!(*real.settings, queue.settings);
            let seqs: Vec<u64> = real.index.from(Seq(0)).map(|(seq, _)| seq.0).collect();
            let expected: Vec<u64> = queue.msgs.iter().map(|msg| msg.seq).collect();
            assert_eq!(
                seqs, expected,
                "the messages of queue {} ({})",
                queue.id, queue.name
            );
            let swept = shard.sweeps(slot) > 0;
            for msg in &queue.msgs {
                self.compare_message(queue, msg, swept);
            }
            self.compare_dedup(queue);
            let waiters = real.rare().map_or(0, |rare| rare.receivers.len());
            assert_eq!(waiters, queue.waiters.len());
            for waiter in &queue.waiters {
                assert_eq!(shard.receivers[&waiter.id].credit, waiter.credit);
            }
        }
    }

    pub(super) fn compare_names(&self, model: &Model) {
        let shard = &self.shard;
        assert_eq!(
            shard.queue_slots.len(),
            model.queues.len(),
            "how many queues"
        );
        assert_eq!(shard.tenants.len(), model.tenants.len(), "how many tenants");
        for tenant in &model.tenants {
            let real = &shard.tenants[&tenant.id];
            assert_eq!(*real.name, *tenant.name);
            let documents: Vec<_> = real
                .documents
                .iter()
                .map(|(key, value)| (key.to_string(), value.to_vec()))
                .collect();
            let expected: Vec<_> = tenant.documents.clone().into_iter().collect();
            assert_eq!(documents, expected);
            let live = |until: &Millis| *until > model.now;
            let rests = real.tombstones.values().filter(|until| live(until)).count();
            assert_eq!(
                rests,
                tenant
                    .tombstones
                    .values()
                    .filter(|until| live(until))
                    .count()
            );
        }
        for queue in &model.queues {
            assert_eq!(
                shard.tenants[&queue.tenant].queues.get(queue.name.as_str()),
                Some(&queue.id)
            );
        }
    }

    pub(super) fn compare_dedup(&self, queue: &Queue) {
        let real = &self.shard.queues[self.shard.queue_slots[&queue.id]];
        let mut known: Vec<_> = real
            .rare()
            .into_iter()
            .flat_map(|rare| rare.dedup.all())
            .filter(|(_, known)| known.expires_at > self.model.now)
            .map(|(hash, known)| (*hash, known.id, known.seq.0, known.expires_at))
            .collect();
        let mut expected: Vec<_> = queue
            .known
            .iter()
            .filter(|known| known.expires_at > self.model.now)
            .map(|known| (known.hash, known.id, known.seq, known.expires_at))
            .collect();
        known.sort();
        expected.sort();
        assert_eq!(known, expected, "what queue {} remembers", queue.id);
    }

    fn compare_message(&self, queue: &Queue, msg: &Msg, swept: bool) {
        let key = self
            .shard
            .find(queue.id, Seq(msg.seq))
            .expect("it is there");
        let entry = &self.shard.entries[key];
        let what = format!("message {} of queue {} ({})", msg.seq, queue.id, queue.name);
        self.compare_content(key, msg, &what, swept);
        if swept {
            return;
        }
        assert_eq!(entry.state, msg.state, "the state of {what}");
        assert_eq!(entry.deliveries, msg.deliveries, "the count of {what}");
        assert_eq!(entry.first_delivered_at, msg.first, "{what}");
        if matches!(msg.state, State::Leased | State::Delayed | State::Acked) {
            assert_eq!(entry.due, msg.due, "the time of {what}");
        }
    }

    pub(super) fn compare_content(&self, key: u32, msg: &Msg, what: &str, swept: bool) {
        let shard = &self.shard;
        let entry = &shard.entries[key];
        let overlay = shard.overlay(key).unwrap_or_default();
        assert_eq!(
            self.content(&shard.bodies.content(entry.body)),
            msg.content,
            "the body of {what}"
        );
        assert_eq!(u64::from(shard.bodies.charge(entry.body)), msg.charge);
        assert_eq!(entry.enqueued_at, msg.enqueued_at, "{what}");
        assert_eq!(entry.own_ttl, msg.own_ttl, "{what}");
        assert_eq!(entry.priority, msg.priority, "{what}");
        assert_eq!(
            shard.group_name(key).as_deref(),
            msg.group.as_deref(),
            "{what}"
        );
        assert_eq!(
            overlay.dead_letter_source.as_deref(),
            msg.source.as_deref(),
            "{what}"
        );
        assert_eq!(overlay.id, msg.id, "{what}");
        if !swept {
            assert_eq!(entry.expires_at, msg.expires_at, "the expiry of {what}");
        }
    }
}

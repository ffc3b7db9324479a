//! Steps on tenants, queues and documents.

use super::{
    history::{SECOND, World},
    model::{Change, Queue, Tenant},
};
use crate::{DeadLetter, Dedup, Effect, Error, GroupMode, Millis, Origin, QueueSettings};
use rand::Rng;
use std::collections::BTreeMap;

impl World {
    pub(super) fn new_tenant(&mut self) {
        let name = format!("t{}", self.rng.random_range(0..2));
        let mut tx = self.shard.begin(self.now);
        let (id, _) = tx.create_tenant(&name);
        let output = tx.finish();
        match self.model.tenants.iter().find(|tenant| tenant.name == name) {
            Some(tenant) => assert_eq!(tenant.id, id),
            None => self.model.tenants.push(Tenant {
                id,
                name,
                documents: BTreeMap::new(),
                tombstones: BTreeMap::new(),
            }),
        }
        self.process(output);
    }

    pub(super) fn delete_tenant(&mut self) {
        if self.model.tenants.is_empty() {
            return;
        }
        let at = self.rng.random_range(0..self.model.tenants.len());
        let id = self.model.tenants.remove(at).id;
        let mut tx = self.shard.begin(self.now);
        assert_eq!(tx.delete_tenant(id), Ok(()));
        let output = tx.finish();
        self.model.queues.retain(|queue| queue.tenant != id);
        self.process(output);
    }

    pub(super) fn settings(&mut self, name: &str) -> QueueSettings {
        let rng = &mut self.rng;
        let fifo = name.starts_with('f');
        QueueSettings {
            retention: Millis(rng.random_range(1..200) * SECOND),
            delay: Millis(if rng.random_bool(0.1) { 3 * SECOND } else { 0 }),
            groups: fifo.then_some(GroupMode::Fifo),
            dedup: (fifo || rng.random_bool(0.2)).then_some(Dedup {
                window: Millis(20 * SECOND),
            }),
            // One source a target and no chains, so that the order of moves is plain.
            dead_letter: match name {
                "a" | "fa" if rng.random_bool(0.7) => Some(format!("{name}-dead")),
                "b" if rng.random_bool(0.3) => Some("b".to_owned()),
                _ => None,
            }
            .map(|queue| DeadLetter {
                queue,
                max_deliveries: rng.random_range(1..3),
                source: format!("arn:{name}"),
                restart_retention: rng.random_bool(0.5),
            }),
            retain_acked: rng.random_bool(0.4).then_some(Millis(60 * SECOND)),
            max_priority: if rng.random_bool(0.3) { 3 } else { 0 },
            max_leased: if rng.random_bool(0.3) { 2 } else { 1000 },
            protocol: vec![7; rng.random_range(0..3)],
            ..QueueSettings::default()
        }
    }

    pub(super) fn create(&mut self) {
        let Some(tenant) = self.model.tenants.first().map(|tenant| tenant.id) else {
            return;
        };
        let names = ["a", "a-dead", "b", "fa", "fa-dead", "fb"];
        let name = names[self.rng.random_range(0..names.len())];
        let settings = self.settings(name);
        let mut tx = self.shard.begin(self.now);
        let result = tx.create_queue(tenant, name, settings.clone(), Origin::Explicit);
        let output = tx.finish();
        let now = self.model.now;
        let rests = self.model.tenants[0]
            .tombstones
            .get(name)
            .is_some_and(|until| *until > now);
        if self.model.named(tenant, name).is_some() {
            assert_eq!(result, Err(Error::AlreadyExists("name")));
        } else if rests {
            assert_eq!(result, Err(Error::DeletedRecently));
        } else {
            let id = result.expect("it can be made");
            assert!(
                self.highest.keys().all(|known| *known < id),
                "a queue id is used again"
            );
            self.highest.insert(id, 0);
            self.model.tenants[0].tombstones.remove(name);
            self.model.queues.push(Queue {
                id,
                tenant,
                name: name.to_owned(),
                settings,
                next_seq: 1,
                msgs: vec![],
                known: vec![],
                waiters: vec![],
            });
        }
        self.process(output);
    }

    pub(super) fn purge(&mut self) {
        let Some(id) = self.any_queue() else { return };
        let mut tx = self.shard.begin(self.now);
        let result = tx.purge(id, Millis::ZERO);
        let output = tx.finish();
        assert_eq!(result, Ok(()));
        let queue = self.model.queue(id).expect("it is there");
        queue.msgs.clear();
        queue.known.clear();
        self.process(output);
    }

    pub(super) fn delete(&mut self) {
        let Some(id) = self.any_queue() else { return };
        let rest = if self.rng.random_bool(0.5) {
            Millis(5 * SECOND)
        } else {
            Millis::ZERO
        };
        let mut tx = self.shard.begin(self.now);
        let result = tx.delete_queue(id, rest);
        let output = tx.finish();
        assert_eq!(result, Ok(()));
        let at = self
            .model
            .queues
            .iter()
            .position(|queue| queue.id == id)
            .expect("it is there");
        let queue = self.model.queues.remove(at);
        let ended = output
            .effects
            .iter()
            .filter(|effect| matches!(effect, Effect::End { .. }));
        assert_eq!(ended.count(), queue.waiters.len());
        let until = self.model.now.plus(rest);
        if rest > Millis::ZERO
            && let Some(tenant) = self.model.tenants.iter_mut().find(|t| t.id == queue.tenant)
        {
            tenant.tombstones.insert(queue.name, until);
            if tenant.tombstones.len() as u64 > self.limits.tombstones {
                let first = tenant.tombstones.iter().min_by_key(|(_, until)| **until);
                let first = first.map(|(name, _)| name.clone()).expect("not empty");
                tenant.tombstones.remove(&first);
            }
        }
        self.process(output);
    }

    pub(super) fn update(&mut self) {
        let Some(id) = self.any_queue() else { return };
        let (name, before) = {
            let queue = self.model.queue(id).expect("it is there");
            (queue.name.clone(), queue.settings.clone())
        };
        let settings = QueueSettings {
            delay: before.delay,
            dedup: before.dedup,
            ..self.settings(&name)
        };
        let mut tx = self.shard.begin(self.now);
        let result = tx.update_queue(id, settings.clone());
        let output = tx.finish();
        assert_eq!(result, Ok(()));
        let queue = self.model.queue(id).expect("it is there");
        if before.retention != settings.retention {
            for msg in &mut queue.msgs {
                // One that has not begun is the same as this one.
                msg.pending
                    .retain(|change| !matches!(change, Change::Retime));
                msg.pending.push(Change::Retime);
            }
        }
        queue.settings = settings;
        self.process(output);
        if self.rng.random_bool(0.5) {
            self.tick();
        }
    }

    pub(super) fn document(&mut self) {
        let Some(tenant) = self.model.tenants.first_mut() else {
            return;
        };
        let key = format!("k{}", self.rng.random_range(0..3));
        let value = self
            .rng
            .random_bool(0.7)
            .then(|| vec![1; self.rng.random_range(0..9)]);
        let mut tx = self.shard.begin(self.now);
        assert_eq!(tx.put_document(tenant.id, &key, value.as_deref()), Ok(()));
        let output = tx.finish();
        match value {
            Some(value) => tenant.documents.insert(key, value),
            None => tenant.documents.remove(&key),
        };
        self.process(output);
    }
}

//! An engine with one tenant, a clock that the test moves, and a journal that is durable when the test says so.

use std::sync::Arc;

use bytes::Bytes;
use powerqueue_engine::{
    BodyAt, Claim, Content, DeadLetter, Dedup, DedupKey, Delivery, Effect, Epoch, GroupMode,
    GroupOut, Limits, Millis, NewMessage, Origin, Output, QueueId, QueueSettings, Receive,
    ReceiverId, Recovery, Result, Sent, Settle, Shard, Stale, TenantId, Tx,
};

pub struct Engine {
    pub shard: Shard,
    pub now: Millis,
    pub tenant: TenantId,
    limits: Limits,
    log: Vec<(GroupOut, Vec<Option<BodyAt>>)>,
    told: usize,
    written: u64,
    pub effects: Vec<Effect>,
}

impl Engine {
    pub fn new() -> Self {
        Self::with(Limits::UNLIMITED)
    }

    pub fn with(limits: Limits) -> Self {
        let now = Millis(1_800_000_000_000);
        let mut engine = Self {
            shard: Shard::new(1, Epoch(1), limits, now),
            now,
            tenant: TenantId(0),
            limits,
            log: vec![],
            told: 0,
            written: 0,
            effects: vec![],
        };
        engine.tenant = engine.tx(|tx| tx.create_tenant("t").0);
        engine
    }

    /// One transaction.
    pub fn tx<T>(&mut self, act: impl FnOnce(&mut Tx<'_>) -> T) -> T {
        let mut tx = self.shard.begin(self.now);
        let result = act(&mut tx);
        let output = tx.finish();
        self.take(output);
        result
    }

    fn take(&mut self, output: Output) {
        self.effects.extend(output.effects);
        let Some(group) = output.group else { return };
        let mut bodies = Vec::new();
        for (_, bytes) in &group.bodies {
            self.written += 100;
            bodies.push(Some(BodyAt {
                position: self.written,
                len: bytes.len() as u32,
            }));
        }
        self.log.push((group, bodies));
    }

    /// The journal catches up.
    pub fn sync(&mut self) {
        while let Some((group, bodies)) = self.log.get(self.told) {
            self.told += 1;
            let output = self.shard.durable(self.now, group.op, bodies);
            self.take(output);
        }
    }

    /// Moves the clock and does what is due, slice by slice; how many slices there were.
    pub fn pass(&mut self, span: Millis) -> usize {
        self.now = self.now.plus(span);
        let mut slices = 0;
        loop {
            let output = self.shard.tick(self.now);
            self.take(output);
            slices += 1;
            if self.shard.next_due().is_none_or(|due| due > self.now) {
                return slices;
            }
        }
    }

    /// Journals a slice of leases.
    pub fn save(&mut self) {
        let output = self.shard.save(self.now);
        self.take(output);
    }

    /// One slice of what is due.
    pub fn tick(&mut self) {
        let output = self.shard.tick(self.now);
        self.take(output);
    }

    /// How many groups the log has.
    pub fn written(&self) -> usize {
        self.log.len()
    }

    /// A crash after everything was written.
    pub fn restart(&mut self) {
        self.restart_from(&[], 0);
    }

    /// The same, with a checkpoint that stands for the first so many groups.
    pub fn restart_from(&mut self, pieces: &[Vec<u8>], position: usize) {
        let epoch = Epoch(self.shard.epoch().0 + 1);
        let mut recovery = Recovery::new(1, epoch, self.limits, self.now);
        for piece in pieces {
            recovery.apply(piece, &[]).unwrap();
        }
        for (group, bodies) in &self.log[position..] {
            recovery.apply(&group.records, bodies).unwrap();
        }
        self.shard = recovery.finish(self.now, false);
        self.told = self.log.len();
    }

    pub fn queue(&mut self, name: &str, settings: QueueSettings) -> QueueId {
        let tenant = self.tenant;
        self.tx(|tx| tx.create_queue(tenant, name, settings, Origin::Explicit))
            .unwrap()
    }

    pub fn send(&mut self, queue: QueueId, text: &str) -> Sent {
        self.tx(|tx| tx.send(queue, message(text))).unwrap()
    }

    pub fn receive(&mut self, queue: QueueId, max: u32) -> Vec<Delivery> {
        self.tx(|tx| tx.receive(queue, Receive { max, lease: None }))
            .unwrap()
    }

    pub fn settle(&mut self, claim: Claim, settle: Settle) -> Result<()> {
        self.tx(|tx| tx.settle(claim, settle, Stale::Refuse))
    }

    /// How many messages the queue has ready, leased and delayed.
    pub fn counts(&mut self, queue: QueueId) -> (u64, u64, u64) {
        let tenant = self.tenant;
        let view = self.tx(|tx| tx.queue(tenant, queue)).unwrap();
        (view.ready, view.leased, view.delayed)
    }

    /// What receivers were given since the last look, as receiver and texts.
    pub fn given(&mut self) -> Vec<(ReceiverId, Vec<u64>)> {
        std::mem::take(&mut self.effects)
            .into_iter()
            .filter_map(|effect| match effect {
                Effect::Deliver {
                    receiver,
                    deliveries,
                } => Some((
                    receiver,
                    deliveries
                        .iter()
                        .map(|delivery| delivery.claim.seq.0)
                        .collect(),
                )),
                Effect::End { .. } => None,
            })
            .collect()
    }
}

pub fn message(text: &str) -> NewMessage {
    NewMessage {
        content: Bytes::copy_from_slice(text.as_bytes()),
        id: u128::from(text.len() as u64) << 64 | 7,
        charge: text.len() as u32,
        group: None,
        dedup: None,
        delay: None,
        ttl: None,
        priority: 0,
    }
}

pub fn in_group(group: &str, text: &str) -> NewMessage {
    NewMessage {
        group: Some(Arc::from(group)),
        ..message(text)
    }
}

pub fn once(id: &str, text: &str) -> NewMessage {
    NewMessage {
        dedup: Some(DedupKey::new("", id)),
        group: Some(Arc::from("g")),
        ..message(text)
    }
}

pub fn fifo() -> QueueSettings {
    QueueSettings {
        groups: Some(GroupMode::Fifo),
        dedup: Some(Dedup {
            window: Millis::from_secs(300),
        }),
        ..QueueSettings::default()
    }
}

pub fn retaining() -> QueueSettings {
    QueueSettings {
        retain_acked: Some(Millis::from_secs(3600)),
        ..QueueSettings::default()
    }
}

pub fn dying(queue: &str, max_deliveries: u32) -> QueueSettings {
    QueueSettings {
        dead_letter: Some(DeadLetter {
            queue: queue.to_owned(),
            max_deliveries,
            source: "source".to_owned(),
            restart_retention: false,
        }),
        ..QueueSettings::default()
    }
}

pub fn seqs(deliveries: &[Delivery]) -> Vec<u64> {
    deliveries
        .iter()
        .map(|delivery| delivery.claim.seq.0)
        .collect()
}

/// The text of a body that is not yet durable.
pub fn text(delivery: &Delivery) -> String {
    match &delivery.content {
        Content::Pinned(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
        Content::Stored(_) => String::new(),
    }
}

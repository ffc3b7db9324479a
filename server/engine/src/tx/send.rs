//! Sending: one message to one queue or to several, and transactions over several queues.

use std::sync::Arc;

use crate::{
    dedup::Remembered,
    entry::State,
    error::{Error, Result},
    ids::{Millis, QueueId, Seq},
    message::{NewMessage, Sent, Settle},
    record::{Copied, Deduplicated, Record},
    shard::life::Birth,
    tx::{Command, Tx, settle::NO_DEAD_LETTER},
};

/// What sends of the same transaction will take, besides what is held already.
#[derive(Default)]
struct Taken {
    messages: std::collections::BTreeMap<u32, u64>,
    bytes: u64,
    dedup: u64,
}

impl Tx<'_> {
    /// Sends one message. A deduplicated one is delivered once it is durable; any other one at once.
    pub fn send(&mut self, queue: QueueId, message: NewMessage) -> Result<Sent> {
        let slot = self.shard.use_queue(queue)?;
        self.check_send(slot, &message, &mut Taken::default())?;
        if let Some(first) = self.duplicate_of(slot, &message) {
            return Ok(first);
        }
        Ok(self
            .apply_send(&[slot], message, false)
            .pop()
            .unwrap_or(NOTHING))
    }

    /// Sends one message to several queues of one tenant, to all or to none; its body is stored once.
    pub fn publish(&mut self, queues: &[QueueId], message: NewMessage) -> Result<Vec<Sent>> {
        let slots = queues
            .iter()
            .map(|queue| self.shard.use_queue(*queue))
            .collect::<Result<Vec<_>>>()?;
        let mut taken = Taken::default();
        for slot in &slots {
            self.check_send(*slot, &message, &mut taken)?;
        }
        Ok(self.apply_send(&slots, message, false))
    }

    /// Does all commands or, if any is refused, none. Messages sent are delivered once the whole is durable.
    pub fn transact(&mut self, commands: Vec<Command>) -> Result<Vec<Option<Sent>>> {
        let mut taken = Taken::default();
        let mut settled = std::collections::BTreeSet::new();
        for command in &commands {
            match command {
                Command::Send(queue, message) => {
                    let slot = self.shard.use_queue(*queue)?;
                    self.check_send(slot, message, &mut taken)?;
                }
                Command::Settle(claim, settle, stale) => {
                    if !settled.insert((claim.queue, claim.seq)) {
                        return Err(Error::NotAllowed(
                            "a message can be settled once in a transaction",
                        ));
                    }
                    let key = self.check_settle(claim, *settle, *stale)?;
                    if *settle == Settle::DeadLetter {
                        self.check_dead_letter(key, &mut taken)?;
                    }
                }
            }
        }
        commands
            .into_iter()
            .map(|command| match command {
                Command::Send(queue, message) => {
                    let slot = self.shard.use_queue(queue)?;
                    let first = self.duplicate_of(slot, &message);
                    Ok(first.or_else(|| self.apply_send(&[slot], message, true).pop()))
                }
                Command::Settle(claim, settle, stale) => {
                    self.settle(claim, settle, stale).map(|()| None)
                }
            })
            .collect()
    }

    fn check_send(&self, slot: u32, message: &NewMessage, taken: &mut Taken) -> Result<()> {
        let queue = &self.shard.queues[slot];
        let settings = &queue.settings;
        if message.charge > settings.max_message_bytes {
            return Err(Error::TooLarge {
                limit: settings.max_message_bytes.into(),
                size: message.charge.into(),
            });
        }
        let limit = self.shard.limits().lifetime;
        for (what, span) in [("delay", message.delay), ("time to live", message.ttl)] {
            if span.is_some_and(|span| span > limit) {
                return Err(Error::TooLong {
                    what,
                    limit_ms: limit.0,
                });
            }
        }
        if self.remembered(slot, message).is_some() {
            return Ok(());
        }
        let messages = taken.messages.entry(slot).or_default();
        *messages += 1;
        taken.bytes += u64::from(message.charge);
        self.shard.check_room(slot, *messages, taken.bytes)?;
        if let (Some(dedup), Some(_)) = (message.dedup, settings.dedup) {
            taken.dedup += u64::from(dedup.charge);
            let held = self
                .shard
                .tenants
                .get(&queue.tenant)
                .map_or(0, |tenant| tenant.dedup_bytes);
            let limit = self.shard.limits().dedup_bytes;
            if held.saturating_add(taken.dedup) > limit {
                return Err(Error::DeduplicationFull { limit });
            }
        }
        Ok(())
    }

    /// Whether a message can go to its dead-letter queue beside what the transaction's others take.
    fn check_dead_letter(&self, key: u32, taken: &mut Taken) -> Result<()> {
        let slot = self.shard.entries[key].queue;
        let settings = &self.shard.queues[slot].settings;
        let policy = settings.dead_letter.as_ref().ok_or(NO_DEAD_LETTER)?;
        let to = self.shard.dead_letter_target(slot, policy)?;
        let messages = taken.messages.entry(to).or_default();
        *messages += 1;
        self.shard.check_room(to, *messages, 0)
    }

    fn remembered(&self, slot: u32, message: &NewMessage) -> Option<Remembered> {
        let queue = &self.shard.queues[slot];
        queue.settings.dedup?;
        queue
            .rare()?
            .dedup
            .get(message.dedup?.hash, self.shard.now())
            .copied()
    }

    /// The first send with the same deduplication id, which answers for this one.
    fn duplicate_of(&mut self, slot: u32, message: &NewMessage) -> Option<Sent> {
        let first = self.remembered(slot, message)?;
        if !self.shard.is_durable(first.op) {
            self.shard.wait_for_durability();
        }
        Some(Sent {
            id: first.id,
            seq: first.seq,
            duplicate: true,
        })
    }

    /// Stores a message that was checked. A queue that remembers its id already is passed over.
    fn apply_send(&mut self, slots: &[u32], message: NewMessage, held: bool) -> Vec<Sent> {
        let now = self.shard.now();
        let mut sent = Vec::with_capacity(slots.len());
        let mut copies = Vec::new();
        let groups: Vec<Option<Arc<str>>> = slots
            .iter()
            .map(|slot| self.group_for(*slot, &message))
            .collect();
        let mut body = None;
        for (slot, group) in slots.iter().zip(&groups) {
            if let Some(first) = self.duplicate_of(*slot, &message) {
                sent.push(first);
                continue;
            }
            let (body_slot, _, _) = *body.get_or_insert_with(|| {
                self.shard.add_body(message.content.clone(), message.charge)
            });
            let copy = self.store_copy(*slot, body_slot, &message, group.as_deref(), held);
            sent.push(Sent {
                id: message.id,
                seq: copy.seq,
                duplicate: false,
            });
            copies.push(copy);
        }
        if let Some((_, body, index)) = body {
            self.shard.record(&Record::Sent {
                body,
                index,
                charge: message.charge,
                at: now,
                copies,
            });
        }
        sent
    }

    fn store_copy<'g>(
        &mut self,
        slot: u32,
        body: u32,
        message: &NewMessage,
        group: Option<&'g str>,
        held: bool,
    ) -> Copied<'g> {
        let now = self.shard.now();
        let queue = &self.shard.queues[slot];
        let (id, seq, settings) = (queue.id, queue.next_seq, Arc::clone(&queue.settings));
        let delay = message.delay.unwrap_or(settings.delay);
        let due = if delay == Millis::ZERO {
            now
        } else {
            now.plus(delay)
        };
        let expires_at = now.plus(message.ttl.unwrap_or(settings.retention));
        let dedup = message.dedup.zip(settings.dedup);
        let state = match (dedup.is_some() || held, due > now) {
            (true, _) => State::Held,
            (false, true) => State::Delayed,
            (false, false) => State::Ready,
        };
        let birth = Birth {
            seq,
            body,
            enqueued_at: now,
            expires_at,
            due,
            own_ttl: message.ttl.is_some(),
            priority: message.priority.min(settings.max_priority),
            group: group.map(Arc::from),
            state,
        };
        let (own_ttl, priority) = (birth.own_ttl, birth.priority);
        self.shard.add_entry(slot, birth);
        if state == State::Held {
            self.shard.hold(id, seq);
        }
        let dedup = dedup.map(|(key, dedup)| {
            let expires_at = now.plus(dedup.window);
            let op = self.shard.op();
            let remembered = Remembered {
                id: message.id,
                seq,
                expires_at,
                charge: key.charge,
                op,
            };
            self.shard.remember(slot, key.hash, remembered);
            Deduplicated {
                hash: key.hash,
                id: message.id,
                expires_at,
                charge: key.charge,
            }
        });
        Copied {
            queue: id,
            seq,
            due,
            expires_at,
            own_ttl,
            priority,
            group,
            dedup,
        }
    }

    /// The group a message belongs to in a queue with groups: its own, else one of its id alone.
    fn group_for(&self, slot: u32, message: &NewMessage) -> Option<Arc<str>> {
        self.shard.queues[slot].settings.groups?;
        Some(
            message
                .group
                .clone()
                .unwrap_or_else(|| Arc::from(format!("{:032x}", message.id))),
        )
    }
}

const NOTHING: Sent = Sent {
    id: 0,
    seq: Seq(0),
    duplicate: false,
};

//! What a shard should hold, said as plainly as can be: lists, walked from end to end.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    Claim, Error, Millis, NewMessage, QueueId, QueueSettings, Receive, ReceiverId, Result, Sent,
    Seq, Settle, Stale, TenantId, entry::State,
};

#[derive(Clone, Debug)]
pub(super) struct Msg {
    pub(super) seq: u64,
    /// Which content; shared by the copies of a fan-out.
    pub(super) content: u64,
    pub(super) charge: u64,
    pub(super) enqueued_at: Millis,
    pub(super) expires_at: Millis,
    pub(super) own_ttl: bool,
    pub(super) due: Millis,
    pub(super) first: Millis,
    pub(super) deliveries: u32,
    pub(super) priority: u8,
    pub(super) group: Option<String>,
    pub(super) state: State,
    pub(super) source: Option<String>,
    pub(super) id: Option<u128>,
    /// Delivered since it came here and since the last restart.
    pub(super) here: bool,
    pub(super) touched: bool,
    /// The journal may still show it as deferred.
    pub(super) was_deferred: bool,
    /// The group it waits for; 0 is the one being made.
    pub(super) held_by: u64,
    /// Seeks and retimings that did not reach it yet.
    pub(super) pending: Vec<Change>,
    /// From where on in its history the journal may show its standing and its counts.
    pub(super) standing_from: usize,
    pub(super) counts_from: usize,
    /// Deliveries and the first of them when it came here.
    pub(super) born: (u32, Millis),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    Seek { acked: bool, until: Millis },
    Retime,
}

#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) hash: u128,
    pub(super) id: u128,
    pub(super) seq: u64,
    pub(super) expires_at: Millis,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    pub(super) id: ReceiverId,
    pub(super) credit: u32,
    pub(super) lease: Option<Millis>,
    pub(super) once: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Queue {
    pub(super) id: QueueId,
    pub(super) tenant: TenantId,
    pub(super) name: String,
    pub(super) settings: QueueSettings,
    pub(super) next_seq: u64,
    pub(super) msgs: Vec<Msg>,
    pub(super) known: Vec<Known>,
    pub(super) waiters: Vec<Waiter>,
}

#[derive(Clone, Debug)]
pub(super) struct Tenant {
    pub(super) id: TenantId,
    pub(super) name: String,
    pub(super) documents: BTreeMap<String, Vec<u8>>,
    pub(super) tombstones: BTreeMap<String, Millis>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    pub(super) now: Millis,
    pub(super) tenants: Vec<Tenant>,
    pub(super) queues: Vec<Queue>,
    pub(super) max_messages: u64,
    /// What the shard's groups began their turns with: which of several groups goes first is for it to say.
    pub(super) picks: Vec<(QueueId, Seq)>,
}

/// A delivery as the model expects it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) seq: u64,
    pub(super) delivery: u32,
    pub(super) content: u64,
    pub(super) until: Millis,
    pub(super) group: Option<String>,
}

impl Model {
    pub(super) fn queue(&mut self, id: QueueId) -> Option<&mut Queue> {
        self.queues.iter_mut().find(|queue| queue.id == id)
    }

    pub(super) fn msg(&mut self, id: QueueId, seq: u64) -> Option<&mut Msg> {
        self.queue(id)?.msgs.iter_mut().find(|msg| msg.seq == seq)
    }

    pub(super) fn named(&self, tenant: TenantId, name: &str) -> Option<QueueId> {
        self.queues
            .iter()
            .find(|queue| queue.tenant == tenant && queue.name == name)
            .map(|queue| queue.id)
    }

    pub(super) fn touch(&mut self, id: QueueId, seq: u64) {
        let now = self.now;
        let Some(queue) = self.queue(id) else { return };
        let settings = queue.settings.clone();
        if let Some(msg) = queue.msgs.iter_mut().find(|msg| msg.seq == seq) {
            msg.settle_pending(&settings, now);
        }
    }

    pub(super) fn touch_all(&mut self, id: QueueId) {
        let seqs: Vec<u64> = self
            .queue(id)
            .map_or(vec![], |q| q.msgs.iter().map(|m| m.seq).collect());
        for seq in seqs {
            self.touch(id, seq);
        }
    }

    fn remembered(&self, queue: &Queue, message: &NewMessage) -> Option<Known> {
        queue.settings.dedup?;
        let hash = message.dedup?.hash;
        queue
            .known
            .iter()
            .find(|known| known.hash == hash && known.expires_at > self.now)
            .cloned()
    }

    /// Whether all of these sends, with so many moved in besides, can be done.
    pub(super) fn check_sends(
        &mut self,
        sends: &[(QueueId, NewMessage)],
        moved: &[QueueId],
    ) -> Result<()> {
        let mut taken: BTreeMap<QueueId, u64> = BTreeMap::new();
        for to in moved {
            *taken.entry(*to).or_default() += 1;
        }
        for (id, message) in sends {
            let queue = self
                .queues
                .iter()
                .find(|queue| queue.id == *id)
                .ok_or(Error::NotFound)?;
            if message.charge > queue.settings.max_message_bytes {
                return Err(Error::TooLarge { limit: 0, size: 0 });
            }
            if self.remembered(queue, message).is_none() {
                *taken.entry(*id).or_default() += 1;
            }
        }
        for (id, more) in taken {
            let limit = self.max_messages;
            if self.queue(id).map_or(0, |queue| queue.msgs.len() as u64) + more > limit {
                return Err(Error::QueueFull { limit });
            }
        }
        Ok(())
    }

    pub(super) fn send(
        &mut self,
        id: QueueId,
        message: &NewMessage,
        content: u64,
        held: bool,
    ) -> Sent {
        let now = self.now;
        let at = self
            .queues
            .iter()
            .position(|queue| queue.id == id)
            .expect("checked");
        if let Some(known) = self.remembered(&self.queues[at], message) {
            return Sent {
                id: known.id,
                seq: Seq(known.seq),
                duplicate: true,
            };
        }
        let queue = &mut self.queues[at];
        let seq = queue.next_seq;
        queue.next_seq += 1;
        let delay = message.delay.unwrap_or(queue.settings.delay);
        let due = now.plus(delay);
        let dedup = message.dedup.zip(queue.settings.dedup);
        let state = if held || dedup.is_some() {
            State::Held
        } else if due > now {
            State::Delayed
        } else {
            State::Ready
        };
        let group = queue.settings.groups.map(|_| {
            let own = message.group.as_ref().map(|group| group.to_string());
            own.unwrap_or_else(|| format!("{:032x}", message.id))
        });
        queue.msgs.push(Msg {
            seq,
            content,
            charge: message.charge.into(),
            enqueued_at: now,
            expires_at: now.plus(message.ttl.unwrap_or(queue.settings.retention)),
            own_ttl: message.ttl.is_some(),
            due,
            first: Millis::ZERO,
            deliveries: 0,
            priority: message.priority.min(queue.settings.max_priority),
            group,
            state,
            source: None,
            id: None,
            here: false,
            touched: false,
            was_deferred: false,
            held_by: 0,
            pending: vec![],
            standing_from: 0,
            counts_from: 0,
            born: (0, Millis::ZERO),
        });
        if let Some((key, dedup)) = dedup {
            queue.known.retain(|known| known.hash != key.hash);
            queue.known.push(Known {
                hash: key.hash,
                id: message.id,
                seq,
                expires_at: now.plus(dedup.window),
            });
        }
        Sent {
            id: message.id,
            seq: Seq(seq),
            duplicate: false,
        }
    }

    /// What a receive would get first.
    fn head(&self, queue: &Queue) -> Option<u64> {
        if queue.settings.groups.is_none() {
            return queue
                .msgs
                .iter()
                .filter(|msg| msg.state == State::Ready)
                .min_by_key(|msg| (std::cmp::Reverse(msg.priority), msg.seq))
                .map(|msg| msg.seq);
        }
        let mut groups = BTreeSet::new();
        let heads: Vec<u64> = queue
            .msgs
            .iter()
            .filter(|msg| msg.state != State::Acked)
            .filter(|msg| groups.insert(msg.group.clone()) && msg.state == State::Ready)
            .map(|msg| msg.seq)
            .collect();
        let picked = self.picks.iter().filter(|(id, _)| *id == queue.id);
        picked
            .map(|(_, seq)| seq.0)
            .find(|seq| heads.contains(seq))
            .or(heads.first().copied())
    }

    /// A receive: what it gets, `Err` if only the cap of leases is in its way.
    pub(super) fn take(
        &mut self,
        id: QueueId,
        request: Receive,
    ) -> std::result::Result<Vec<Expected>, ()> {
        let max = request.max as usize;
        let mut taken = Vec::new();
        while taken.len() < max {
            let queue = self.queues.iter().find(|queue| queue.id == id).ok_or(())?;
            let Some(head) = self.head(queue) else { break };
            let settings = queue.settings.clone();
            let leased = queue
                .msgs
                .iter()
                .filter(|msg| msg.state == State::Leased)
                .count();
            let room = (settings.max_leased as usize).saturating_sub(leased);
            if room == 0 {
                if taken.is_empty() {
                    return Err(());
                }
                break;
            }
            let end = taken.len() + room.min(max - taken.len());
            let lease = request.lease.unwrap_or(settings.lease);
            let group = queue
                .msgs
                .iter()
                .find(|msg| msg.seq == head)
                .and_then(|msg| msg.group.clone());
            self.use_pick(id, head);
            let mut next = Some(head);
            while let Some(seq) = next {
                if taken.len() == end {
                    break;
                }
                taken.extend(self.lease(id, seq, lease));
                // Its dead-letter queue is full: it goes before what is behind it.
                if self
                    .msg(id, seq)
                    .is_some_and(|msg| msg.state == State::Delayed)
                {
                    break;
                }
                next = group
                    .as_ref()
                    .and_then(|_| self.next_of_run(id, &group, seq));
            }
        }
        if request.lease == Some(Millis::ZERO) {
            let now = self.now;
            for expected in &taken {
                if let Some(msg) = self.msg(id, expected.seq) {
                    (msg.state, msg.due) = (State::Ready, now);
                }
            }
        }
        Ok(taken)
    }

    fn use_pick(&mut self, id: QueueId, head: u64) {
        let pick = self.picks.iter().position(|pick| *pick == (id, Seq(head)));
        if let Some(at) = pick {
            self.picks.remove(at);
        }
    }

    fn next_of_run(&mut self, id: QueueId, group: &Option<String>, after: u64) -> Option<u64> {
        self.queue(id)?
            .msgs
            .iter()
            .find(|msg| msg.seq > after && msg.group == *group && msg.state != State::Acked)
            .filter(|msg| msg.state == State::Ready)
            .map(|msg| msg.seq)
    }

    fn lease(&mut self, id: QueueId, seq: u64, lease: Millis) -> Option<Expected> {
        self.touch(id, seq);
        let now = self.now;
        let msg = self.msg(id, seq)?.clone();
        if msg.is_expired(now) {
            self.remove(id, seq);
            return None;
        }
        if msg.state != State::Ready {
            return None;
        }
        let policy = self.queue(id)?.settings.dead_letter.clone();
        let seen = msg.here || msg.source.is_none();
        if policy.is_some_and(|policy| msg.deliveries >= policy.max_deliveries) && seen {
            match self.dead_letter(id, seq) {
                Ok(()) => return None,
                Err(Error::NotFound) => {}
                Err(_) => {
                    let msg = self.msg(id, seq)?;
                    (msg.state, msg.due) = (State::Delayed, now.plus(Millis(1000)));
                    return None;
                }
            }
        }
        let msg = self.msg(id, seq)?;
        Some(msg.deliver(now, lease))
    }

    pub(super) fn remove(&mut self, id: QueueId, seq: u64) {
        if let Some(queue) = self.queue(id) {
            queue.msgs.retain(|msg| msg.seq != seq);
        }
    }

    pub(super) fn dead_letter_target(&mut self, id: QueueId) -> Result<QueueId> {
        let queue = self.queue(id).ok_or(Error::NotFound)?;
        let (tenant, policy) = (queue.tenant, queue.settings.dead_letter.clone());
        let policy = policy.ok_or(Error::NotAllowed(""))?;
        let to = self.named(tenant, &policy.queue).ok_or(Error::NotFound)?;
        if to == id {
            Err(Error::NotFound)
        } else {
            Ok(to)
        }
    }

    pub(super) fn dead_letter(&mut self, id: QueueId, seq: u64) -> Result<()> {
        let to = self.dead_letter_target(id)?;
        let policy = self
            .queue(id)
            .and_then(|queue| queue.settings.dead_letter.clone())
            .expect("has one");
        let now = self.now;
        self.relocate(id, seq, to, |msg| {
            msg.source = Some(policy.source.clone());
            if policy.restart_retention {
                msg.enqueued_at = now;
            }
        })
    }

    pub(super) fn relocate(
        &mut self,
        from: QueueId,
        seq: u64,
        to: QueueId,
        change: impl FnOnce(&mut Msg),
    ) -> Result<()> {
        let (now, limit) = (self.now, self.max_messages);
        let mut msg = self.msg(from, seq).ok_or(Error::NotFound)?.clone();
        if self.queue(to).ok_or(Error::NotFound)?.msgs.len() as u64 >= limit {
            return Err(Error::QueueFull { limit });
        }
        change(&mut msg);
        self.remove(from, seq);
        let queue = self.queue(to).expect("was there");
        msg.seq = queue.next_seq;
        queue.next_seq += 1;
        if !msg.own_ttl {
            msg.expires_at = msg.enqueued_at.plus(queue.settings.retention);
        }
        let own = Some(msg.seq.to_string());
        msg.group = queue.settings.groups.and(msg.group.or(own));
        (msg.priority, msg.due, msg.state) = (0, now, State::Ready);
        (msg.here, msg.was_deferred, msg.pending) = (false, false, vec![]);
        (msg.standing_from, msg.counts_from) = (0, 0);
        msg.born = (msg.deliveries, msg.first);
        queue.msgs.push(msg);
        Ok(())
    }

    /// Settles; `current` and `claim` say whether the claim names the last delivery.
    pub(super) fn settle(
        &mut self,
        claim: Claim,
        settle: Settle,
        stale: Stale,
        current: bool,
    ) -> Result<()> {
        self.touch(claim.queue, claim.seq.0);
        self.check_settle(claim, settle, stale, current)?;
        let now = self.now;
        let (id, seq) = (claim.queue, claim.seq.0);
        let retain = self.queue(id).and_then(|queue| queue.settings.retain_acked);
        let msg = self.msg(id, seq).expect("checked");
        // Giving it back is journaled at leisure.
        msg.was_deferred |= msg.state == State::Deferred;
        match settle {
            Settle::Complete => match retain {
                None => self.remove(id, seq),
                Some(retain) => (msg.state, msg.due) = (State::Acked, now.plus(retain)),
            },
            Settle::Lease(span) => {
                (msg.state, msg.due, msg.touched) = (State::Leased, now.plus(span), true)
            }
            Settle::Release(Millis::ZERO) => {
                (msg.state, msg.due, msg.touched) = (State::Ready, now, true)
            }
            Settle::Release(delay) => {
                (msg.state, msg.due, msg.touched) = (State::Delayed, now.plus(delay), true)
            }
            Settle::Defer => (msg.state, msg.due) = (State::Deferred, Millis::NEVER),
            Settle::DeadLetter => return self.dead_letter(id, seq),
        }
        Ok(())
    }

    pub(super) fn check_settle(
        &mut self,
        claim: Claim,
        settle: Settle,
        stale: Stale,
        current: bool,
    ) -> Result<()> {
        self.touch(claim.queue, claim.seq.0);
        let now = self.now;
        let policy = self
            .queue(claim.queue)
            .and_then(|queue| queue.settings.dead_letter.clone());
        let msg = self.msg(claim.queue, claim.seq.0).ok_or(Error::NotFound)?;
        if msg.state == State::Acked || msg.is_expired(now) {
            return Err(Error::NotFound);
        }
        if settle == Settle::DeadLetter && policy.is_none() {
            return Err(Error::NotAllowed(""));
        }
        let holds = current && msg.state == State::Leased && msg.due > now;
        if !holds && stale == Stale::Refuse {
            return Err(Error::LeaseLost);
        }
        Ok(())
    }

    pub(super) fn seek(&mut self, id: QueueId, boundary: u64) {
        let now = self.now;
        let Some(queue) = self.queue(id) else { return };
        let until = now.plus(queue.settings.retain_acked.unwrap_or_default());
        for msg in &mut queue.msgs {
            msg.pending.push(Change::Seek {
                acked: msg.seq < boundary,
                until,
            });
        }
    }

    /// What the wheel does: what its time has come for.
    pub(super) fn pass_time(&mut self) {
        let now = self.now;
        for tenant in &mut self.tenants {
            tenant.tombstones.retain(|_, until| *until > now);
        }
        for queue in &mut self.queues {
            queue.known.retain(|known| known.expires_at > now);
            let settings = queue.settings.clone();
            queue.msgs.retain_mut(|msg| {
                if msg.next_change() > now {
                    return true;
                }
                msg.settle_pending(&settings, now);
                if msg.is_expired(now) || msg.state == State::Acked && msg.due <= now {
                    return false;
                }
                if matches!(msg.state, State::Delayed | State::Leased) && msg.due <= now {
                    (msg.state, msg.due) = (State::Ready, now);
                }
                true
            });
        }
    }

    pub(super) fn release_held(&mut self, through: u64) {
        let now = self.now;
        for msg in self.queues.iter_mut().flat_map(|queue| &mut queue.msgs) {
            if msg.state == State::Held && msg.held_by != 0 && msg.held_by <= through {
                msg.state = if msg.due > now {
                    State::Delayed
                } else {
                    State::Ready
                };
            }
        }
    }
}

impl Model {
    /// The first message that could be had.
    pub(super) fn peek(&mut self, id: QueueId) -> Option<u64> {
        let queue = self.queues.iter().find(|queue| queue.id == id)?;
        self.head(queue)
    }

    /// Moves or removes what is dead at a queue's front, if a receiver could be served and nothing comes of it.
    pub(super) fn drain(&mut self, id: QueueId) {
        let mut served = self.clone();
        let request = Receive {
            max: 1,
            lease: None,
        };
        if served.take(id, request) == Ok(vec![]) {
            *self = served;
        }
    }
}

//! Receiving: at once, by waiting receivers, and again.

use crate::{
    entry::{Entry, State},
    error::{Error, Result},
    ids::{Millis, QueueId, ReceiverId, Seq},
    message::{Claim, Delivery, Receive},
    shard::Receiver,
    tx::Tx,
};

impl Tx<'_> {
    /// Leases what is ready, now. An empty answer is not an error; [`Error::TooMany`] says that the queue has as many
    /// leased as it may.
    pub fn receive(&mut self, queue: QueueId, request: Receive) -> Result<Vec<Delivery>> {
        let slot = self.shard.use_queue(queue)?;
        self.check_lease(request.lease)?;
        self.shard.take(slot, request)
    }

    /// Registers a long poll: it gets up to `request.max` messages at the first moment there is any, in one
    /// [`Deliver`](crate::Effect::Deliver), and is gone then.
    pub fn wait(&mut self, queue: QueueId, request: Receive) -> Result<ReceiverId> {
        self.register(
            queue,
            Receiver {
                queue: 0,
                tenant: Default::default(),
                credit: request.max,
                lease: request.lease,
                once: true,
            },
        )
    }

    /// Registers a consumer, which gets messages one by one as long as it has credit, in turn with the others.
    pub fn subscribe(
        &mut self,
        queue: QueueId,
        credit: u32,
        lease: Option<Millis>,
    ) -> Result<ReceiverId> {
        self.register(
            queue,
            Receiver {
                queue: 0,
                tenant: Default::default(),
                credit,
                lease,
                once: false,
            },
        )
    }

    /// Gives a consumer more credit.
    pub fn grant(&mut self, receiver: ReceiverId, credit: u32) -> Result<()> {
        let state = self
            .shard
            .receivers
            .get_mut(&receiver)
            .ok_or(Error::NotFound)?;
        let idle = state.credit == 0;
        state.credit = state.credit.saturating_add(credit);
        let slot = state.queue;
        if idle && credit > 0 {
            self.shard.queues[slot]
                .make_rare()
                .waiting
                .push_back(receiver);
            self.shard.touch(slot);
        }
        Ok(())
    }

    /// Ends a receiver; whether it was still there. What it was given stays leased.
    pub fn cancel(&mut self, receiver: ReceiverId) -> bool {
        self.shard.remove_receiver(receiver)
    }

    /// Takes back a delivery that never left the node: as if it had not been made.
    pub fn give_back(&mut self, claim: &Claim) {
        let Some(key) = self.shard.find_swept(claim.queue, claim.seq) else {
            return;
        };
        let epoch = self.shard.epoch();
        let entry = &mut self.shard.entries[key];
        if entry.state != State::Leased
            || claim.epoch != epoch
            || entry.deliveries != claim.delivery
            || !entry.delivered_here
        {
            return;
        }
        entry.deliveries -= 1;
        if entry.deliveries == 0 {
            entry.first_delivered_at = Millis::ZERO;
        }
        let now = self.now();
        self.shard.set_state(key, State::Ready, now);
        self.shard.mark_unsaved(key);
    }

    /// Answers a receive again: the same deliveries with fresh leases, or `None` if any of them was settled,
    /// changed or has expired since (SQS `ReceiveRequestAttemptId`).
    pub fn reissue(&mut self, claims: &[Claim], lease: Option<Millis>) -> Option<Vec<Delivery>> {
        let now = self.now();
        let keys: Vec<u32> = claims
            .iter()
            .map(|claim| {
                let key = self.shard.find_swept(claim.queue, claim.seq)?;
                let entry = &self.shard.entries[key];
                let same = entry.state == State::Leased
                    && entry.deliveries == claim.delivery
                    && entry.delivered_here
                    && claim.epoch == self.shard.epoch()
                    && !entry.touched
                    && !entry.is_expired(now)
                    && entry.due > now;
                same.then_some(key)
            })
            .collect::<Option<_>>()?;
        let deliveries = keys
            .into_iter()
            .map(|key| {
                let queue = self.shard.entries[key].queue;
                let lease = lease.unwrap_or(self.shard.queues[queue].settings.lease);
                self.shard.set_state(key, State::Leased, now.plus(lease));
                self.shard.mark_unsaved(key);
                self.shard.delivery(key)
            })
            .collect();
        Some(deliveries)
    }

    /// Leases messages that were set aside, by their sequence numbers. [`Error::NotFound`] if any is not there or not
    /// deferred, or named twice; then none is leased.
    pub fn receive_deferred(
        &mut self,
        queue: QueueId,
        seqs: &[Seq],
        lease: Option<Millis>,
    ) -> Result<Vec<Delivery>> {
        let slot = self.shard.use_queue(queue)?;
        self.check_lease(lease)?;
        let keys = seqs
            .iter()
            .map(|seq| {
                let key = self.shard.find_swept(queue, *seq).ok_or(Error::NotFound)?;
                let entry = &self.shard.entries[key];
                let deferred =
                    entry.state == State::Deferred && !entry.is_expired(self.shard.now());
                deferred.then_some(key).ok_or(Error::NotFound)
            })
            .collect::<Result<Vec<_>>>()?;
        let distinct: std::collections::BTreeSet<&Seq> = seqs.iter().collect();
        if distinct.len() < seqs.len() {
            return Err(Error::NotFound);
        }
        let until = self
            .now()
            .plus(lease.unwrap_or(self.shard.queues[slot].settings.lease));
        Ok(keys
            .into_iter()
            .map(|key| self.lease_deferred(key, until))
            .collect())
    }

    /// A receive whose messages are looked at and stay as they are, from `from` on.
    pub fn browse(&self, queue: QueueId, from: Seq, limit: usize) -> Result<Vec<Delivery>> {
        let slot = self.shard.use_queue(queue)?;
        let now = self.shard.now();
        Ok(self.shard.queues[slot]
            .index
            .from(from)
            .take(crate::shard::SLICE)
            .filter(|(_, key)| {
                let Entry { state, .. } = self.shard.entries[*key];
                matches!(
                    state,
                    State::Ready | State::Delayed | State::Leased | State::Deferred
                ) && !self.shard.entries[*key].is_expired(now)
            })
            .take(limit)
            .map(|(_, key)| self.shard.delivery(key))
            .collect())
    }

    fn lease_deferred(&mut self, key: u32, until: Millis) -> Delivery {
        let now = self.now();
        self.shard.set_state(key, State::Leased, until);
        let entry = &mut self.shard.entries[key];
        entry.deliveries = entry.deliveries.saturating_add(1);
        entry.delivered_here = true;
        entry.touched = false;
        if entry.first_delivered_at == Millis::ZERO {
            entry.first_delivered_at = now;
        }
        self.shard.mark_unsaved(key);
        self.shard.delivery(key)
    }

    fn register(&mut self, queue: QueueId, receiver: Receiver) -> Result<ReceiverId> {
        let slot = self.shard.use_queue(queue)?;
        self.check_lease(receiver.lease)?;
        let tenant = self.shard.queues[slot].tenant;
        let limit = self.shard.limits().receivers;
        let holder = self.shard.tenant_mut(tenant).ok_or(Error::NotFound)?;
        if holder.receivers >= limit {
            return Err(Error::TooMany {
                what: "waiting receivers",
                limit,
            });
        }
        holder.receivers += 1;
        let id = self.shard.new_receiver_id();
        let rare = self.shard.queues[slot].make_rare();
        rare.receivers.insert(id);
        if receiver.credit > 0 {
            rare.waiting.push_back(id);
        }
        self.shard.receivers.insert(
            id,
            Receiver {
                queue: slot,
                tenant,
                ..receiver
            },
        );
        self.shard.touch(slot);
        Ok(id)
    }

    pub(crate) fn check_lease(&self, lease: Option<Millis>) -> Result<()> {
        let limit = self.shard.limits().lifetime;
        match lease {
            Some(lease) if lease > limit => Err(Error::TooLong {
                what: "lease",
                limit_ms: limit.0,
            }),
            _ => Ok(()),
        }
    }
}

//! A shard behind its lock, with what the driver knows about it.

use std::{
    collections::{HashMap, VecDeque},
    sync::atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use powerqueue_engine::{
    BodyAt, BodyId, Delivery, Effect, GroupOut, Millis, OpNo, Output, ReceiverId, Shard,
};
use powerqueue_store::{
    BodyRef, Class, Committed, Epoch, Group, PendingBody, Permit, Position, ShardId, Store, Ticket,
};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::cache::Cache;

#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) id: ShardId,
    state: Mutex<State>,
    /// Rung when something is due earlier than the timer task sleeps for.
    pub(crate) alarm: Notify,
    /// What the timer task sleeps for.
    armed: AtomicU64,
    /// Held during a checkpoint: two at a time would write their pieces under the same names.
    pub(crate) checkpointing: Mutex<()>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) shard: Shard,
    epoch: Epoch,
    /// Bodies on their way to the disk.
    pending: HashMap<BodyId, PendingBody>,
    /// Groups on their way, with the bodies born in them.
    in_flight: VecDeque<(OpNo, Vec<BodyId>)>,
    /// The log up to here is in the shard, told and all.
    pub(crate) durable: Position,
    pub(crate) waiters: HashMap<ReceiverId, Waiter>,
}

/// Who gets what a receiver is given.
#[derive(Debug)]
pub(crate) enum Waiter {
    /// A long poll.
    Once(oneshot::Sender<Vec<Delivery>>),
    /// A subscription; its credit bounds the channel.
    Stream(mpsc::UnboundedSender<Delivery>),
}

impl Cell {
    pub(crate) fn new(id: ShardId, shard: Shard, epoch: Epoch, durable: Position) -> Self {
        let state = State {
            shard,
            epoch,
            pending: HashMap::new(),
            in_flight: VecDeque::new(),
            durable,
            waiters: HashMap::new(),
        };
        Self {
            id,
            state: Mutex::new(state),
            alarm: Notify::new(),
            armed: AtomicU64::new(0),
            checkpointing: Mutex::new(()),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Sends an output on its way: records to the store, deliveries to their receivers. To be called under the lock
    /// that the output was made under.
    pub(crate) fn dispatch(
        &self,
        state: &mut State,
        output: Output,
        store: &Store,
        cache: &Cache,
        permit: Option<Permit>,
    ) -> Option<Ticket> {
        for effect in output.effects {
            state.deliver(effect);
        }
        let ticket = output.group.and_then(|group| {
            let durable = group.durable;
            cache.remove(&group.released);
            let group = state.store_group(self.id, group);
            let ticket = store.submit(group, permit);
            durable.then_some(ticket)
        });
        let due = state.shard.next_due().unwrap_or(Millis::NEVER);
        if due.0 < self.armed.load(Ordering::Relaxed) {
            self.armed.store(due.0, Ordering::Relaxed);
            self.alarm.notify_one();
        }
        ticket
    }

    /// The log has these groups of the shard's.
    pub(crate) fn committed(
        &self,
        groups: &[&Committed],
        now: Millis,
        store: &Store,
        cache: &Cache,
    ) {
        let mut fresh = Vec::new();
        let mut state = self.lock();
        for group in groups {
            state.durable = state.durable.max(group.position);
            let bodies: Vec<Option<BodyAt>> =
                group.bodies.iter().map(|body| body.map(body_at)).collect();
            state.settle_pending(OpNo(group.op), &bodies, &mut fresh);
            let output = state.shard.durable(now, OpNo(group.op), &bodies);
            self.dispatch(&mut state, output, store, cache, None);
        }
        drop(state);
        cache.insert(fresh);
    }

    /// The time the timer task is about to sleep for.
    pub(crate) fn arm(&self, due: Option<Millis>) {
        self.armed
            .store(due.unwrap_or(Millis::NEVER).0, Ordering::Relaxed);
    }
}

impl State {
    /// Whether everything the shard ever submitted is known to be durable.
    pub(crate) fn is_settled(&self) -> bool {
        self.in_flight.is_empty()
    }

    fn deliver(&mut self, effect: Effect) {
        match effect {
            Effect::Deliver {
                receiver,
                deliveries,
            } => match self.waiters.get(&receiver) {
                Some(Waiter::Stream(sender)) => {
                    for delivery in deliveries {
                        // A closed channel's subscription is about to give back what it had.
                        let _ = sender.send(delivery);
                    }
                }
                // Its future is dropped under this lock, so the receiving end is still there to be looked at.
                Some(Waiter::Once(_)) => {
                    if let Some(Waiter::Once(sender)) = self.waiters.remove(&receiver) {
                        let _ = sender.send(deliveries);
                    }
                }
                None => {}
            },
            Effect::End { receiver } => {
                self.waiters.remove(&receiver);
            }
        }
    }

    fn store_group(&mut self, shard: ShardId, group: GroupOut) -> Group {
        self.in_flight
            .push_back((group.op, group.bodies.iter().map(|(id, _)| *id).collect()));
        let born = group.bodies.into_iter().map(|(id, bytes)| {
            let body = PendingBody::new(bytes);
            self.pending.insert(id, body.clone());
            body
        });
        let bodies = born.collect();
        Group {
            shard,
            epoch: self.epoch,
            op: group.op.0,
            records: group.records,
            bodies,
            dead: group
                .dead
                .iter()
                .filter_map(|id| self.pending.remove(id))
                .collect(),
            released: group.released.iter().map(|at| body_ref(*at)).collect(),
            settles_only: group.settles_only,
            high_water: 0,
            class: if group.durable {
                Class::Durable
            } else {
                Class::Lazy
            },
        }
    }

    fn settle_pending(
        &mut self,
        op: OpNo,
        bodies: &[Option<BodyAt>],
        fresh: &mut Vec<(u64, Bytes)>,
    ) {
        while let Some((first, _)) = self.in_flight.front() {
            if *first > op {
                break;
            }
            let Some((group, ids)) = self.in_flight.pop_front() else {
                break;
            };
            for (index, id) in ids.into_iter().enumerate() {
                let Some(body) = self.pending.remove(&id) else {
                    continue;
                };
                if group == op
                    && let Some(Some(at)) = bodies.get(index)
                {
                    fresh.push((at.position, body.bytes().clone()));
                }
            }
        }
    }
}

pub(crate) fn body_at(body: BodyRef) -> BodyAt {
    BodyAt {
        position: body.position.0,
        len: body.len,
    }
}

pub(crate) fn body_ref(at: BodyAt) -> BodyRef {
    BodyRef {
        position: Position(at.position),
        len: at.len,
    }
}

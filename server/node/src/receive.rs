//! Waiting for messages: long polls and subscriptions. Nothing polls: the engine says who gets what, when there is
//! something.

use std::time::Duration;

use powerqueue_engine::{Delivery, Millis, QueueId, Receive, ReceiverId, Result as EngineResult};
use tokio::sync::{mpsc, oneshot};

use crate::{Error, Node, Tenant, cell::Waiter};

impl Node {
    /// Receives up to `request.max` messages, waiting up to `wait` for the first. Dropping the future gives back what it
    /// was about to return.
    pub async fn receive(
        &self,
        tenant: &Tenant,
        queue: QueueId,
        request: Receive,
        wait: Millis,
    ) -> Result<Vec<Delivery>, Error> {
        let wait = if self.draining() { Millis::ZERO } else { wait };
        let (deliveries, poll) = self.receive_or_wait(tenant, queue, request, wait)?;
        let Some(mut poll) = poll else {
            return Ok(deliveries);
        };
        let mut draining = self.0.draining.subscribe();
        tokio::select! {
            biased;
            given = &mut poll.given => return Ok(poll.done(given.unwrap_or_default())),
            () = tokio::time::sleep(Duration::from_millis(wait.0)) => {}
            _ = draining.wait_for(|draining| *draining) => {}
        }
        Ok(poll.end())
    }

    fn receive_or_wait(
        &self,
        tenant: &Tenant,
        queue: QueueId,
        request: Receive,
        wait: Millis,
    ) -> Result<(Vec<Delivery>, Option<LongPoll>), Error> {
        let inner = &*self.0;
        let cell = inner.cell(tenant)?;
        let now = inner.clock.now();
        let mut state = cell.lock();
        let mut tx = state.shard.begin(now);
        let received = tx.receive(queue, request);
        let waiting = match &received {
            Ok(deliveries) if deliveries.is_empty() && wait > Millis::ZERO => {
                Some(tx.wait(queue, request))
            }
            _ => None,
        };
        let output = tx.finish();
        let poll = waiting.transpose()?.map(|receiver| {
            let (sender, given) = oneshot::channel();
            state.waiters.insert(receiver, Waiter::Once(sender));
            LongPoll {
                node: self.clone(),
                tenant: *tenant,
                receiver,
                given,
                open: true,
            }
        });
        cell.dispatch(&mut state, output, &inner.store, &inner.cache, None);
        Ok((received?, poll))
    }

    /// Subscribes to a queue: messages come one by one as long as there is credit, in turn with other subscriptions.
    pub fn subscribe(
        &self,
        tenant: &Tenant,
        queue: QueueId,
        credit: u32,
        lease: Option<Millis>,
    ) -> Result<Subscription, Error> {
        let inner = &*self.0;
        let cell = inner.cell(tenant)?;
        let now = inner.clock.now();
        let mut state = cell.lock();
        let mut tx = state.shard.begin(now);
        let registered: EngineResult<ReceiverId> = tx.subscribe(queue, credit, lease);
        let output = tx.finish();
        let subscription = registered.map(|receiver| {
            let (sender, given) = mpsc::unbounded_channel();
            state.waiters.insert(receiver, Waiter::Stream(sender));
            Subscription {
                node: self.clone(),
                tenant: *tenant,
                receiver,
                given,
            }
        });
        cell.dispatch(&mut state, output, &inner.store, &inner.cache, None);
        Ok(subscription?)
    }

    /// Ends a receiver and gives back what it was given and nobody took.
    fn end_receiver(
        &self,
        tenant: &Tenant,
        receiver: ReceiverId,
        mut untaken: impl FnMut() -> Vec<Delivery>,
        keep: bool,
    ) -> Vec<Delivery> {
        let inner = &*self.0;
        let Ok(cell) = inner.cell(tenant) else {
            return Vec::new();
        };
        let now = inner.clock.now();
        let mut state = cell.lock();
        state.waiters.remove(&receiver);
        let mut tx = state.shard.begin(now);
        tx.cancel(receiver);
        // Under the lock: nothing can be given to it any more.
        let deliveries = untaken();
        if !keep {
            for delivery in &deliveries {
                tx.give_back(&delivery.claim);
            }
        }
        let output = tx.finish();
        cell.dispatch(&mut state, output, &inner.store, &inner.cache, None);
        deliveries
    }
}

/// A registered long poll.
struct LongPoll {
    node: Node,
    tenant: Tenant,
    receiver: ReceiverId,
    given: oneshot::Receiver<Vec<Delivery>>,
    open: bool,
}

impl LongPoll {
    fn done(mut self, deliveries: Vec<Delivery>) -> Vec<Delivery> {
        self.open = false;
        deliveries
    }

    /// Ends it at its deadline, with what it was given at the last moment.
    fn end(mut self) -> Vec<Delivery> {
        self.open = false;
        let Self {
            node,
            tenant,
            receiver,
            given,
            ..
        } = &mut self;
        let (node, tenant, receiver) = (node.clone(), *tenant, *receiver);
        node.end_receiver(
            &tenant,
            receiver,
            || given.try_recv().unwrap_or_default(),
            true,
        )
    }
}

impl Drop for LongPoll {
    fn drop(&mut self) {
        if self.open {
            let (node, tenant, receiver) = (self.node.clone(), self.tenant, self.receiver);
            let given = &mut self.given;
            node.end_receiver(
                &tenant,
                receiver,
                || given.try_recv().unwrap_or_default(),
                false,
            );
        }
    }
}

/// A consumer of a queue. Dropping it gives back what was not taken from it.
#[derive(Debug)]
pub struct Subscription {
    node: Node,
    tenant: Tenant,
    receiver: ReceiverId,
    given: mpsc::UnboundedReceiver<Delivery>,
}

impl Subscription {
    /// The next message; `None` once the queue is gone.
    pub async fn next(&mut self) -> Option<Delivery> {
        self.given.recv().await
    }

    /// Gives it more credit.
    pub fn grant(&self, credit: u32) -> Result<(), Error> {
        let inner = &*self.node.0;
        let cell = inner.cell(&self.tenant)?;
        let (granted, _) = inner.apply(cell, None, |tx| tx.grant(self.receiver, credit));
        Ok(granted?)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let (node, tenant, receiver) = (self.node.clone(), self.tenant, self.receiver);
        let given = &mut self.given;
        let drain = || std::iter::from_fn(|| given.try_recv().ok()).collect();
        node.end_receiver(&tenant, receiver, drain, false);
    }
}

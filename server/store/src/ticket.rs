//! The answer to a submission.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::sync::oneshot;

use crate::{group::Position, lead::Lead};

/// Why a group may not be in the log. Either way: drop the shard, claim it again, replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// The shard was claimed anew (or never): the group is not in the log and never will be.
    #[error("the shard belongs to a later claim")]
    Fenced,
    /// The store failed or was closed, or the shard is stopped: only a replay tells whether the group is in the log.
    #[error("it is not known whether the group is in the log")]
    Unknown,
}

type Outcome = Result<Position, SubmitError>;

/// Resolves when the group is durable (see [`Sync`](crate::Sync)). Dropping it cancels nothing. Waiting for it may write
/// the group, so wait without a lock that the store's callbacks take.
#[derive(Debug)]
#[must_use = "an answer may be given only once the ticket has resolved"]
pub struct Ticket {
    state: State,
    /// With an interval between syncs, until somebody waits.
    lead: Option<Lead>,
}

#[derive(Debug)]
enum State {
    Ready(Outcome),
    Waiting(oneshot::Receiver<Outcome>),
}

impl Ticket {
    pub(crate) fn ready(outcome: Outcome) -> Self {
        Self {
            state: State::Ready(outcome),
            lead: None,
        }
    }

    pub(crate) fn pair(lead: Option<Lead>) -> (Reply, Self) {
        let (sender, receiver) = oneshot::channel();
        let ticket = Self {
            state: State::Waiting(receiver),
            lead,
        };
        (Reply(sender), ticket)
    }

    pub(crate) fn is_led(&self) -> bool {
        self.lead.is_some()
    }

    fn lead(&mut self) {
        if let Some(lead) = self.lead.take() {
            lead.go();
        }
    }

    /// Blocks the thread until the outcome is known. Not for asynchronous code.
    pub fn wait(mut self) -> Outcome {
        self.lead();
        match self.state {
            State::Ready(outcome) => outcome,
            State::Waiting(receiver) => receiver
                .blocking_recv()
                .unwrap_or(Err(SubmitError::Unknown)),
        }
    }

    /// The outcome, if it is known already. Leaves the writing to the committer.
    pub fn poll_now(&mut self) -> Option<Outcome> {
        self.lead = None;
        if let State::Waiting(receiver) = &mut self.state {
            let outcome = match receiver.try_recv() {
                Ok(outcome) => outcome,
                Err(oneshot::error::TryRecvError::Empty) => return None,
                Err(oneshot::error::TryRecvError::Closed) => Err(SubmitError::Unknown),
            };
            self.state = State::Ready(outcome);
        }
        match self.state {
            State::Ready(outcome) => Some(outcome),
            State::Waiting(_) => None,
        }
    }
}

impl Future for Ticket {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        if let Some(lead) = &mut self.lead {
            if lead.others_first() {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.lead();
        }
        let outcome = match &mut self.state {
            State::Ready(outcome) => *outcome,
            State::Waiting(receiver) => {
                let outcome = ready!(Pin::new(receiver).poll(context));
                outcome.unwrap_or(Err(SubmitError::Unknown))
            }
        };
        self.state = State::Ready(outcome);
        Poll::Ready(outcome)
    }
}

/// The committer's end of a ticket.
#[derive(Debug)]
pub(crate) struct Reply(oneshot::Sender<Outcome>);

impl Reply {
    pub(crate) fn resolve(self, outcome: Outcome) {
        // Nobody has to wait for the answer.
        let _ = self.0.send(outcome);
    }
}

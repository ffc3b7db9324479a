//! The answer to a submission.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::sync::oneshot;

use crate::group::Position;

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

/// Resolves when the group is durable (see [`Sync`](crate::Sync)). Dropping it cancels nothing.
#[derive(Debug)]
#[must_use = "an answer may be given only once the ticket has resolved"]
pub struct Ticket(State);

#[derive(Debug)]
enum State {
    Ready(Outcome),
    Waiting(oneshot::Receiver<Outcome>),
}

impl Ticket {
    pub(crate) fn ready(outcome: Outcome) -> Self {
        Self(State::Ready(outcome))
    }

    pub(crate) fn pair() -> (Reply, Self) {
        let (sender, receiver) = oneshot::channel();
        (Reply(sender), Self(State::Waiting(receiver)))
    }

    /// Blocks the thread until the outcome is known. Not for asynchronous code.
    pub fn wait(self) -> Outcome {
        match self.0 {
            State::Ready(outcome) => outcome,
            State::Waiting(receiver) => receiver
                .blocking_recv()
                .unwrap_or(Err(SubmitError::Unknown)),
        }
    }

    /// The outcome, if it is known already.
    pub fn poll_now(&mut self) -> Option<Outcome> {
        if let State::Waiting(receiver) = &mut self.0 {
            let outcome = match receiver.try_recv() {
                Ok(outcome) => outcome,
                Err(oneshot::error::TryRecvError::Empty) => return None,
                Err(oneshot::error::TryRecvError::Closed) => Err(SubmitError::Unknown),
            };
            self.0 = State::Ready(outcome);
        }
        match self.0 {
            State::Ready(outcome) => Some(outcome),
            State::Waiting(_) => None,
        }
    }
}

impl Future for Ticket {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        match &mut self.0 {
            State::Ready(outcome) => Poll::Ready(*outcome),
            State::Waiting(receiver) => Pin::new(receiver)
                .poll(context)
                .map(|outcome| outcome.unwrap_or(Err(SubmitError::Unknown))),
        }
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

//! `ReceiveRequestAttemptId`: what a FIFO receive was answered, kept five minutes for a client that asks again.
//!
//! The memory is bounded and the process's own: an attempt that is forgotten is a new receive, which on a FIFO queue
//! returns nothing of a group that is in flight, so that forgetting never duplicates.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;
use powerqueue_engine::{Claim, Millis, QueueId};

const KEPT: Millis = Millis::from_secs(300);
const MAX_ATTEMPTS: usize = 20_000;

type Attempt = (QueueId, String);

/// The attempts that are remembered.
#[derive(Default)]
pub struct Attempts(Mutex<Memory>);

#[derive(Default)]
struct Memory {
    claims: HashMap<Attempt, (Millis, Vec<Claim>)>,
    /// In the order in which they end.
    order: VecDeque<(Millis, Attempt)>,
}

impl Attempts {
    /// What that attempt was answered, and when, if it was answered within five minutes.
    pub fn recall(
        &self,
        queue: QueueId,
        attempt: &str,
        now: Millis,
    ) -> Option<(Vec<Claim>, Millis)> {
        let memory = self.0.lock();
        let (until, claims) = memory.claims.get(&(queue, attempt.to_owned()))?;
        (now < *until).then(|| (claims.clone(), Millis(until.0.saturating_sub(KEPT.0))))
    }

    /// Remembers an answer.
    pub fn remember(&self, queue: QueueId, attempt: &str, claims: Vec<Claim>, now: Millis) {
        let until = now.plus(KEPT);
        let key = (queue, attempt.to_owned());
        let mut memory = self.0.lock();
        memory.claims.insert(key.clone(), (until, claims));
        memory.order.push_back((until, key));
        memory.forget(now);
    }
}

impl Memory {
    fn forget(&mut self, now: Millis) {
        while let Some((until, key)) = self
            .order
            .pop_front_if(|(until, _)| *until <= now)
            .or_else(|| self.pop_above_bound())
        {
            // An attempt answered anew since has a later end and stays.
            if self
                .claims
                .get(&key)
                .is_some_and(|(kept_until, _)| *kept_until == until)
            {
                self.claims.remove(&key);
            }
        }
    }

    fn pop_above_bound(&mut self) -> Option<(Millis, Attempt)> {
        (self.order.len() > MAX_ATTEMPTS)
            .then(|| self.order.pop_front())
            .flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_remembered_for_five_minutes_in_its_queue() {
        let attempts = Attempts::default();
        attempts.remember(QueueId(1), "a", Vec::new(), Millis(0));
        assert_eq!(
            attempts.recall(QueueId(1), "a", Millis(299_999)),
            Some((Vec::new(), Millis(0)))
        );
        assert!(attempts.recall(QueueId(2), "a", Millis(1)).is_none());
        assert!(attempts.recall(QueueId(1), "a", Millis(300_000)).is_none());
    }

    #[test]
    fn the_memory_is_bounded() {
        let attempts = Attempts::default();
        for n in 0..MAX_ATTEMPTS + 10 {
            attempts.remember(QueueId(1), &n.to_string(), Vec::new(), Millis(0));
        }
        assert_eq!(attempts.0.lock().claims.len(), MAX_ATTEMPTS);
        attempts.remember(QueueId(1), "last", Vec::new(), Millis(400_000));
        assert_eq!(attempts.0.lock().claims.len(), 1);
    }
}

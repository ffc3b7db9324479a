//! A message of the model, by itself.

use super::model::{Change, Expected, Msg};
use crate::{Millis, QueueSettings, entry::State};

impl Msg {
    pub(super) fn is_expired(&self, now: Millis) -> bool {
        self.state != State::Acked && self.expires_at <= now
    }

    pub(super) fn next_change(&self) -> Millis {
        match self.state {
            State::Delayed | State::Leased => self.due.min(self.expires_at),
            State::Acked => self.due,
            _ => self.expires_at,
        }
    }

    pub(super) fn settle_pending(&mut self, settings: &QueueSettings, now: Millis) {
        self.settle_but(0, settings, now);
    }

    /// Makes the pending changes but the last so many.
    pub(super) fn settle_but(&mut self, keep: usize, settings: &QueueSettings, now: Millis) {
        let made = self.pending.len().saturating_sub(keep);
        for change in self.pending.drain(..made).collect::<Vec<_>>() {
            match change {
                Change::Retime if self.own_ttl => {}
                Change::Retime => self.expires_at = self.enqueued_at.plus(settings.retention),
                Change::Seek { acked: true, until } => {
                    if self.state != State::Acked {
                        (self.state, self.due, self.was_deferred) = (State::Acked, until, false);
                    }
                }
                Change::Seek { acked: false, .. } => {
                    self.was_deferred = false;
                    if matches!(self.state, State::Acked | State::Deferred) {
                        (self.state, self.due) = (State::Ready, now);
                    }
                }
            }
        }
    }

    pub(super) fn deliver(&mut self, now: Millis, lease: Millis) -> Expected {
        (self.state, self.due) = (State::Leased, now.plus(lease));
        self.deliveries += 1;
        (self.here, self.touched) = (true, false);
        if self.first == Millis::ZERO {
            self.first = now;
        }
        self.expected()
    }

    pub(super) fn expected(&self) -> Expected {
        Expected {
            seq: self.seq,
            delivery: self.deliveries,
            content: self.content,
            until: self.due,
            group: self.group.clone(),
        }
    }
}

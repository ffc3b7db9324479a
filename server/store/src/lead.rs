//! The shortest way to the log: who waits for an answer writes it.
//!
//! With an interval between syncs an answer takes one write into the system's memory, and that costs less than waking
//! the committer and being woken by it. So who waits for a ticket lets others submit first, for one turn of its thread,
//! and then takes the committer's turn for all of them, if the writer is free and the turn neither syncs nor starts a
//! segment: a thread that serves requests never waits for the disk here.
//!
//! Nobody is forgotten. A group that is queued has either a ticket, of which somebody sees to it when it is waited for or
//! dropped, or a call to the committer. Who finds the writer taken leaves the group to whoever has it: a leader looks
//! at the queue again after letting go of the writer, and for anybody else the committer is called.

use std::sync::{Arc, atomic::Ordering};

use crate::{
    committer::{StoreFailure, Writer},
    frame,
    group::Class,
    options::Sync,
    store::{PanicGuard, Shared},
};

/// The most that a leader writes at once; more is the committer's.
const LEAD_BYTES: u64 = 256 << 10;
/// How often a leader looks again before it has the committer called: it has its own work to do.
const TURNS: usize = 4;

/// A ticket's duty to see to its group.
pub(crate) struct Lead {
    shared: Option<Arc<Shared>>,
    looked: bool,
}

impl Lead {
    fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared: Some(shared),
            looked: false,
        }
    }

    /// Whether the caller is to wait a turn: whoever is about to submit does so first, and one write serves them all.
    pub(crate) fn others_first(&mut self) -> bool {
        !std::mem::replace(&mut self.looked, true)
    }

    pub(crate) fn go(mut self) {
        if let Some(shared) = self.shared.take() {
            shared.lead();
        }
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.take() {
            shared.queue.call();
        }
    }
}

impl std::fmt::Debug for Lead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lead")
    }
}

/// What a turn leaves to the committer.
enum Left {
    Nothing,
    /// A segment to start, a time to set for the sync, a group too large.
    Work,
}

impl Shared {
    /// Who is to write such a group, if not the committer.
    pub(crate) fn leader(self: &Arc<Self>, class: Class) -> Option<Lead> {
        let answered_early = matches!(self.options.sync, Sync::Interval(_));
        (answered_early && class == Class::Durable).then(|| Lead::new(Arc::clone(self)))
    }

    fn lead(&self) {
        for _ in 0..TURNS {
            if self.queue.is_empty() {
                return;
            }
            // Before the writer's lock, for it to be free when this looks at a panic.
            let _guard = PanicGuard(self);
            let Some(mut writer) = self.writer.try_lock() else {
                if !self.led.load(Ordering::SeqCst) {
                    self.queue.call();
                }
                return;
            };
            self.led.store(true, Ordering::SeqCst);
            let left = self.lead_turn(&mut writer);
            self.show(&writer);
            self.led.store(false, Ordering::SeqCst);
            match left {
                Ok(Left::Nothing) => {}
                Ok(Left::Work) => {
                    drop(writer);
                    self.queue.call();
                    return;
                }
                Err(failure) => {
                    self.fail(&mut writer, failure);
                    return;
                }
            }
        }
        self.queue.call();
    }

    fn lead_turn(&self, writer: &mut Writer) -> Result<Left, StoreFailure> {
        let space = writer.active.capacity_end.saturating_sub(writer.end);
        let limit = space.saturating_sub(frame::OVERHEAD).min(LEAD_BYTES) as usize;
        let can = writer.stalled.is_none() && !self.room.is_short();
        if !can || !self.queue.next_is_within(limit) {
            // Unless somebody has taken what there was.
            return Ok(if self.queue.is_empty() {
                Left::Nothing
            } else {
                Left::Work
            });
        }
        let timed = writer.unsynced_since.is_some();
        let Some(batch) = self.queue.cut(limit, &self.options) else {
            return Ok(Left::Nothing);
        };
        let Some(commit) = self.commit(writer, batch)? else {
            return Ok(Left::Work);
        };
        self.trace(commit);
        // A sync that is under way is followed by a look at what came meanwhile.
        let sync = !writer.syncs_beside && (!timed || self.is_much(writer));
        Ok(if sync { Left::Work } else { Left::Nothing })
    }
}

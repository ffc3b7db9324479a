//! What waits for the committer, and the cut.
//!
//! One mutex covers the queue, the claims and the fate of every body on its way: a group and the deaths it brings
//! become visible together, and the cut decides about each body with both in view.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

use crate::{
    group::{Class, Epoch, Fate, Group, Position, ShardId},
    lead::Lead,
    options::{Mutation, Options},
    room::Permit,
    ticket::{Reply, SubmitError, Ticket},
};

/// Groups between `submit` and the cut.
pub(crate) struct Queue {
    state: Mutex<State>,
    wake: Condvar,
    /// Where the log is known to be on the disk.
    synced: AtomicU64,
    /// The largest hint of anything written.
    high_water: AtomicU64,
}

struct State {
    phase: Phase,
    waiting: VecDeque<Waiting>,
    /// The number of the next submission; 0 is before all of them.
    next: u64,
    claims: HashMap<ShardId, Epoch>,
    /// Shards with unreadable groups.
    stopped: HashSet<ShardId>,
    /// The committer is to look, whether something waits or not.
    called: bool,
}

/// Whether groups are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    /// No new groups; what waits is still written.
    Closing,
    /// Nothing is written any more.
    Stopped,
}

/// A submitted group.
pub(crate) struct Waiting {
    number: u64,
    pub(crate) group: Group,
    pub(crate) reply: Option<Reply>,
    pub(crate) permit: Option<Permit>,
    /// What it takes in a frame at most.
    bytes: usize,
    /// Whether it has anything to write (a barrier has not, nor has a settlement of what was never written).
    pub(crate) writes: bool,
}

/// What one commit carries, in submission order.
pub(crate) struct Batch {
    pub(crate) groups: Vec<Waiting>,
    /// Whether somebody waits for it.
    pub(crate) durable: bool,
}

impl Waiting {
    /// The bodies to write, decided at the cut.
    pub(crate) fn kept_bodies(&self) -> Vec<Option<Bytes>> {
        let bodies = self.group.bodies.iter();
        bodies
            .map(|body| (body.fate() == Fate::Kept).then(|| body.bytes().clone()))
            .collect()
    }
}

impl Queue {
    pub(crate) fn new(synced: u64, high_water: u64) -> Self {
        Self {
            state: Mutex::new(State {
                phase: Phase::Open,
                waiting: VecDeque::new(),
                next: 1,
                claims: HashMap::new(),
                stopped: HashSet::new(),
                called: false,
            }),
            wake: Condvar::new(),
            synced: AtomicU64::new(synced),
            high_water: AtomicU64::new(high_water),
        }
    }

    /// Queues a group and calls the committer, unless there is a leader, who sees to what its ticket waits for.
    pub(crate) fn submit(
        &self,
        group: Group,
        permit: Option<Permit>,
        leader: Option<Lead>,
    ) -> Ticket {
        let mut state = self.state.lock();
        if state.phase != Phase::Open || state.stopped.contains(&group.shard) {
            return Ticket::ready(Err(SubmitError::Unknown));
        }
        if state.claims.get(&group.shard) != Some(&group.epoch) {
            return Ticket::ready(Err(SubmitError::Fenced));
        }
        let number = state.next;
        state.next += 1;
        let needless = settles_only_what_waits(&group);
        for body in &group.bodies {
            debug_assert_eq!(body.fate(), Fate::New, "a body is born in one group");
            body.set_fate(Fate::Waiting);
        }
        for body in &group.dead {
            // A needless group is not in the log: its bodies die at whatever cut carries them.
            body.condemn(if needless { 0 } else { number });
        }
        let holds_something = !group.records.is_empty() || !group.bodies.is_empty();
        let writes = !needless && holds_something;
        let bodies: usize = group
            .bodies
            .iter()
            .map(|body| body.bytes().len() + 12)
            .sum();
        let bytes = if writes {
            32 + group.records.len() + bodies
        } else {
            0
        };
        let (reply, ticket) = if needless {
            (None, Ticket::ready(Ok(Position(self.synced()))))
        } else {
            let (reply, ticket) = Ticket::pair(leader);
            (Some(reply), ticket)
        };
        let led = ticket.is_led();
        state.waiting.push_back(Waiting {
            number,
            group,
            reply,
            permit,
            bytes,
            writes,
        });
        drop(state);
        if !led {
            self.wake.notify_one();
        }
        ticket
    }

    /// Has the committer look at once.
    pub(crate) fn call(&self) {
        self.state.lock().called = true;
        self.wake.notify_one();
    }

    /// Whether the next group may be written now and takes at most `bytes`.
    pub(crate) fn next_is_within(&self, bytes: usize) -> bool {
        let state = self.state.lock();
        let next = state.waiting.front();
        state.phase == Phase::Open && next.is_some_and(|next| next.bytes <= bytes)
    }

    /// Takes what waits, up to `max_bytes` but at least one group, and settles the fate of its bodies.
    pub(crate) fn cut(&self, max_bytes: usize, options: &Options) -> Option<Batch> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let mut groups = Vec::with_capacity(state.waiting.len().min(4096));
        let (mut bytes, mut last, mut durable) = (0, 0, false);
        while let Some(next) = state.waiting.front() {
            if bytes + next.bytes > max_bytes && bytes > 0 {
                break;
            }
            let Some(mut waiting) = state.waiting.pop_front() else {
                break;
            };
            last = waiting.number;
            if state.claims.get(&waiting.group.shard) != Some(&waiting.group.epoch) {
                // Claimed anew while it waited. Whatever it killed was of the same claim or an earlier one, so that
                // is refused with it.
                for body in &waiting.group.bodies {
                    body.set_fate(Fate::Elided);
                }
                if let Some(reply) = waiting.reply.take() {
                    reply.resolve(Err(SubmitError::Fenced));
                }
                continue;
            }
            bytes += waiting.bytes;
            durable |= waiting.group.class == Class::Durable;
            groups.push(waiting);
        }
        for body in groups.iter().flat_map(|waiting| &waiting.group.bodies) {
            let killed = body.fate() == Fate::Condemned
                && (body.killer() <= last || options.mutated(Mutation::ElideBeyondCut));
            body.set_fate(if killed { Fate::Elided } else { Fate::Kept });
        }
        (!groups.is_empty()).then_some(Batch { groups, durable })
    }

    /// Waits until there is something to do, at most until `deadline`. The phase says whether to go on.
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> Phase {
        let mut state = self.state.lock();
        while state.waiting.is_empty() && !state.called && state.phase == Phase::Open {
            match deadline {
                None => self.wake.wait(&mut state),
                Some(deadline) => {
                    if self.wake.wait_until(&mut state, deadline).timed_out() {
                        break;
                    }
                }
            }
        }
        state.called = false;
        state.phase
    }

    /// Sleeps until `deadline` unless the phase changes: the disk is full and a turn can do nothing.
    pub(crate) fn pause(&self, deadline: Instant) -> Phase {
        let mut state = self.state.lock();
        while state.phase == Phase::Open {
            if self.wake.wait_until(&mut state, deadline).timed_out() {
                break;
            }
        }
        state.phase
    }

    pub(crate) fn phase(&self) -> Phase {
        self.state.lock().phase
    }

    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        if state.phase == Phase::Open {
            state.phase = Phase::Closing;
        }
        self.wake.notify_all();
    }

    /// Ends everything: what waits resolves `Unknown`.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.phase = Phase::Stopped;
        let waiting = std::mem::take(&mut state.waiting);
        self.wake.notify_all();
        drop(state);
        for mut waiting in waiting {
            if let Some(reply) = waiting.reply.take() {
                reply.resolve(Err(SubmitError::Unknown));
            }
        }
    }

    pub(crate) fn set_claim(&self, shard: ShardId, epoch: Epoch) {
        self.state.lock().claims.insert(shard, epoch);
    }

    pub(crate) fn stop_shard(&self, shard: ShardId) {
        self.state.lock().stopped.insert(shard);
    }

    pub(crate) fn any_stopped(&self) -> bool {
        !self.state.lock().stopped.is_empty()
    }

    pub(crate) fn is_stopped(&self, shard: ShardId) -> bool {
        self.state.lock().stopped.contains(&shard)
    }

    pub(crate) fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    pub(crate) fn high_water(&self) -> u64 {
        self.high_water.load(Ordering::Acquire)
    }

    pub(crate) fn set_synced(&self, position: u64, high_water: u64) {
        self.high_water.store(high_water, Ordering::Release);
        self.synced.store(position, Ordering::Release);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.state.lock().waiting.len()
    }
}

fn settles_only_what_waits(group: &Group) -> bool {
    group.settles_only
        && group.bodies.is_empty()
        && group.released.is_empty()
        && !group.dead.is_empty()
        && group.dead.iter().all(|body| body.fate() == Fate::Waiting)
}

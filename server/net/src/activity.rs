//! What a connection is doing: shared between its socket, its requests and its task.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::time::Instant;

/// One connection's requests.
#[derive(Debug)]
pub(crate) struct Activity {
    state: Mutex<State>,
    changed: Notify,
    unread: AtomicBool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    /// Requests begun since the connection was opened.
    pub(crate) begun: u64,
    /// Requests being answered now.
    pub(crate) in_flight: u64,
    /// When the last one ended, or the connection was opened.
    since: Instant,
}

impl Activity {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                begun: 0,
                in_flight: 0,
                since: Instant::now(),
            }),
            changed: Notify::new(),
            unread: AtomicBool::new(false),
        }
    }

    pub(crate) fn state(&self) -> State {
        *self.state.lock()
    }

    /// Whether a request's body was left unread, so that the client may still be sending it.
    pub(crate) fn unread(&self) -> bool {
        self.unread.load(Relaxed)
    }

    pub(crate) fn leave_unread(&self) {
        self.unread.store(true, Relaxed);
    }

    /// Waits until there was no request for `limit`.
    pub(crate) async fn idle(&self, limit: std::time::Duration) {
        loop {
            let State {
                in_flight, since, ..
            } = self.state();
            if in_flight > 0 {
                self.changed.notified().await;
                continue;
            }
            tokio::select! {
                () = tokio::time::sleep_until(since + limit) => return,
                () = self.changed.notified() => {}
            }
        }
    }

    /// Waits until a request has begun.
    pub(crate) async fn begun(&self) {
        while self.state().begun == 0 {
            self.changed.notified().await;
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock());
        self.changed.notify_one();
    }
}

/// The room that collected bodies may take, over all requests of a listener.
#[derive(Debug)]
pub(crate) struct BodyRoom {
    limit: usize,
    taken: AtomicUsize,
}

impl BodyRoom {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            taken: AtomicUsize::new(0),
        }
    }

    fn take(&self, bytes: usize) -> bool {
        let before = self.taken.fetch_add(bytes, Relaxed);
        let fits = before.saturating_add(bytes) <= self.limit;
        if !fits {
            self.give_back(bytes);
        }
        fits
    }

    fn give_back(&self, bytes: usize) {
        self.taken.fetch_sub(bytes, Relaxed);
    }
}

/// A request being answered: held by its body and by its response, so that what it took is given back when both
/// are gone.
#[derive(Debug)]
pub(crate) struct InFlight {
    activity: Arc<Activity>,
    room: Arc<BodyRoom>,
    taken: AtomicUsize,
    _permit: Option<OwnedSemaphorePermit>,
}

impl InFlight {
    pub(crate) fn new(
        activity: Arc<Activity>,
        room: Arc<BodyRoom>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Self {
        activity.change(|state| {
            state.begun += 1;
            state.in_flight += 1;
        });
        Self {
            activity,
            room,
            taken: AtomicUsize::new(0),
            _permit: permit,
        }
    }

    pub(crate) fn activity(&self) -> &Activity {
        &self.activity
    }

    /// Takes room for a piece of the body, until the request ends.
    pub(crate) fn take_room(&self, bytes: usize) -> bool {
        let fits = self.room.take(bytes);
        if fits {
            self.taken.fetch_add(bytes, Relaxed);
        }
        fits
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.room.give_back(self.taken.load(Relaxed));
        self.activity.change(|state| {
            state.in_flight -= 1;
            state.since = Instant::now();
        });
    }
}

//! Room on the way to the disk: asked for before the engine is called, so that a refusal leaves nothing half done.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What the room is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoomKind {
    /// A send, a new entity: refused while the disk is short.
    Growth,
    /// A settlement, deletion or move: may use the reserve.
    Settlement,
}

/// Why there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoomError {
    /// More than a group may ever have.
    #[error("more than one group may hold")]
    TooLarge,
    /// The disk is short: only settlements are taken.
    #[error("the disk is short; only settlements are accepted")]
    Full,
    /// The store failed or was closed.
    #[error("the store is not running")]
    Stopped,
}

/// Room for one group. Given to `submit`, it is free again when the group's commit is through; dropped, at once.
#[derive(Debug)]
pub struct Permit {
    _held: OwnedSemaphorePermit,
}

/// The budget of bytes in flight.
#[derive(Debug)]
pub(crate) struct Room {
    budget: Arc<Semaphore>,
    capacity: usize,
    max_group: usize,
    short: AtomicBool,
}

impl Room {
    pub(crate) fn new(capacity: usize, max_group: usize) -> Self {
        let capacity = capacity.min(Semaphore::MAX_PERMITS).min(u32::MAX as usize);
        Self {
            budget: Arc::new(Semaphore::new(capacity)),
            capacity,
            max_group: max_group.min(capacity),
            short: AtomicBool::new(false),
        }
    }

    pub(crate) async fn room(&self, bytes: usize, kind: RoomKind) -> Result<Permit, RoomError> {
        if bytes > self.max_group {
            return Err(RoomError::TooLarge);
        }
        if kind == RoomKind::Growth && self.is_short() {
            return Err(RoomError::Full);
        }
        // `max_group` fits in u32: the capacity does.
        let acquired = self.budget.clone().acquire_many_owned(bytes as u32).await;
        let held = acquired.map_err(|_| RoomError::Stopped)?;
        // The disk may have become short during the wait.
        if kind == RoomKind::Growth && self.is_short() {
            return Err(RoomError::Full);
        }
        Ok(Permit { _held: held })
    }

    pub(crate) fn is_short(&self) -> bool {
        self.short.load(Ordering::Relaxed)
    }

    pub(crate) fn set_short(&self, short: bool) {
        if self.short.swap(short, Ordering::Relaxed) != short {
            if short {
                tracing::warn!("the disk is short: growth is refused");
            } else {
                tracing::info!("the disk has room again");
            }
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.capacity - self.budget.available_permits()
    }

    pub(crate) fn close(&self) {
        self.budget.close();
    }
}

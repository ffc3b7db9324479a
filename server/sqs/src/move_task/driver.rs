//! What moves the messages: a background driver a running task, in small steps.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use powerqueue_engine::{Error as EngineError, Movable, QueueId, TenantId, Tx};
use powerqueue_node::{Room, Tenant};

use super::task::{Status, Task, running};
use crate::address::Arn;
use crate::errors::Error;
use crate::ids;
use crate::service::{Shared, Sqs};

/// How many messages one step moves at most.
const STEP: usize = 100;
/// How often a second a task with a rate takes a step.
const STEPS_A_SECOND: u64 = 10;
/// How long a task waits for a target that has no room.
const RETRY: Duration = Duration::from_secs(1);

const NO_QUEUE: &str = "AWS.SimpleQueueService.NonExistentQueue";
const NO_SOURCE: &str = "CouldNotDetermineMessageSource";

/// The tasks that have a driver.
#[derive(Default)]
pub(crate) struct Movers(Mutex<HashSet<(TenantId, String)>>);

impl Sqs {
    /// Goes on with the move tasks that were running when the service stopped. Called once after start, in a tokio
    /// runtime.
    pub fn resume(&self) {
        let shared = self.shared();
        for (_, tenant) in shared.node.tenants() {
            let tasks = shared.node.view(&tenant, |tx| running(tx, tenant.id));
            for (key, _) in tasks {
                shared.movers.drive(shared, tenant, key.to_string());
            }
        }
    }
}

impl Movers {
    /// Drives a task until it ends, unless it is driven already.
    pub fn drive(&self, shared: &Arc<Shared>, tenant: Tenant, key: String) {
        if self.0.lock().insert((tenant.id, key.clone())) {
            tokio::spawn(drive(Arc::clone(shared), tenant, key));
        }
    }
}

async fn drive(shared: Arc<Shared>, tenant: Tenant, key: String) {
    while !shared.node.draining() {
        let step = shared
            .node
            .run(&tenant, Room::Settlement, |tx| step(tx, tenant.id, &key))
            .await;
        let pause = match step {
            Ok(Ok(Next::Done)) => break,
            Ok(Ok(Next::After(pause))) => pause,
            Ok(Err(_)) | Err(_) => RETRY,
        };
        if pause.is_zero() {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(pause).await;
        }
    }
    shared.movers.0.lock().remove(&(tenant.id, key));
}

/// What follows a step.
enum Next {
    After(Duration),
    Done,
}

/// One step: moves some messages and writes down that it did, in one transaction.
fn step(tx: &mut Tx<'_>, tenant: TenantId, key: &str) -> Result<Next, Error> {
    let stored = tx
        .document(tenant, key)
        .and_then(|document| Task::decode(&document));
    let Some(mut task) = stored.filter(|task| task.status == Status::Running) else {
        return Ok(Next::Done);
    };
    let before = task.clone();
    let (batch, pause) = pace(task.rate);
    let next = match move_some(tx, tenant, &task, batch) {
        Moved::Some(count) => {
            task.moved += count;
            Next::After(pause)
        }
        Moved::Blocked => Next::After(RETRY),
        Moved::Nothing => {
            task.status = Status::Completed;
            Next::Done
        }
        Moved::Failed(reason) => {
            task.fail(reason);
            Next::Done
        }
    };
    if task != before {
        tx.put_document(tenant, key, Some(&task.encode()))?;
    }
    Ok(next)
}

/// How many messages a step moves, and how long the task rests after it.
fn pace(rate: Option<u64>) -> (usize, Duration) {
    match rate {
        None => (STEP, Duration::ZERO),
        Some(rate) => {
            let batch = (rate / STEPS_A_SECOND).max(1);
            (
                batch as usize,
                Duration::from_millis(batch * 1000 / rate.max(1)),
            )
        }
    }
}

enum Moved {
    Some(u64),
    /// The target has no room now.
    Blocked,
    Nothing,
    Failed(&'static str),
}

fn move_some(tx: &mut Tx<'_>, tenant: TenantId, task: &Task, batch: usize) -> Moved {
    let mut refusal = None;
    let moved = tx.move_ready(QueueId(task.source_queue), batch, &mut |tx, message| {
        let target = target(tx, tenant, task, message)
            .map_err(|reason| refusal = Some(reason))
            .ok()?;
        Some((target, ids::random()))
    });
    match (moved, refusal) {
        // What moved is written down first; the next step meets the refusal again.
        (Ok(count), _) if count > 0 => Moved::Some(count as u64),
        (Ok(_), Some(reason)) => Moved::Failed(reason),
        (Ok(_), None) => Moved::Nothing,
        (Err(EngineError::NotFound), _) => Moved::Failed(NO_QUEUE),
        (Err(_), _) => Moved::Blocked,
    }
}

/// Where a message goes: to the task's destination, or back to where it died.
fn target(
    tx: &Tx<'_>,
    tenant: TenantId,
    task: &Task,
    message: &Movable,
) -> Result<QueueId, &'static str> {
    let source = message
        .overlay
        .as_ref()
        .and_then(|overlay| overlay.dead_letter_source.as_deref());
    let arn = task.destination.as_deref().or(source).ok_or(NO_SOURCE)?;
    let name = Arn::parse(arn).ok_or(NO_SOURCE)?.name;
    tx.find_queue(tenant, &name).ok_or(NO_QUEUE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_kept_in_small_steps() {
        assert_eq!(pace(None), (STEP, Duration::ZERO));
        assert_eq!(pace(Some(1)), (1, Duration::from_secs(1)));
        assert_eq!(pace(Some(500)), (50, Duration::from_millis(100)));
        assert_eq!(pace(Some(15)), (1, Duration::from_millis(66)));
    }
}

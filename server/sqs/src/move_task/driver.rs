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
const STEP: u64 = 100;
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
    /// Goes on with the tasks that were running when the service stopped. Called once after start, with every tenant.
    pub fn resume(&self, tenants: impl IntoIterator<Item = Tenant>) {
        for tenant in tenants {
            let shared = self.shared();
            let tasks = shared.node.view(&tenant, |tx| running(tx, tenant.id));
            for (key, _) in tasks {
                shared.movers.drive(shared, tenant.clone(), key.to_string());
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
        Moved::Blocked(count) => {
            task.moved += count;
            Next::After(RETRY)
        }
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
fn pace(rate: Option<u64>) -> (u64, Duration) {
    match rate {
        None => (STEP, Duration::ZERO),
        Some(rate) => {
            let batch = (rate / STEPS_A_SECOND).max(1);
            (batch, Duration::from_millis(batch * 1000 / rate.max(1)))
        }
    }
}

enum Moved {
    Some(u64),
    /// So many, and then a target had no room.
    Blocked(u64),
    Nothing,
    Failed(&'static str),
}

fn move_some(tx: &mut Tx<'_>, tenant: TenantId, task: &Task, batch: u64) -> Moved {
    let source = QueueId(task.source_queue);
    if tx.queue(tenant, source).is_err() {
        return Moved::Failed(NO_QUEUE);
    }
    let mut targets = Targets::default();
    if let Some(destination) = &task.destination {
        match look_up(tx, tenant, destination) {
            Some(queue) => targets.all = Some(queue),
            None => return Moved::Failed(NO_QUEUE),
        }
    }
    let max = usize::try_from(batch).unwrap_or(usize::MAX);
    let offered = tx.move_ready(source, max, &mut |tx, message| {
        targets.target(tx, tenant, message)
    });
    match (offered, targets.failure) {
        (Err(EngineError::NotFound), _) => Moved::Failed(NO_QUEUE),
        (Err(_), _) => Moved::Blocked(0),
        // What moved in this step is written down first; the next step meets the same message and fails then.
        (Ok(0), Some(reason)) => Moved::Failed(reason),
        (Ok(0), None) => Moved::Nothing,
        (Ok(moved), _) => Moved::Some(moved as u64),
    }
}

fn look_up(tx: &Tx<'_>, tenant: TenantId, arn: &str) -> Option<QueueId> {
    Arn::parse(arn).and_then(|arn| tx.find_queue(tenant, &arn.name))
}

/// Where messages go.
#[derive(Default)]
struct Targets {
    /// The one destination, or none for each message's own source.
    all: Option<QueueId>,
    failure: Option<&'static str>,
}

impl Targets {
    fn target(
        &mut self,
        tx: &Tx<'_>,
        tenant: TenantId,
        message: &Movable,
    ) -> Option<(QueueId, u128)> {
        let queue = match self.all {
            Some(queue) => Ok(queue),
            None => source(message).and_then(|arn| look_up(tx, tenant, arn).ok_or(NO_QUEUE)),
        };
        self.failure = queue.err();
        Some((queue.ok()?, ids::random()))
    }
}

/// The queue that a dead-lettered message came from.
fn source(message: &Movable) -> Result<&str, &'static str> {
    let overlay = message.overlay.as_ref();
    overlay
        .and_then(|overlay| overlay.dead_letter_source.as_deref())
        .ok_or(NO_SOURCE)
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

    #[test]
    fn a_message_without_a_source_fails_a_task_that_needs_it() {
        let message = Movable {
            seq: powerqueue_engine::Seq(1),
            overlay: None,
        };
        assert_eq!(source(&message), Err(NO_SOURCE));
    }
}

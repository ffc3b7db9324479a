//! A task as it is stored and shown.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use powerqueue_engine::{Error as EngineError, QueueId, TenantId, Tx};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::wire::Reply;

const PREFIX: &str = "sqs/move/";
/// How many of a queue's tasks are remembered.
pub(super) const FINISHED_KEPT: usize = 10;

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Status {
    Running,
    Completed,
    Cancelled,
    Failed,
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Self::Running => "RUNNING",
            Self::Completed => "COMPLETED",
            Self::Cancelled => "CANCELLED",
            Self::Failed => "FAILED",
        }
    }
}

/// A task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Task {
    pub id: String,
    /// The source's ARN as it was given.
    pub source: String,
    pub source_queue: u64,
    /// The destination's ARN; without one every message goes back to where it died.
    pub destination: Option<String>,
    /// Messages a second.
    pub rate: Option<u64>,
    pub status: Status,
    pub moved: u64,
    pub to_move: u64,
    /// When it was started, in milliseconds.
    pub started: u64,
    pub failure: Option<String>,
}

impl Task {
    /// The document's key: a queue's tasks sort the newest first.
    pub fn key(&self) -> String {
        format!(
            "{}{:016x}-{}",
            queue_prefix(self.source_queue),
            u64::MAX - self.started,
            self.id
        )
    }

    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub fn decode(document: &[u8]) -> Option<Self> {
        serde_json::from_slice(document).ok()
    }

    pub fn fail(&mut self, reason: &str) {
        self.status = Status::Failed;
        self.failure = Some(reason.to_owned());
    }

    /// The handle: a task's id and its source, as the real service spells it.
    pub fn handle(&self) -> String {
        STANDARD.encode(json!({ "taskId": self.id, "sourceArn": self.source }).to_string())
    }

    /// The task in a list. Only a running one shows its handle.
    pub fn shown(&self) -> Reply {
        let running = self.status == Status::Running;
        let mut reply = Reply::new()
            .maybe("TaskHandle", running.then(|| self.handle()))
            .text("Status", self.status.name())
            .text("SourceArn", self.source.clone())
            .maybe("DestinationArn", self.destination.clone());
        if let Some(rate) = self.rate {
            reply = reply.number("MaxNumberOfMessagesPerSecond", rate);
        }
        reply
            .number("ApproximateNumberOfMessagesMoved", self.moved)
            .number("ApproximateNumberOfMessagesToMove", self.to_move)
            .maybe("FailureReason", self.failure.clone())
            .number("StartedTimestamp", self.started)
    }
}

/// The id and source ARN in a handle.
pub(super) fn open_handle(handle: &str) -> Option<(String, String)> {
    let document: Json = serde_json::from_slice(&STANDARD.decode(handle).ok()?).ok()?;
    let field = |name: &str| document.get(name).and_then(Json::as_str).map(str::to_owned);
    Some((field("taskId")?, field("sourceArn")?))
}

fn queue_prefix(queue: u64) -> String {
    format!("{PREFIX}{queue:016x}/")
}

/// A queue's tasks, the newest first.
pub(super) fn all_of(tx: &Tx<'_>, tenant: TenantId, queue: u64) -> Vec<(Arc<str>, Task)> {
    read(tx.documents(tenant, &queue_prefix(queue)))
}

/// A tenant's running tasks.
pub(super) fn running(tx: &Tx<'_>, tenant: TenantId) -> Vec<(Arc<str>, Task)> {
    let mut tasks = read(tx.documents(tenant, PREFIX));
    tasks.retain(|(_, task)| task.status == Status::Running);
    tasks
}

fn read(documents: Vec<(Arc<str>, Arc<[u8]>)>) -> Vec<(Arc<str>, Task)> {
    documents
        .into_iter()
        .filter_map(|(key, document)| Some((key, Task::decode(&document)?)))
        .collect()
}

/// Forgets the tasks of a queue that is deleted.
pub(crate) fn forget(tx: &mut Tx<'_>, tenant: TenantId, queue: QueueId) -> Result<(), EngineError> {
    for (key, _) in tx.documents(tenant, &queue_prefix(queue.0)) {
        tx.put_document(tenant, &key, None)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(started: u64) -> Task {
        Task {
            id: "10f57157-fc38-4da9-a113-4de7e12d05dd".into(),
            source: "arn:aws:sqs:us-east-1:000000000001:dlq".into(),
            source_queue: 7,
            destination: None,
            rate: Some(1),
            status: Status::Running,
            moved: 2,
            to_move: 10,
            started,
            failure: None,
        }
    }

    #[test]
    fn the_newest_task_sorts_first() {
        assert!(task(2000).key() < task(1000).key());
        assert!(task(1).key().starts_with("sqs/move/0000000000000007/"));
    }

    #[test]
    fn a_handle_names_the_task_and_its_source() {
        let task = task(1);
        assert_eq!(open_handle(&task.handle()), Some((task.id, task.source)));
        for bad in ["foobared", "", "e30="] {
            assert_eq!(open_handle(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_a_running_task_shows_its_handle() {
        let mut task = task(1);
        let shows = |task: &Task, name: &str| task.shown().fields.iter().any(|f| f.json == name);
        assert!(
            shows(&task, "TaskHandle")
                && !shows(&task, "DestinationArn")
                && !shows(&task, "FailureReason")
        );
        task.fail("AWS.SimpleQueueService.NonExistentQueue");
        assert!(!shows(&task, "TaskHandle") && shows(&task, "FailureReason"));
        assert_eq!(Task::decode(&task.encode()), Some(task));
    }
}

//! Message move tasks: dead letters on their way back.
//!
//! A task is a document of its tenant, changed in the same transaction as the messages that it moves, so that its
//! count is exact and a restart resumes it. One driver a running task takes small steps; what a step does is decided
//! by the document alone, so that cancelling is writing the document.

mod driver;
mod task;

pub(crate) use driver::Movers;
pub(crate) use task::forget;
use task::{FINISHED_KEPT, Status, Task, all_of, running};

use powerqueue_engine::{QueueView, Tx};
use powerqueue_node::Room;

use crate::address::Arn;
use crate::errors::{Error, Kind};
use crate::ids;
use crate::service::Session;
use crate::wire::{Reply, Value};

const MAX_RUNNING: usize = 10;
const MAX_RATE: i64 = 500;
const MAX_LISTED: i64 = 10;

impl Session<'_> {
    pub(crate) async fn start_move_task(
        &self,
        source: &str,
        destination: Option<&str>,
        rate: Option<i64>,
    ) -> Result<Reply, Error> {
        let rate = rate.map(check_rate).transpose()?;
        let queue = self.queue_of_arn(source, "SourceArn")?;
        if !self.is_dead_letter_queue(&queue.name) {
            let text = "Source queue must be configured as a Dead Letter Queue.";
            return Err(Error::new(Kind::InvalidParameterValue, text));
        }
        if let Some(destination) = destination {
            let target = self.queue_of_arn(destination, "DestinationArn")?;
            check_destination(&queue, &target)?;
        }
        let task = Task {
            id: ids::text(ids::random()),
            source: source.to_owned(),
            source_queue: queue.id.0,
            destination: destination.map(str::to_owned),
            rate,
            status: Status::Running,
            moved: 0,
            to_move: queue.ready,
            started: self.shared.node.now().0,
            failure: None,
        };
        let started = self.run(Room::Growth(1024), |tx| self.insert(tx, &task));
        started.await?;
        self.shared
            .movers
            .drive(self.shared, self.caller.tenant, task.key());
        Ok(Reply::new().text("TaskHandle", task.handle()))
    }

    fn insert(&self, tx: &mut Tx<'_>, task: &Task) -> Result<(), Error> {
        let tenant = self.caller.tenant.id;
        let of_queue = all_of(tx, tenant, task.source_queue);
        if of_queue.iter().any(|(_, t)| t.status == Status::Running) {
            let text = "There is already a task running. Only one active task is allowed for a source queue arn at a \
                        given time.";
            return Err(Error::new(Kind::InvalidParameterValue, text));
        }
        if running(tx, tenant).len() >= MAX_RUNNING {
            let text = format!("At most {MAX_RUNNING} message move tasks may run at once.");
            return Err(Error::new(Kind::OverLimit, text));
        }
        tx.put_document(tenant, &task.key(), Some(&task.encode()))?;
        for (key, _) in of_queue.iter().skip(FINISHED_KEPT - 1) {
            tx.put_document(tenant, key, None)?;
        }
        Ok(())
    }

    pub(crate) async fn cancel_move_task(&self, handle: &str) -> Result<Reply, Error> {
        let invalid = Error::new(
            Kind::InvalidParameterValue,
            "Value for parameter TaskHandle is invalid.",
        );
        let (id, source) = task::open_handle(handle).ok_or(invalid)?;
        let arn = Arn::parse(&source).filter(|arn| self.caller.owns(&arn.account));
        let queue = arn
            .and_then(|arn| self.queue_named(&arn.name))
            .ok_or_else(|| no_resource("SourceArn"))?;
        let tenant = self.caller.tenant.id;
        let cancelled = self.run(Room::Settlement, |tx| {
            let found = all_of(tx, tenant, queue.id.0)
                .into_iter()
                .find(|(_, task)| task.id == id);
            let running = found.filter(|(_, task)| task.status == Status::Running);
            let (key, mut task) =
                running.ok_or(Error::new(Kind::ResourceNotFound, "Task does not exist."))?;
            task.status = Status::Cancelled;
            tx.put_document(tenant, &key, Some(&task.encode()))?;
            Ok(task.moved)
        });
        Ok(Reply::new().number("ApproximateNumberOfMessagesMoved", cancelled.await?))
    }

    pub(crate) fn list_move_tasks(&self, source: &str, max: Option<i64>) -> Result<Reply, Error> {
        let max = max.unwrap_or(1);
        let limit = usize::try_from(max)
            .ok()
            .filter(|_| (1..=MAX_LISTED).contains(&max))
            .ok_or_else(|| {
                Error::invalid(
                    max,
                    "MaxResults",
                    "Value must be an integer between 1 and 10.",
                )
            })?;
        let queue = self.queue_of_arn(source, "SourceArn")?;
        let tasks = self.view(|tx| all_of(tx, self.caller.tenant.id, queue.id.0));
        let shown = tasks
            .iter()
            .take(limit)
            .map(|(_, task)| Value::Structure(task.shown()))
            .collect();
        Ok(Reply::new().named(
            "Results",
            "ListMessageMoveTasksResultEntry",
            Value::List(shown),
        ))
    }

    /// The caller's queue of that ARN. Another account's is not looked for.
    fn queue_of_arn(&self, arn: &str, parameter: &str) -> Result<QueueView, Error> {
        let parsed = Arn::parse(arn).ok_or_else(|| {
            let text = format!(
                "You must use this format to specify the {parameter}: \
                 arn:<partition>:<service>:<region>:<account-id>:<resource-id>"
            );
            Error::new(Kind::InvalidParameterValue, text)
        })?;
        if !self.caller.owns(&parsed.account) {
            let shown: String = arn.chars().take(256).collect();
            return Err(Error::invalid(
                shown,
                parameter,
                "The queue must belong to the calling account.",
            ));
        }
        self.queue_named(&parsed.name)
            .ok_or_else(|| no_resource(parameter))
    }
}

fn no_resource(parameter: &str) -> Error {
    let text =
        format!("The resource that you specified for the {parameter} parameter doesn't exist.");
    Error::new(Kind::ResourceNotFound, text)
}

fn check_rate(rate: i64) -> Result<u64, Error> {
    let valid = u64::try_from(rate)
        .ok()
        .filter(|_| (1..=MAX_RATE).contains(&rate));
    valid.ok_or_else(|| {
        let reason = "Value must be an integer between 1 and 500.";
        Error::invalid(rate, "MaxNumberOfMessagesPerSecond", reason)
    })
}

fn check_destination(source: &QueueView, target: &QueueView) -> Result<(), Error> {
    let reason = if source.id == target.id {
        "The source and the destination queue must be different."
    } else if source.settings.groups != target.settings.groups {
        "The destination queue must be of the same type as the source queue."
    } else {
        return Ok(());
    };
    Err(Error::invalid(&target.name, "DestinationArn", reason))
}

//! The handler: one HTTP request in, one HTTP response out, whoever serves the socket.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode, header};
use powerqueue_admission::{Admission, Reason, Refused};
use powerqueue_engine::{Error as EngineError, Origin, QueueId, QueueSettings, QueueView, Tx};
use powerqueue_node::{Node, Room};
use powerqueue_traffic::{Outcome, Traffic};

use crate::address::is_queue_name;
use crate::attempts::Attempts;
use crate::attributes::Draft;
use crate::config::Config;
use crate::errors::{Error, Kind};
use crate::identity::{Caller, RequestContext};
use crate::ids;
use crate::move_task::Movers;
use crate::wire::{Envelope, QueueUrl, Reply, Request, action_names, protocol_of, respond};

/// The SQS front end. Cheap to clone.
#[derive(Clone)]
pub struct Sqs(Arc<Shared>);

pub(crate) struct Shared {
    pub node: Node,
    pub admission: Admission,
    pub config: Config,
    pub traffic: Arc<Traffic>,
    pub attempts: Attempts,
    pub movers: Movers,
}

impl Sqs {
    /// The front end of a node. `admission` judges who makes tenants; whoever serves the socket has it judge requests.
    pub fn new(node: Node, admission: Admission, config: Config) -> Self {
        Self(Arc::new(Shared {
            node,
            admission,
            config,
            traffic: Arc::new(Traffic::new("sqs", operations())),
            attempts: Attempts::default(),
            movers: Movers::default(),
        }))
    }

    /// Answers a request. The body is whole, and no larger than [`MAX_BODY`](crate::wire::MAX_BODY) plus one byte.
    pub async fn call(
        &self,
        parts: Parts,
        body: Bytes,
        context: RequestContext,
    ) -> Response<Bytes> {
        let request_id = ids::text(ids::random());
        let envelope = Envelope::open(&parts, &body);
        let (protocol, action) = (envelope.protocol, envelope.action);
        let began = Instant::now();
        let outcome = self.answer(&parts, &body, envelope, &context).await;
        self.count(action, &outcome, began.elapsed());
        if let Err(error) = outcome.as_ref()
            && error.row().status >= 500
        {
            tracing::warn!(action, code = error.row().code, "an SQS request failed");
        }
        respond(protocol, action, outcome, &request_id)
    }

    /// What it counts.
    pub fn traffic(&self) -> &Arc<Traffic> {
        &self.0.traffic
    }

    fn count(&self, action: Option<&str>, outcome: &Result<Reply, Error>, took: Duration) {
        let operation = action.and_then(|action| operations().position(|name| name == action));
        let outcome = match outcome {
            Ok(_) => Outcome::Done,
            Err(error) if error.row().status < 500 => Outcome::Refused,
            Err(_) => Outcome::Failed,
        };
        let waited = action == Some("ReceiveMessage");
        let operation = operation.unwrap_or(usize::MAX);
        self.0.traffic.request(operation, outcome, took, waited);
    }

    /// The answer to a request whose body was not read, in its protocol.
    pub fn refuse(parts: &Parts, why: Kind) -> Response<Bytes> {
        let request_id = ids::text(ids::random());
        let protocol = protocol_of(&parts.headers);
        respond(protocol, None, Err(Error::of(why)), &request_id)
    }

    /// The answer to a client that asks too much, in its protocol. One that is banned gets the status that says so.
    pub fn throttle(parts: &Parts, refused: &Refused) -> Response<Bytes> {
        let request_id = ids::text(ids::random());
        let protocol = protocol_of(&parts.headers);
        let error = Error::new(Kind::RequestThrottled, refused.to_string());
        let mut response = respond(protocol, None, Err(error), &request_id);
        if refused.reason == Reason::Banned {
            *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
            let seconds = HeaderValue::from(refused.retry_after());
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        response
    }

    async fn answer(
        &self,
        parts: &Parts,
        body: &Bytes,
        envelope: Envelope,
        context: &RequestContext,
    ) -> Result<Reply, Error> {
        // What is not a request is said to be none before anyone asks who sends it.
        envelope.check()?;
        let caller = Caller::identify(
            (&self.0.node, &self.0.admission),
            &self.0.config,
            (parts, body),
            &envelope,
            context,
        )?;
        let request = envelope.request()?;
        let session = Session {
            shared: &self.0,
            caller: &caller,
            trace: trace_header(parts),
        };
        session.perform(request).await
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }
}

/// What requests are counted as; whatever is none of the actions is the last.
fn operations() -> impl Iterator<Item = &'static str> {
    action_names().chain(["other"])
}

/// `X-Amzn-Trace-Id`, which becomes the tracing header of what the request sends.
fn trace_header(parts: &Parts) -> Option<&str> {
    let value = parts.headers.get("x-amzn-trace-id")?.to_str().ok()?;
    Some(value).filter(|v| (1..=1024).contains(&v.len()))
}

/// One request being answered.
pub(crate) struct Session<'a> {
    pub shared: &'a Arc<Shared>,
    pub caller: &'a Caller,
    pub trace: Option<&'a str>,
}

/// A queue that a request uses: there, or to be made by the use.
pub(crate) struct Target {
    pub name: String,
    pub id: Option<QueueId>,
    pub settings: Arc<QueueSettings>,
}

impl Target {
    /// The queue in a transaction, made there if it has to be.
    pub fn resolve(&self, tx: &mut Tx<'_>, caller: &Caller) -> Result<QueueId, EngineError> {
        let tenant = caller.tenant.id;
        if let Some(id) = self.id.or_else(|| tx.find_queue(tenant, &self.name)) {
            return Ok(id);
        }
        let made = tx.create_queue(tenant, &self.name, (*self.settings).clone(), Origin::ByUse);
        // A name deleted just now is a queue that does not exist, to whom uses it.
        made.map_err(|error| {
            if error == EngineError::DeletedRecently {
                EngineError::NotFound
            } else {
                error
            }
        })
    }

    /// Whether it is FIFO.
    pub fn is_fifo(&self) -> bool {
        self.settings.groups.is_some()
    }
}

impl Session<'_> {
    async fn perform(&self, request: Request) -> Result<Reply, Error> {
        match request {
            Request::AddPermission {
                queue,
                label,
                accounts,
                actions,
            } => {
                self.add_permission(&queue, &label, &accounts, &actions)
                    .await
            }
            Request::CancelMessageMoveTask { handle } => self.cancel_move_task(&handle).await,
            Request::ChangeMessageVisibility {
                queue,
                handle,
                timeout,
            } => self.change_visibility(&queue, &handle, timeout).await,
            Request::ChangeMessageVisibilityBatch { queue, entries } => {
                self.change_visibility_batch(&queue, entries).await
            }
            Request::CreateQueue {
                name,
                attributes,
                tags,
            } => self.create_queue(&name, &attributes, tags).await,
            Request::DeleteMessage { queue, handle } => self.delete_message(&queue, &handle).await,
            Request::DeleteMessageBatch { queue, entries } => {
                self.delete_message_batch(&queue, entries).await
            }
            Request::DeleteQueue { queue } => self.delete_queue(&queue).await,
            Request::GetQueueAttributes { queue, names } => {
                self.get_queue_attributes(&queue, &names)
            }
            Request::GetQueueUrl { name, owner } => {
                self.get_queue_url(name, owner.as_deref()).await
            }
            Request::ListDeadLetterSourceQueues { queue, page } => {
                self.list_dead_letter_sources(&queue, &page)
            }
            Request::ListMessageMoveTasks { source, max } => self.list_move_tasks(&source, max),
            Request::ListQueues { prefix, page } => self.list_queues(&prefix, &page),
            Request::ListQueueTags { queue } => self.list_queue_tags(&queue),
            Request::PurgeQueue { queue } => self.purge_queue(&queue).await,
            Request::ReceiveMessage(receive) => self.receive(receive).await,
            Request::RemovePermission { queue, label } => {
                self.remove_permission(&queue, &label).await
            }
            Request::SendMessage { queue, message } => self.send(&queue, message).await,
            Request::SendMessageBatch { queue, entries } => self.send_batch(&queue, entries).await,
            Request::SetQueueAttributes { queue, attributes } => {
                self.set_queue_attributes(&queue, &attributes).await
            }
            Request::StartMessageMoveTask {
                source,
                destination,
                rate,
            } => {
                self.start_move_task(&source, destination.as_deref(), rate)
                    .await
            }
            Request::TagQueue { queue, tags } => self.tag_queue(&queue, tags).await,
            Request::UntagQueue { queue, keys } => self.untag_queue(&queue, &keys).await,
            Request::GetCallerIdentity => Ok(self.caller_identity()),
        }
    }

    /// Runs commands of one tenant; both layers of failure become the client's error.
    pub async fn run<T>(
        &self,
        room: Room,
        f: impl FnOnce(&mut Tx<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.shared.node.run(&self.caller.tenant, room, f).await?
    }

    /// Looks.
    pub fn view<T>(&self, f: impl FnOnce(&Tx<'_>) -> T) -> T {
        self.shared.node.view(&self.caller.tenant, f)
    }

    /// The queue of that name, as it stands.
    pub fn queue_named(&self, name: &str) -> Option<QueueView> {
        let tenant = self.caller.tenant.id;
        self.view(|tx| {
            tx.find_queue(tenant, name)
                .and_then(|id| tx.queue(tenant, id).ok())
        })
    }

    /// The queue at that address, as it stands.
    pub fn queue(&self, url: &QueueUrl) -> Result<QueueView, Error> {
        let name = self.caller.queue_name(url)?;
        self.queue_named(&name)
            .ok_or(Error::of(Kind::QueueDoesNotExist))
    }

    /// The queue at that address, or what the use of its name would make.
    pub fn target(&self, url: &QueueUrl) -> Result<Target, Error> {
        self.target_named(self.caller.queue_name(url)?)
    }

    /// The queue of that name, or what its use would make.
    pub fn target_named(&self, name: String) -> Result<Target, Error> {
        if let Some(view) = self.queue_named(&name) {
            return Ok(Target {
                name,
                id: Some(view.id),
                settings: view.settings,
            });
        }
        if !self.shared.config.create_by_use || !is_queue_name(&name) {
            return Err(Error::of(Kind::QueueDoesNotExist));
        }
        let settings = Arc::new(self.draft_new(&name).into_settings());
        Ok(Target {
            name,
            id: None,
            settings,
        })
    }

    /// The queue's id, making the queue if its use has to.
    pub async fn ensure(&self, target: &Target) -> Result<QueueId, Error> {
        match target.id {
            Some(id) => Ok(id),
            None => {
                self.run(
                    Room::Growth(1024),
                    |tx| Ok(target.resolve(tx, self.caller)?),
                )
                .await
            }
        }
    }

    /// The settings of a queue to be made.
    pub fn draft_new<'b>(&'b self, name: &'b str) -> Draft<'b> {
        Draft::new(
            self.caller,
            &self.shared.config,
            self.shared.node.limits(),
            name,
        )
    }

    /// The settings of a queue as they stand.
    pub fn draft_of<'b>(&'b self, name: &'b str, settings: &QueueSettings) -> Draft<'b> {
        Draft::of(
            self.caller,
            &self.shared.config,
            self.shared.node.limits(),
            name,
            settings.clone(),
        )
    }

    /// Changes a queue's settings in one transaction.
    pub async fn edit(
        &self,
        url: &QueueUrl,
        change: impl FnOnce(&Tx<'_>, &mut Draft<'_>) -> Result<(), Error>,
    ) -> Result<Reply, Error> {
        let (name, tenant) = (self.caller.queue_name(url)?, self.caller.tenant.id);
        let edited = self.run(Room::Growth(4096), |tx| {
            let id = tx
                .find_queue(tenant, &name)
                .ok_or(Error::of(Kind::QueueDoesNotExist))?;
            let view = tx.queue(tenant, id)?;
            let mut draft = self.draft_of(&name, &view.settings);
            draft.changed_at = Some(tx.now());
            change(tx, &mut draft)?;
            let settings = draft.into_settings();
            if settings != *view.settings {
                tx.update_queue(id, settings)?;
            }
            Ok(Reply::done())
        });
        edited.await
    }

    fn caller_identity(&self) -> Reply {
        let account = &self.caller.account;
        let arn = format!(
            "arn:{}:iam::{account}:root",
            crate::address::partition(&self.caller.region)
        );
        Reply::new()
            .text("Arn", arn)
            .text("UserId", account)
            .text("Account", account)
    }
}

/// A FIFO message's sequence number as SQS shows them: 20 digits, increasing in the queue.
pub(crate) fn sequence_number(seq: powerqueue_engine::Seq) -> String {
    const BASE: u128 = 18_849_496_460_467_696_128;
    (BASE + u128::from(seq.0) * 256).to_string()
}

#[cfg(test)]
mod tests {
    use powerqueue_engine::Seq;

    use super::*;

    #[test]
    fn sequence_numbers_have_20_digits_and_increase() {
        assert_eq!(sequence_number(Seq(0)), "18849496460467696128");
        assert_eq!(sequence_number(Seq((1 << 48) - 1)).len(), 20);
        assert!(sequence_number(Seq(7)) < sequence_number(Seq(8)));
    }

    #[test]
    fn handling_requests_can_move_between_threads() {
        fn is_send<T: Send>(_: &T) {}
        fn check(sqs: &Sqs, parts: Parts, context: RequestContext) {
            is_send(&sqs.call(parts, Bytes::new(), context));
        }
        let _ = check;
    }
}

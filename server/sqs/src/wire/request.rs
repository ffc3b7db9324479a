//! The typed requests: one structure an action, the same for both protocols.

use std::collections::BTreeMap;

use super::params::AttributeValue;

type TextMap = BTreeMap<String, String>;
type Attributes = BTreeMap<String, AttributeValue>;

/// A decoded request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Request {
    AddPermission {
        queue: QueueUrl,
        label: String,
        accounts: Vec<String>,
        actions: Vec<String>,
    },
    CancelMessageMoveTask {
        handle: String,
    },
    ChangeMessageVisibility {
        queue: QueueUrl,
        handle: String,
        timeout: i64,
    },
    ChangeMessageVisibilityBatch {
        queue: QueueUrl,
        entries: Vec<VisibilityEntry>,
    },
    CreateQueue {
        name: String,
        attributes: TextMap,
        tags: TextMap,
    },
    DeleteMessage {
        queue: QueueUrl,
        handle: String,
    },
    DeleteMessageBatch {
        queue: QueueUrl,
        entries: Vec<DeleteEntry>,
    },
    DeleteQueue {
        queue: QueueUrl,
    },
    GetQueueAttributes {
        queue: QueueUrl,
        names: Vec<String>,
    },
    GetQueueUrl {
        name: String,
        owner: Option<String>,
    },
    ListDeadLetterSourceQueues {
        queue: QueueUrl,
        page: Page,
    },
    ListMessageMoveTasks {
        source: String,
        max: Option<i64>,
    },
    ListQueues {
        prefix: String,
        page: Page,
    },
    ListQueueTags {
        queue: QueueUrl,
    },
    PurgeQueue {
        queue: QueueUrl,
    },
    ReceiveMessage(Receive),
    RemovePermission {
        queue: QueueUrl,
        label: String,
    },
    SendMessage {
        queue: QueueUrl,
        message: Outgoing,
    },
    SendMessageBatch {
        queue: QueueUrl,
        entries: Vec<SendEntry>,
    },
    SetQueueAttributes {
        queue: QueueUrl,
        attributes: TextMap,
    },
    StartMessageMoveTask {
        source: String,
        destination: Option<String>,
        rate: Option<i64>,
    },
    TagQueue {
        queue: QueueUrl,
        tags: TextMap,
    },
    UntagQueue {
        queue: QueueUrl,
        keys: Vec<String>,
    },
    GetCallerIdentity,
}

/// A queue as the client named it: a URL, or its path, or a bare name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueUrl(pub String);

/// Which part of a list is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Page {
    pub max: Option<i64>,
    pub token: Option<String>,
}

/// A receive request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Receive {
    pub queue: QueueUrl,
    pub system_names: Vec<String>,
    pub attribute_names: Vec<String>,
    pub max: Option<i64>,
    pub visibility: Option<i64>,
    pub wait: Option<i64>,
    pub attempt: Option<String>,
}

/// A message to send.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Outgoing {
    pub body: String,
    pub delay: Option<i64>,
    pub attributes: Attributes,
    pub system_attributes: Attributes,
    pub dedup_id: Option<String>,
    pub group: Option<String>,
}

/// An entry of a batch of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct SendEntry {
    pub id: String,
    pub message: Outgoing,
}

/// An entry of a batch of deletes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct DeleteEntry {
    pub id: String,
    pub handle: String,
}

/// An entry of a batch of visibility changes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct VisibilityEntry {
    pub id: String,
    pub handle: String,
    pub timeout: i64,
}

//! Every action: how the Query protocol spells its parameters, and how they are read, whichever protocol they came in.

use super::params::Params;
use super::query::{Field, Shape};
use super::request::{
    DeleteEntry, Outgoing, Page, QueueUrl, Receive, Request, SendEntry, VisibilityEntry,
};
use crate::errors::Error;

/// An action: its name, how its parameters are spelt in the Query protocol, and how it is read.
pub struct Action {
    /// Its name in both protocols.
    pub name: &'static str,
    /// Its parameters.
    pub(super) fields: &'static [Field],
    /// Whether it is an action of the account, refused at a queue's address.
    pub of_account: bool,
    read: fn(&mut Params) -> Result<Request, Error>,
}

impl Action {
    /// The action with that exact name.
    pub fn named(name: &str) -> Option<&'static Self> {
        ACTIONS.iter().find(|action| action.name == name)
    }

    /// The names of all actions.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ACTIONS.iter().map(|action| action.name)
    }

    /// The place of a name among all of them.
    pub fn index(name: &'static str) -> Option<usize> {
        Self::names().position(|known| known == name)
    }

    /// Reads the parameters.
    pub fn read(&self, mut params: Params) -> Result<Request, Error> {
        (self.read)(&mut params)
    }
}

const QUEUE_URL: Field = Field {
    name: "QueueUrl",
    shape: Shape::Scalar,
};
const MESSAGE_ATTRIBUTE: &[Field] = &[
    scalar("DataType"),
    scalar("StringValue"),
    scalar("BinaryValue"),
    Field {
        name: "StringListValues",
        shape: Shape::List(&["StringListValue"]),
    },
    Field {
        name: "BinaryListValues",
        shape: Shape::List(&["BinaryListValue"]),
    },
];
const ATTRIBUTES: Field = Field {
    name: "Attributes",
    shape: Shape::Map {
        tags: &["Attribute"],
        key: "Name",
    },
};
const MESSAGE_ATTRIBUTES: Field = Field {
    name: "MessageAttributes",
    shape: Shape::StructMap {
        tag: "MessageAttribute",
        fields: MESSAGE_ATTRIBUTE,
    },
};
const SYSTEM_ATTRIBUTES: Field = Field {
    name: "MessageSystemAttributes",
    shape: Shape::StructMap {
        tag: "MessageSystemAttribute",
        fields: MESSAGE_ATTRIBUTE,
    },
};

const fn scalar(name: &'static str) -> Field {
    Field {
        name,
        shape: Shape::Scalar,
    }
}

const fn entries(tag: &'static str, fields: &'static [Field]) -> Field {
    Field {
        name: "Entries",
        shape: Shape::Structs { tag, fields },
    }
}

/// Every action there is. A name outside it is `InvalidAction`.
const ACTIONS: &[Action] = &[
    Action {
        name: "AddPermission",
        fields: &[
            QUEUE_URL,
            scalar("Label"),
            Field {
                name: "AWSAccountIds",
                shape: Shape::List(&["AWSAccountId"]),
            },
            Field {
                name: "Actions",
                shape: Shape::List(&["ActionName"]),
            },
        ],
        of_account: false,
        read: |p| {
            Ok(Request::AddPermission {
                queue: queue(p)?,
                label: p.required("Label")?,
                accounts: p.texts("AWSAccountIds")?,
                actions: p.texts("Actions")?,
            })
        },
    },
    Action {
        name: "CancelMessageMoveTask",
        fields: &[scalar("TaskHandle")],
        of_account: false,
        read: |p| {
            Ok(Request::CancelMessageMoveTask {
                handle: p.required("TaskHandle")?,
            })
        },
    },
    Action {
        name: "ChangeMessageVisibility",
        fields: &[
            QUEUE_URL,
            scalar("ReceiptHandle"),
            scalar("VisibilityTimeout"),
        ],
        of_account: false,
        read: |p| {
            Ok(Request::ChangeMessageVisibility {
                queue: queue(p)?,
                handle: p.required("ReceiptHandle")?,
                timeout: p
                    .integer("VisibilityTimeout")?
                    .ok_or_else(|| Error::missing("VisibilityTimeout"))?,
            })
        },
    },
    Action {
        name: "ChangeMessageVisibilityBatch",
        fields: &[
            QUEUE_URL,
            entries(
                "ChangeMessageVisibilityBatchRequestEntry",
                &[
                    scalar("Id"),
                    scalar("ReceiptHandle"),
                    scalar("VisibilityTimeout"),
                ],
            ),
        ],
        of_account: false,
        read: |p| {
            let queue = queue(p)?;
            let entries = batch(
                p,
                "ChangeMessageVisibilityBatchRequestEntry",
                |p, missing| {
                    Ok(VisibilityEntry {
                        id: p.text("Id")?.ok_or_else(|| missing("Id"))?,
                        handle: p
                            .text("ReceiptHandle")?
                            .ok_or_else(|| missing("ReceiptHandle"))?,
                        timeout: p
                            .integer("VisibilityTimeout")?
                            .ok_or_else(|| missing("VisibilityTimeout"))?,
                    })
                },
            )?;
            Ok(Request::ChangeMessageVisibilityBatch { queue, entries })
        },
    },
    Action {
        name: "CreateQueue",
        fields: &[
            scalar("QueueName"),
            ATTRIBUTES,
            Field {
                name: "tags",
                shape: Shape::Map {
                    tags: &["Tag", "Tags"],
                    key: "Key",
                },
            },
        ],
        of_account: true,
        read: |p| {
            Ok(Request::CreateQueue {
                name: p.required("QueueName")?,
                attributes: p.text_map("Attributes")?.unwrap_or_default(),
                tags: p.text_map("tags")?.unwrap_or_default(),
            })
        },
    },
    Action {
        name: "DeleteMessage",
        fields: &[QUEUE_URL, scalar("ReceiptHandle")],
        of_account: false,
        read: |p| {
            Ok(Request::DeleteMessage {
                queue: queue(p)?,
                handle: p.required("ReceiptHandle")?,
            })
        },
    },
    Action {
        name: "DeleteMessageBatch",
        fields: &[
            QUEUE_URL,
            entries(
                "DeleteMessageBatchRequestEntry",
                &[scalar("Id"), scalar("ReceiptHandle")],
            ),
        ],
        of_account: false,
        read: |p| {
            let queue = queue(p)?;
            let entries = batch(p, "DeleteMessageBatchRequestEntry", |p, missing| {
                Ok(DeleteEntry {
                    id: p.text("Id")?.ok_or_else(|| missing("Id"))?,
                    handle: p
                        .text("ReceiptHandle")?
                        .ok_or_else(|| missing("ReceiptHandle"))?,
                })
            })?;
            Ok(Request::DeleteMessageBatch { queue, entries })
        },
    },
    Action {
        name: "DeleteQueue",
        fields: &[QUEUE_URL],
        of_account: false,
        read: |p| Ok(Request::DeleteQueue { queue: queue(p)? }),
    },
    Action {
        name: "GetQueueAttributes",
        fields: &[
            QUEUE_URL,
            Field {
                name: "AttributeNames",
                shape: Shape::List(&["AttributeName"]),
            },
        ],
        of_account: false,
        read: |p| {
            Ok(Request::GetQueueAttributes {
                queue: queue(p)?,
                names: p.texts("AttributeNames")?,
            })
        },
    },
    Action {
        name: "GetQueueUrl",
        fields: &[scalar("QueueName"), scalar("QueueOwnerAWSAccountId")],
        of_account: false,
        read: |p| {
            let owner = p.text("QueueOwnerAWSAccountId")?.filter(|o| !o.is_empty());
            Ok(Request::GetQueueUrl {
                name: p.required("QueueName")?,
                owner,
            })
        },
    },
    Action {
        name: "ListDeadLetterSourceQueues",
        fields: &[QUEUE_URL, scalar("NextToken"), scalar("MaxResults")],
        of_account: false,
        read: |p| {
            Ok(Request::ListDeadLetterSourceQueues {
                queue: queue(p)?,
                page: page(p)?,
            })
        },
    },
    Action {
        name: "ListMessageMoveTasks",
        fields: &[scalar("SourceArn"), scalar("MaxResults")],
        of_account: false,
        read: |p| {
            Ok(Request::ListMessageMoveTasks {
                source: p.required("SourceArn")?,
                max: p.integer("MaxResults")?,
            })
        },
    },
    Action {
        name: "ListQueues",
        fields: &[
            scalar("QueueNamePrefix"),
            scalar("NextToken"),
            scalar("MaxResults"),
        ],
        of_account: true,
        read: |p| {
            let prefix = p.text("QueueNamePrefix")?.unwrap_or_default();
            Ok(Request::ListQueues {
                prefix,
                page: page(p)?,
            })
        },
    },
    Action {
        name: "ListQueueTags",
        fields: &[QUEUE_URL],
        of_account: false,
        read: |p| Ok(Request::ListQueueTags { queue: queue(p)? }),
    },
    Action {
        name: "PurgeQueue",
        fields: &[QUEUE_URL],
        of_account: false,
        read: |p| Ok(Request::PurgeQueue { queue: queue(p)? }),
    },
    Action {
        name: "ReceiveMessage",
        fields: &[
            QUEUE_URL,
            Field {
                name: "AttributeNames",
                shape: Shape::List(&["AttributeName"]),
            },
            Field {
                name: "MessageSystemAttributeNames",
                shape: Shape::List(&["MessageSystemAttributeName"]),
            },
            Field {
                name: "MessageAttributeNames",
                shape: Shape::List(&["MessageAttributeName"]),
            },
            scalar("MaxNumberOfMessages"),
            scalar("VisibilityTimeout"),
            scalar("WaitTimeSeconds"),
            scalar("ReceiveRequestAttemptId"),
        ],
        of_account: false,
        read: |p| {
            let mut system_names = p.texts("AttributeNames")?;
            system_names.extend(p.texts("MessageSystemAttributeNames")?);
            Ok(Request::ReceiveMessage(Receive {
                queue: queue(p)?,
                system_names,
                attribute_names: p.texts("MessageAttributeNames")?,
                max: p.integer("MaxNumberOfMessages")?,
                visibility: p.integer("VisibilityTimeout")?,
                wait: p.integer("WaitTimeSeconds")?,
                attempt: p.text("ReceiveRequestAttemptId")?,
            }))
        },
    },
    Action {
        name: "RemovePermission",
        fields: &[QUEUE_URL, scalar("Label")],
        of_account: false,
        read: |p| {
            Ok(Request::RemovePermission {
                queue: queue(p)?,
                label: p.required("Label")?,
            })
        },
    },
    Action {
        name: "SendMessage",
        fields: &[
            QUEUE_URL,
            scalar("MessageBody"),
            scalar("DelaySeconds"),
            MESSAGE_ATTRIBUTES,
            SYSTEM_ATTRIBUTES,
            scalar("MessageDeduplicationId"),
            scalar("MessageGroupId"),
        ],
        of_account: false,
        read: |p| {
            let message = outgoing(p, &Error::missing)?;
            Ok(Request::SendMessage {
                queue: queue(p)?,
                message,
            })
        },
    },
    Action {
        name: "SendMessageBatch",
        fields: &[
            QUEUE_URL,
            entries(
                "SendMessageBatchRequestEntry",
                &[
                    scalar("Id"),
                    scalar("MessageBody"),
                    scalar("DelaySeconds"),
                    MESSAGE_ATTRIBUTES,
                    SYSTEM_ATTRIBUTES,
                    scalar("MessageDeduplicationId"),
                    scalar("MessageGroupId"),
                ],
            ),
        ],
        of_account: false,
        read: |p| {
            let queue = queue(p)?;
            let entries = batch(p, "SendMessageBatchRequestEntry", |p, missing| {
                Ok(SendEntry {
                    id: p.text("Id")?.ok_or_else(|| missing("Id"))?,
                    message: outgoing(p, missing)?,
                })
            })?;
            Ok(Request::SendMessageBatch { queue, entries })
        },
    },
    Action {
        name: "SetQueueAttributes",
        fields: &[QUEUE_URL, ATTRIBUTES],
        of_account: false,
        read: |p| {
            let queue = queue(p)?;
            let attributes = p
                .text_map("Attributes")?
                .ok_or_else(|| Error::missing("Attribute.Name"))?;
            Ok(Request::SetQueueAttributes { queue, attributes })
        },
    },
    Action {
        name: "StartMessageMoveTask",
        fields: &[
            scalar("SourceArn"),
            scalar("DestinationArn"),
            scalar("MaxNumberOfMessagesPerSecond"),
        ],
        of_account: false,
        read: |p| {
            Ok(Request::StartMessageMoveTask {
                source: p.required("SourceArn")?,
                destination: p.text("DestinationArn")?.filter(|d| !d.is_empty()),
                rate: p.integer("MaxNumberOfMessagesPerSecond")?,
            })
        },
    },
    Action {
        name: "TagQueue",
        fields: &[
            QUEUE_URL,
            Field {
                name: "Tags",
                shape: Shape::Map {
                    tags: &["Tag", "Tags"],
                    key: "Key",
                },
            },
        ],
        of_account: false,
        read: |p| {
            let queue = queue(p)?;
            Ok(Request::TagQueue {
                queue,
                tags: p.text_map("Tags")?.ok_or_else(|| Error::missing("Tags"))?,
            })
        },
    },
    Action {
        name: "UntagQueue",
        fields: &[
            QUEUE_URL,
            Field {
                name: "TagKeys",
                shape: Shape::List(&["TagKey", "TagKeys"]),
            },
        ],
        of_account: false,
        read: |p| {
            Ok(Request::UntagQueue {
                queue: queue(p)?,
                keys: p.texts("TagKeys")?,
            })
        },
    },
    Action {
        name: "GetCallerIdentity",
        fields: &[],
        of_account: true,
        read: |_| Ok(Request::GetCallerIdentity),
    },
];

fn queue(params: &mut Params) -> Result<QueueUrl, Error> {
    match params.text("QueueUrl")? {
        Some(url) if !url.is_empty() => Ok(QueueUrl(url)),
        _ => Err(Error::missing("QueueUrl")),
    }
}

fn page(params: &mut Params) -> Result<Page, Error> {
    let token = params.text("NextToken")?.filter(|t| !t.is_empty());
    Ok(Page {
        max: params.integer("MaxResults")?,
        token,
    })
}

fn outgoing(params: &mut Params, missing: &dyn Fn(&str) -> Error) -> Result<Outgoing, Error> {
    let body = params.text("MessageBody")?.filter(|b| !b.is_empty());
    Ok(Outgoing {
        body: body.ok_or_else(|| missing("MessageBody"))?,
        delay: params.integer("DelaySeconds")?,
        attributes: params.attribute_values("MessageAttributes")?,
        system_attributes: params.attribute_values("MessageSystemAttributes")?,
        dedup_id: params.text("MessageDeduplicationId")?,
        group: params.text("MessageGroupId")?,
    })
}

/// Reads the entries of a batch; what one lacks is named by its place, as AWS names it.
fn batch<T>(
    params: &mut Params,
    tag: &str,
    read: impl Fn(&mut Params, &dyn Fn(&str) -> Error) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let entries = params.entries("Entries")?;
    let entries = entries.into_iter().zip(1..).map(|(mut entry, place)| {
        read(&mut entry, &|field| {
            Error::missing(&format!("{tag}.{place}.{field}"))
        })
    });
    entries.collect()
}

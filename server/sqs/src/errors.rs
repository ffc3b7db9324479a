//! The one table of errors: what each is called in either protocol, its HTTP status and its standing text.
//!
//! SDKs decide by these strings what they raise and whether they try again, so that every one is AWS's own.

use std::borrow::Cow;

use powerqueue_engine::Error as EngineError;
use powerqueue_node::Error as NodeError;

/// What went wrong, by AWS's name for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Kind {
    BatchEntryIdsNotDistinct,
    BatchRequestTooLong,
    EmptyBatchRequest,
    IncompleteSignature,
    InternalError,
    InvalidAction,
    InvalidAttributeName,
    InvalidAttributeValue,
    InvalidBatchEntryId,
    InvalidClientTokenId,
    InvalidMessageContents,
    InvalidParameterValue,
    InvalidQueryParameter,
    MalformedQueryString,
    MessageNotInflight,
    MissingAuthenticationToken,
    MissingParameter,
    OverLimit,
    PurgeQueueInProgress,
    QueueDeletedRecently,
    QueueDoesNotExist,
    QueueNameExists,
    ReceiptHandleIsInvalid,
    RequestEntityTooLarge,
    RequestExpired,
    RequestThrottled,
    ResourceNotFound,
    Serialization,
    ServiceUnavailable,
    SignatureDoesNotMatch,
    TooManyEntriesInBatchRequest,
    UnknownOperation,
    UnsupportedOperation,
}

/// Whose fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request's.
    Sender,
    /// The service's; SDKs try again.
    Receiver,
}

impl Fault {
    /// Its name in an error response and in `x-amzn-query-error`.
    pub fn query(self) -> &'static str {
        match self {
            Self::Sender => "Sender",
            Self::Receiver => "Receiver",
        }
    }
}

/// A row of the table.
#[derive(Debug)]
pub struct Row {
    #[cfg_attr(
        not(test),
        expect(
            dead_code,
            reason = "read by the test that holds the table to its order"
        )
    )]
    kind: Kind,
    /// The JSON protocol's name.
    pub shape: &'static str,
    /// The Query protocol's name, which the JSON protocol repeats in a header.
    pub code: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// Whose fault it is.
    pub fault: Fault,
    /// What is said when nothing more specific is known.
    text: &'static str,
}

const fn row(
    kind: Kind,
    shape: &'static str,
    code: &'static str,
    status: u16,
    text: &'static str,
) -> Row {
    let fault = if status < 500 {
        Fault::Sender
    } else {
        Fault::Receiver
    };
    Row {
        kind,
        shape,
        code,
        status,
        fault,
        text,
    }
}

#[rustfmt::skip]
const TABLE: &[Row] = &[
    row(Kind::BatchEntryIdsNotDistinct, "BatchEntryIdsNotDistinct", "AWS.SimpleQueueService.BatchEntryIdsNotDistinct", 400, "Two or more batch entries in the request have the same Id."),
    row(Kind::BatchRequestTooLong, "BatchRequestTooLong", "AWS.SimpleQueueService.BatchRequestTooLong", 400, "The length of all the messages put together is more than the limit."),
    row(Kind::EmptyBatchRequest, "EmptyBatchRequest", "AWS.SimpleQueueService.EmptyBatchRequest", 400, "There should be at least one entry in the request."),
    row(Kind::IncompleteSignature, "IncompleteSignature", "IncompleteSignature", 400, "The request signature does not conform to AWS standards."),
    row(Kind::InternalError, "InternalFailure", "InternalError", 500, "We encountered an internal error. Please try again."),
    row(Kind::InvalidAction, "InvalidAction", "InvalidAction", 400, "The action or operation requested is invalid. Verify that the action is typed correctly."),
    row(Kind::InvalidAttributeName, "InvalidAttributeName", "InvalidAttributeName", 400, "The specified attribute doesn't exist."),
    row(Kind::InvalidAttributeValue, "InvalidAttributeValue", "InvalidAttributeValue", 400, "A queue attribute value is invalid."),
    row(Kind::InvalidBatchEntryId, "InvalidBatchEntryId", "AWS.SimpleQueueService.InvalidBatchEntryId", 400, "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most 80 letters long."),
    row(Kind::InvalidClientTokenId, "InvalidClientTokenId", "InvalidClientTokenId", 403, "The security token included in the request is invalid."),
    row(Kind::InvalidMessageContents, "InvalidMessageContents", "InvalidMessageContents", 400, "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF"),
    row(Kind::InvalidParameterValue, "InvalidParameterValueException", "InvalidParameterValue", 400, "A parameter value is invalid."),
    row(Kind::InvalidQueryParameter, "InvalidQueryParameter", "InvalidQueryParameter", 400, "The AWS query string is malformed or does not adhere to AWS standards."),
    row(Kind::MalformedQueryString, "MalformedQueryString", "MalformedQueryString", 400, "The query string contains a syntax error."),
    row(Kind::MessageNotInflight, "MessageNotInflight", "AWS.SimpleQueueService.MessageNotInflight", 400, "The specified message isn't in flight."),
    row(Kind::MissingAuthenticationToken, "MissingAuthenticationToken", "MissingAuthenticationToken", 403, "Request is missing Authentication Token"),
    row(Kind::MissingParameter, "MissingRequiredParameterException", "MissingParameter", 400, "The request must contain every required parameter."),
    row(Kind::OverLimit, "OverLimit", "OverLimit", 403, "The specified action violates a limit."),
    row(Kind::PurgeQueueInProgress, "PurgeQueueInProgress", "AWS.SimpleQueueService.PurgeQueueInProgress", 403, "Only one PurgeQueue operation is allowed every 60 seconds."),
    row(Kind::QueueDeletedRecently, "QueueDeletedRecently", "AWS.SimpleQueueService.QueueDeletedRecently", 400, "You must wait 60 seconds after deleting a queue before you can create another with the same name."),
    row(Kind::QueueDoesNotExist, "QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", 400, "The specified queue does not exist."),
    row(Kind::QueueNameExists, "QueueNameExists", "QueueAlreadyExists", 400, "A queue already exists with the same name and a different value for an attribute"),
    row(Kind::ReceiptHandleIsInvalid, "ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid", 400, "The specified receipt handle isn't valid."),
    row(Kind::RequestEntityTooLarge, "RequestEntityTooLarge", "RequestEntityTooLarge", 413, "The request is too large."),
    row(Kind::RequestExpired, "RequestExpired", "RequestExpired", 400, "The request reached the service too long after the date stamp on the request."),
    row(Kind::RequestThrottled, "RequestThrottled", "RequestThrottled", 403, "The request was denied due to request throttling."),
    row(Kind::ResourceNotFound, "ResourceNotFoundException", "ResourceNotFoundException", 404, "One or more specified resources don't exist."),
    row(Kind::Serialization, "SerializationException", "SerializationException", 400, "The request could not be read."),
    row(Kind::ServiceUnavailable, "ServiceUnavailable", "ServiceUnavailable", 503, "The request has failed due to a temporary failure of the server."),
    row(Kind::SignatureDoesNotMatch, "SignatureDoesNotMatch", "SignatureDoesNotMatch", 403, "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method. Consult the service documentation for details."),
    row(Kind::TooManyEntriesInBatchRequest, "TooManyEntriesInBatchRequest", "AWS.SimpleQueueService.TooManyEntriesInBatchRequest", 400, "The batch request contains more entries than permissible."),
    row(Kind::UnknownOperation, "UnknownOperationException", "UnknownOperationException", 404, "The operation is unknown."),
    row(Kind::UnsupportedOperation, "UnsupportedOperation", "AWS.SimpleQueueService.UnsupportedOperation", 400, "Unsupported operation."),
];

/// The only text that differs by protocol.
const QUERY_NO_QUEUE: &str = "The specified queue does not exist for this wsdl version.";

/// An error on its way to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What it is.
    pub kind: Kind,
    text: Option<Cow<'static, str>>,
}

impl Error {
    /// An error with its standing text.
    pub const fn of(kind: Kind) -> Self {
        Self { kind, text: None }
    }

    /// An error with a text of its own.
    pub fn new(kind: Kind, text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind,
            text: Some(text.into()),
        }
    }

    /// A parameter that is not there.
    pub fn missing(name: &str) -> Self {
        Self::new(
            Kind::MissingParameter,
            format!("The request must contain the parameter {name}."),
        )
    }

    /// A parameter whose value is refused.
    pub fn invalid(value: impl std::fmt::Display, parameter: &str, reason: &str) -> Self {
        let text = format!("Value {value} for parameter {parameter} is invalid. Reason: {reason}");
        Self::new(Kind::InvalidParameterValue, text)
    }

    /// A queue attribute whose value is refused.
    pub fn attribute(name: &str) -> Self {
        Self::new(
            Kind::InvalidAttributeValue,
            format!("Invalid value for the parameter {name}."),
        )
    }

    /// A body that is not what its protocol promises.
    pub fn serialization(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Serialization, text)
    }

    /// A message above its queue's size.
    pub fn too_large(limit: u64) -> Self {
        let text = format!(
            "One or more parameters are invalid. Reason: Message must be shorter than {limit} bytes."
        );
        Self::new(Kind::InvalidParameterValue, text)
    }

    /// Its row of the table.
    pub fn row(&self) -> &'static Row {
        // A test holds the table to the order of the kinds.
        &TABLE[self.kind as usize]
    }

    /// What the JSON protocol says.
    pub fn text(&self) -> &str {
        self.text.as_deref().unwrap_or(self.row().text)
    }

    /// What the Query protocol says.
    pub fn query_text(&self) -> &str {
        match (self.kind, &self.text) {
            (Kind::QueueDoesNotExist, None) => QUERY_NO_QUEUE,
            _ => self.text(),
        }
    }
}

impl From<EngineError> for Error {
    fn from(error: EngineError) -> Self {
        use EngineError as E;
        let kind = match &error {
            E::NotFound => return Self::of(Kind::QueueDoesNotExist),
            E::DeletedRecently => return Self::of(Kind::QueueDeletedRecently),
            E::Busy => return Self::of(Kind::PurgeQueueInProgress),
            E::LeaseLost | E::NotLeased => return Self::of(Kind::MessageNotInflight),
            E::TooLarge { limit, .. } => return Self::too_large(*limit),
            E::AlreadyExists(what) => {
                let text = format!(
                    "A queue already exists with the same name and a different value for attribute {what}"
                );
                return Self::new(Kind::QueueNameExists, text);
            }
            E::QueueFull { .. }
            | E::TenantFull { .. }
            | E::DeduplicationFull { .. }
            | E::TooManyEntities { .. }
            | E::SettingsFull { .. }
            | E::TooMany { .. } => Kind::OverLimit,
            E::NodeFull(_) => Kind::ServiceUnavailable,
            E::TooLong { .. } => Kind::InvalidParameterValue,
            E::NotAllowed(_) => Kind::UnsupportedOperation,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<NodeError> for Error {
    fn from(error: NodeError) -> Self {
        match error {
            NodeError::Engine(error) => error.into(),
            NodeError::TooLarge => Self::of(Kind::RequestEntityTooLarge),
            NodeError::Full | NodeError::Unavailable => Self::of(Kind::ServiceUnavailable),
            NodeError::Unreadable => Self::of(Kind::InternalError),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_whole() {
        let kinds: Vec<_> = TABLE.iter().map(|row| format!("{:?}", row.kind)).collect();
        assert!(kinds.is_sorted());
        assert_eq!(TABLE.len(), Kind::UnsupportedOperation as usize + 1);
        for (row, number) in TABLE.iter().zip(0..) {
            assert_eq!(row.kind as usize, number);
        }
    }

    #[test]
    fn caps_are_over_limit_and_their_words_name_the_cap() {
        let error = Error::from(EngineError::QueueFull { limit: 1000 });
        assert_eq!((error.row().code, error.row().status), ("OverLimit", 403));
        assert_eq!(error.text(), "the queue holds its maximum of 1000 messages");
    }
}

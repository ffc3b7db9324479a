//! What a message is, whichever interface it came through.

use bytes::Bytes;

/// An interface that writes messages. The numbers are stored: never reuse one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Protocol {
    /// AMQP 0-9-1.
    Amqp091 = 1,
    /// Amazon SQS.
    Sqs = 2,
    /// Amazon SNS.
    Sns = 3,
    /// Google Cloud Pub/Sub.
    PubSub = 4,
    /// Azure Queue Storage.
    AzureQueue = 5,
    /// AMQP 1.0 and Azure Service Bus.
    ServiceBus = 6,
}

impl Protocol {
    const ALL: [Self; 6] = [
        Self::Amqp091,
        Self::Sqs,
        Self::Sns,
        Self::PubSub,
        Self::AzureQueue,
        Self::ServiceBus,
    ];

    /// The protocol with that number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|p| *p as u8 == number)
    }
}

/// A message as its sender gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The interface it came through.
    pub origin: Protocol,
    /// The id its sender was told.
    pub id: u128,
    /// The body.
    pub body: Body,
    /// What the sender attached, in the sender's order.
    pub attributes: Vec<Attribute>,
    /// The group as the sender named it, whether or not its queue has groups.
    pub group: Option<String>,
    /// The deduplication id, given or derived from the content.
    pub dedup_id: Option<String>,
    /// Who sent it, as its own interface shows senders. Never a credential.
    pub sender: Option<String>,
    /// The tracing header that travels beside the attributes (SQS `AWSTraceHeader`).
    pub trace_header: Option<String>,
}

impl Message {
    /// A message with nothing but a body.
    pub fn new(origin: Protocol, id: u128, body: Body) -> Self {
        Self {
            origin,
            id,
            body,
            attributes: Vec::new(),
            group: None,
            dedup_id: None,
            sender: None,
            trace_header: None,
        }
    }
}

/// A body in the form that its sender used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Text.
    Text(String),
    /// Bytes of which nothing is known.
    Binary(Bytes),
}

/// One attribute, header or property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its name.
    pub name: String,
    /// What its bytes mean.
    pub kind: Kind,
    /// The label that the sender put on the type (`float` of SQS's `Number.float`); without the dot.
    pub label: Option<String>,
    /// The value: text for [`Kind::Text`] and [`Kind::Number`], kept to the letter.
    pub value: Bytes,
}

/// What the bytes of an attribute's value mean. The numbers are stored: never reuse one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Text in UTF-8.
    Text = 1,
    /// A number as decimal text.
    Number = 2,
    /// Bytes.
    Binary = 3,
}

impl Kind {
    /// The kind with that number.
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::Text, Self::Number, Self::Binary]
            .into_iter()
            .find(|k| *k as u8 == number)
    }

    /// Whether values of this kind are text.
    pub fn is_text(self) -> bool {
        !matches!(self, Self::Binary)
    }
}

//! Bytes to typed requests and back, without any I/O.
//!
//! Two protocols share the listener. `X-Amz-Target` makes a request AWS JSON; anything else is Query, whose `Action`
//! is in the URL or the body. Both become one [`Request`], and one [`Reply`] becomes either.

#![warn(clippy::indexing_slicing)]

mod action;
mod json;
mod params;
mod query;
mod reply;
mod request;
mod xml;

use std::collections::BTreeMap;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode, header};

pub use action::{Action, names as action_names};
pub use params::AttributeValue;
pub use query::{parse_form, unescape};
pub use reply::{Reply, Value};
pub use request::{
    DeleteEntry, Outgoing, Page, QueueUrl, Receive, Request, SendEntry, VisibilityEntry,
};

use crate::errors::{Error, Kind};

/// The largest request body: a batch of 1 MiB with every byte percent-encoded, and room for the names around it.
pub const MAX_BODY: usize = 4 << 20;
/// The longest URL query: a presigned request's parameters, many times over.
const MAX_URL_QUERY: usize = 64 << 10;

/// The protocol of a request, and so of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// AWS JSON 1.0.
    Json,
    /// Query, answered in XML.
    Query,
    /// Query with `Accept: application/json`.
    QueryJson,
}

/// A request as far as the envelope tells: enough to say who sends it and how to answer.
pub struct Envelope {
    /// Its protocol.
    pub protocol: Protocol,
    /// The credential among the parameters, for a request that is not signed in a header: a scope, or an access key.
    pub credential: Option<String>,
    /// Its action's name, if it is one.
    pub action: Option<&'static str>,
    content: Result<Content, Error>,
    at_queue: Option<String>,
}

enum Content {
    Json(&'static Action, Bytes),
    Query(&'static Action, BTreeMap<String, String>),
}

/// Decodes a request whole.
pub fn decode(parts: &Parts, body: &Bytes) -> (Protocol, Result<Request, Error>) {
    let envelope = Envelope::open(parts, body);
    (envelope.protocol, envelope.request())
}

impl Envelope {
    /// Looks at what the request is without reading its parameters.
    pub fn open(parts: &Parts, body: &Bytes) -> Self {
        let mut envelope = Self {
            protocol: protocol_of(&parts.headers),
            credential: None,
            action: None,
            content: Err(Error::of(Kind::UnknownOperation)),
            at_queue: queue_in_path(parts.uri.path()),
        };
        envelope.content = match parts.headers.get("x-amz-target") {
            Some(target) => {
                envelope.credential = presigned_credential(parts);
                json::action(target.as_bytes()).map(|action| Content::Json(action, body.clone()))
            }
            None => envelope.open_query(parts, body),
        };
        if let Err(error) = check_encoding(&parts.headers) {
            envelope.content = Err(error);
        }
        if body.len() > MAX_BODY {
            envelope.content = Err(Error::of(Kind::RequestEntityTooLarge));
        }
        envelope.action = match &envelope.content {
            Ok(Content::Json(action, _) | Content::Query(action, _)) => Some(action.name),
            Err(_) => None,
        };
        envelope
    }

    fn open_query(&mut self, parts: &Parts, body: &Bytes) -> Result<Content, Error> {
        let url_query = parts.uri.query().unwrap_or_default().as_bytes();
        if body.len() > MAX_BODY || url_query.len() > MAX_URL_QUERY {
            return Err(Error::of(Kind::RequestEntityTooLarge));
        }
        let mut parameters = parse_form(url_query)?;
        query::merge(&mut parameters, parse_form(body)?)?;
        let credential = parameters.remove("X-Amz-Credential");
        self.credential = credential.or_else(|| parameters.remove("AWSAccessKeyId"));
        let name = parameters
            .remove("Action")
            .ok_or(Error::of(Kind::UnknownOperation))?;
        let action = Action::named(&name).ok_or(Error::of(Kind::InvalidAction))?;
        if action.of_account && self.at_queue.is_some() {
            let text = format!("The action {} is not valid for this endpoint.", action.name);
            return Err(Error::new(Kind::InvalidAction, text));
        }
        Ok(Content::Query(action, parameters))
    }

    /// Whether it is a request for some action at all.
    pub fn check(&self) -> Result<(), Error> {
        self.content.as_ref().map(|_| ()).map_err(Clone::clone)
    }

    /// The typed request.
    pub fn request(self) -> Result<Request, Error> {
        let (action, mut params) = match self.content? {
            Content::Json(action, body) => (action, json::params(&body)?),
            Content::Query(action, parameters) => {
                (action, query::lower(parameters, action.fields)?)
            }
        };
        if let Some(queue) = self.at_queue {
            params.default_text("QueueUrl", queue);
        }
        action.read(params)
    }
}

fn presigned_credential(parts: &Parts) -> Option<String> {
    let query = parts.uri.query().filter(|q| q.len() <= MAX_URL_QUERY)?;
    parse_form(query.as_bytes())
        .ok()?
        .remove("X-Amz-Credential")
}

/// A queue's address is the path of its URL: an account and a name.
fn queue_in_path(path: &str) -> Option<String> {
    let is_queue = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .count()
        >= 2;
    is_queue.then(|| path.to_owned())
}

fn accepts_json(headers: &HeaderMap) -> bool {
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|v| v.to_str().ok())
        .unwrap_or_default();
    accept.split(',').any(|kind| {
        kind.split(';')
            .next()
            .is_some_and(|k| k.trim() == "application/json")
    })
}

/// The protocol of a request whose body could not be read, by its head alone.
pub fn protocol_of(headers: &HeaderMap) -> Protocol {
    if headers.contains_key("x-amz-target") {
        Protocol::Json
    } else if accepts_json(headers) {
        Protocol::QueryJson
    } else {
        Protocol::Query
    }
}

/// Bodies are taken as they are. The signature covers the compressed bytes, and what they unpack to has no bound.
fn check_encoding(headers: &HeaderMap) -> Result<(), Error> {
    let plain = |value: &header::HeaderValue| {
        value.is_empty() || value.as_bytes().eq_ignore_ascii_case(b"identity")
    };
    if headers.get_all(header::CONTENT_ENCODING).iter().all(plain) {
        return Ok(());
    }
    Err(Error::serialization(
        "Bodies with a Content-Encoding are not accepted.",
    ))
}

/// The HTTP answer to a request of that protocol and action.
pub fn respond(
    protocol: Protocol,
    action: Option<&str>,
    outcome: Result<Reply, Error>,
    request_id: &str,
) -> Response<Bytes> {
    let action = action.unwrap_or_default();
    let namespace = if action == "GetCallerIdentity" {
        xml::STS
    } else {
        xml::SQS
    };
    let status = outcome
        .as_ref()
        .map_or_else(|error| error.row().status, |_| 200);
    let unknown = outcome
        .as_ref()
        .is_err_and(|error| error.kind == Kind::UnknownOperation);
    let mut response = Response::builder()
        .status(StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR))
        .header("x-amzn-requestid", request_id);
    let body = match (protocol, outcome) {
        (Protocol::Json, outcome) => {
            response = response.header(header::CONTENT_TYPE, "application/x-amz-json-1.0");
            if let Err(error) = &outcome {
                // SDKs that knew the Query protocol map errors by this header, and some crash without it.
                let row = error.row();
                response = response.header(
                    "x-amzn-query-error",
                    format!("{};{}", row.code, row.fault.query()),
                );
            }
            json::body(&outcome)
        }
        (Protocol::QueryJson, outcome) if !unknown => {
            response = response.header(header::CONTENT_TYPE, "application/json");
            json::query_body(action, &outcome, request_id)
        }
        (_, outcome) => {
            response = response.header(header::CONTENT_TYPE, "text/xml");
            match outcome {
                Ok(reply) => xml::reply(namespace, action, &reply, request_id),
                Err(error) => xml::error(namespace, &error, request_id),
            }
        }
    };
    response.body(Bytes::from(body)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use http::{Method, Request as HttpRequest};
    use proptest::prelude::*;

    use super::*;

    fn request(method: Method, uri: &str, headers: &[(&str, &str)], body: &[u8]) -> (Parts, Bytes) {
        let mut builder = HttpRequest::builder().method(method).uri(uri);
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        let (parts, ()) = builder.body(()).unwrap().into_parts();
        (parts, Bytes::copy_from_slice(body))
    }

    fn decoded(
        method: Method,
        uri: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> (Protocol, Result<Request, Error>) {
        let (parts, body) = request(method, uri, headers, body);
        decode(&parts, &body)
    }

    #[test]
    fn both_protocols_decode_to_the_same_request() {
        let json = decoded(
            Method::POST,
            "/",
            &[("x-amz-target", "AmazonSQS.SendMessage")],
            br#"{"QueueUrl":"http://h/000000000001/q","MessageBody":"b","DelaySeconds":3,
                "MessageAttributes":{"n":{"DataType":"Binary","BinaryValue":"AP8="}}}"#,
        );
        let query = decoded(
            Method::POST,
            "/",
            &[],
            b"Action=SendMessage&QueueUrl=http%3A%2F%2Fh%2F000000000001%2Fq&MessageBody=b&DelaySeconds=3\
              &MessageAttribute.1.Name=n&MessageAttribute.1.Value.DataType=Binary\
              &MessageAttribute.1.Value.BinaryValue=AP8%3D",
        );
        assert_eq!(json.0, Protocol::Json);
        assert_eq!(query.0, Protocol::Query);
        assert_eq!(json.1.unwrap(), query.1.unwrap());
    }

    #[test]
    fn the_path_is_the_queue_of_a_request_that_names_none() {
        let (_, request) = decoded(Method::GET, "/000000000001/q?Action=PurgeQueue", &[], b"");
        assert_eq!(
            request.unwrap(),
            Request::PurgeQueue {
                queue: QueueUrl("/000000000001/q".into())
            }
        );
        let (_, request) = decoded(
            Method::GET,
            "/000000000001/q?Action=PurgeQueue&QueueUrl=other",
            &[],
            b"",
        );
        assert_eq!(
            request.unwrap(),
            Request::PurgeQueue {
                queue: QueueUrl("other".into())
            }
        );
    }

    #[test]
    fn a_queues_address_serves_no_actions_of_the_account() {
        for action in ["CreateQueue", "ListQueues"] {
            let (_, request) = decoded(
                Method::GET,
                &format!("/000000000001/q?Action={action}"),
                &[],
                b"",
            );
            let error = request.unwrap_err();
            assert_eq!(error.kind, Kind::InvalidAction);
            assert_eq!(
                error.text(),
                format!("The action {action} is not valid for this endpoint.")
            );
        }
    }

    #[test]
    fn an_unknown_action_is_not_echoed() {
        let target = [("x-amz-target", "AmazonSQS.FooBar")];
        for headers in [&target[..], &[]] {
            let (_, request) = decoded(Method::POST, "/?Action=FooBar", headers, b"");
            assert_eq!(request.unwrap_err(), Error::of(Kind::InvalidAction));
        }
    }

    #[test]
    fn a_parameter_is_in_the_url_or_in_the_body() {
        let form = b"Action=CreateQueue&QueueName=b";
        let error = decoded(Method::POST, "/?QueueName=a", &[], form).1;
        assert_eq!(error.unwrap_err().kind, Kind::InvalidQueryParameter);
        assert!(
            decoded(Method::POST, "/?Action=ListQueues", &[], b"")
                .1
                .is_ok()
        );
    }

    #[test]
    fn compressed_bodies_are_refused_by_name() {
        let target = ("x-amz-target", "AmazonSQS.ListQueues");
        let (_, request) = decoded(
            Method::POST,
            "/",
            &[target, ("content-encoding", "gzip")],
            b"{}",
        );
        let error = request.unwrap_err();
        assert_eq!(error.kind, Kind::Serialization);
        assert!(error.text().contains("Content-Encoding"));
        let plain = [target, ("content-encoding", "Identity")];
        assert!(decoded(Method::POST, "/", &plain, b"{}").1.is_ok());
    }

    #[test]
    fn a_get_without_an_action_is_an_unknown_operation_in_xml() {
        let (protocol, request) =
            decoded(Method::GET, "/1/q", &[("accept", "application/json")], b"");
        let response = respond(protocol, None, Err(request.unwrap_err()), "id");
        assert_eq!(response.status(), 404);
        assert!(response.body().starts_with(b"<UnknownOperationException"));
    }

    #[test]
    fn an_empty_body_is_a_missing_parameter() {
        for (uri, headers, body) in [
            ("/1/q?Action=SendMessage", &[][..], &b""[..]),
            (
                "/1/q",
                &[("x-amz-target", "AmazonSQS.SendMessage")],
                br#"{"MessageBody":""}"#,
            ),
        ] {
            let error = decoded(Method::POST, uri, headers, body).1.unwrap_err();
            assert_eq!(error.row().code, "MissingParameter");
            assert_eq!(
                error.text(),
                "The request must contain the parameter MessageBody."
            );
        }
    }

    #[test]
    fn a_json_error_says_its_query_name_in_a_header() {
        let response = respond(
            Protocol::Json,
            Some("SendMessage"),
            Err(Error::of(Kind::QueueDoesNotExist)),
            "id",
        );
        assert_eq!(response.status(), 400);
        assert_eq!(
            response.headers()["x-amzn-query-error"],
            "AWS.SimpleQueueService.NonExistentQueue;Sender"
        );
        assert_eq!(
            response.body().as_ref(),
            br#"{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"The specified queue does not exist."}"#
        );
    }

    #[test]
    fn a_query_that_accepts_json_gets_the_envelope_in_json() {
        let reply = Reply::new().named(
            "QueueUrls",
            "QueueUrl",
            Value::List(vec![Value::Text("u".into())]),
        );
        let response = respond(Protocol::QueryJson, Some("ListQueues"), Ok(reply), "id");
        assert_eq!(
            response.body().as_ref(),
            br#"{"ListQueuesResponse":{"ListQueuesResult":{"queueUrls":["u"]},"ResponseMetadata":{"RequestId":"id"}}}"#
        );
    }

    #[test]
    fn a_huge_body_is_refused_before_it_is_read() {
        let body = vec![b'a'; MAX_BODY + 1];
        let error = decoded(Method::POST, "/", &[], &body).1.unwrap_err();
        assert_eq!(error.kind, Kind::RequestEntityTooLarge);
    }

    proptest! {
        #[test]
        fn arbitrary_bodies_never_panic(
            body in proptest::collection::vec(any::<u8>(), 0..400),
            target in proptest::option::of("AmazonSQS\\.(SendMessage|CreateQueue|TagQueue|ReceiveMessage)"),
        ) {
            let headers: Vec<_> = target.as_deref().map(|t| ("x-amz-target", t)).into_iter().collect();
            let _ = decoded(Method::POST, "/", &headers, &body);
        }

        #[test]
        fn arbitrary_forms_never_panic(form in "(Action=(SendMessageBatch|TagQueue|CreateQueue))?(&[A-Za-z0-9.=%+&]{0,40}){0,10}") {
            let _ = decoded(Method::POST, "/", &[], form.as_bytes());
        }

        #[test]
        fn arbitrary_json_never_panics(body in "\\{(\"(QueueUrl|Entries|Attributes|MessageAttributes|tags)\":[\\[\\]{}\":,a-z0-9]{0,20},?){0,6}\\}") {
            let _ = decoded(Method::POST, "/", &[("x-amz-target", "AmazonSQS.SendMessage")], body.as_bytes());
        }
    }
}

//! The front ends: for each protocol, how the configuration reads to it, and a function from a request to a response.

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use powerqueue_admission::{Admission, Counted};
use powerqueue_net::{BodyError, Request, Scheme};
use powerqueue_node::Node;
use powerqueue_sqs::errors::Kind;
use powerqueue_sqs::{Key, Keys, RequestContext, Sqs};

use crate::config::{Config, Mode};

/// Amazon SQS over a node; running message move tasks go on.
pub fn sqs(config: &Config, node: &Node, admission: &Admission) -> Sqs {
    let settings = match config.mode {
        Mode::Local => powerqueue_sqs::Config::local(),
        Mode::Public => powerqueue_sqs::Config::public(),
        Mode::Private => powerqueue_sqs::Config::private(keys(config)),
    };
    let most = config.limits.message_bytes.limit().map(|size| size.bytes());
    let most = most.and_then(|bytes| u32::try_from(bytes).ok());
    let sqs = Sqs::new(
        node.clone(),
        admission.clone(),
        powerqueue_sqs::Config {
            create_by_use: config.entities.create_by_use,
            max_message_bytes: most.map_or(settings.max_message_bytes, |most| {
                most.min(settings.max_message_bytes)
            }),
            ..settings
        },
    );
    sqs.resume();
    sqs
}

/// Each access key is an account of its own.
fn keys(config: &Config) -> Keys {
    Keys::new(config.auth.keys.iter().map(|(id, secret)| {
        let key = Key {
            secret: secret.clone(),
            tenant: id.clone(),
        };
        (id.clone(), key)
    }))
}

/// The largest body of a refused request that is read only to keep its connection.
const UNWANTED_BODY: u64 = 16 << 10;

/// One SQS request, judged before its body is read.
pub async fn answer_sqs(sqs: Sqs, admission: Admission, request: Request) -> Response<Full<Bytes>> {
    let Request {
        parts,
        body,
        client,
    } = request;
    let counted = counted(&parts);
    let _in_flight = match admission.request(client.address, counted) {
        Ok(slot) => slot,
        Err(refused) => {
            body.discard(UNWANTED_BODY).await;
            return Sqs::throttle(&parts, &refused).map(Full::new);
        }
    };
    let body = match body.collect().await {
        Ok(body) => body,
        Err(error) => return unread(&parts, &error),
    };
    let context = RequestContext {
        client: client.address,
        tls: client.scheme == Scheme::Https,
        // The serving loop has judged what the proxy says already.
        behind_proxy: false,
        counted,
    };
    sqs.call(parts, body, context).await.map(Full::new)
}

/// Whether a refusal counts against the client. A page of somebody else's that has a visitor's browser ask must not get
/// the visitor banned; browsers mark such requests (Fetch Metadata), and pages cannot remove the mark.
pub fn counted(parts: &http::request::Parts) -> Counted {
    match parts.headers.get("sec-fetch-site") {
        Some(site) if site == "cross-site" => Counted::No,
        _ => Counted::Yes,
    }
}

/// The answer to a request whose body was not read. SDKs know a slow or a broken one by its status alone.
fn unread(parts: &http::request::Parts, error: &BodyError) -> Response<Full<Bytes>> {
    let why = match error {
        BodyError::TooLarge { .. } => Kind::RequestEntityTooLarge,
        BodyError::Busy => Kind::ServiceUnavailable,
        BodyError::TooSlow | BodyError::Broken(_) => return error.response(),
    };
    Sqs::refuse(parts, why).map(Full::new)
}

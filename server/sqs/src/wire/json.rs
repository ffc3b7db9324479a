//! AWS JSON 1.0.

use serde_json::{Map, Value, json};

use super::action::Action;
use super::params::Params;
use super::reply::{QueryJson, Reply};
use crate::errors::{Error, Kind};

/// The action that `X-Amz-Target` names.
pub fn action(target: &[u8]) -> Result<&'static Action, Error> {
    let name = std::str::from_utf8(target)
        .ok()
        .and_then(|t| t.strip_prefix("AmazonSQS."))
        .unwrap_or_default();
    Action::named(name).ok_or(Error::of(Kind::InvalidAction))
}

/// The parameters in a body. The parser bounds the depth; the body's size bounds everything else.
pub fn params(body: &[u8]) -> Result<Params, Error> {
    if body.is_empty() {
        return Ok(Params::default());
    }
    let object: Map<String, Value> = serde_json::from_slice(body)
        .map_err(|_| Error::serialization("The body is not a JSON object."))?;
    Ok(Params(object))
}

/// The body of an answer.
pub fn body(outcome: &Result<Reply, Error>) -> String {
    let body = match outcome {
        Ok(reply) => serde_json::to_string(reply),
        Err(error) => serde_json::to_string(&json!({
            "__type": format!("com.amazonaws.sqs#{}", error.row().shape),
            "message": error.text(),
        })),
    };
    // Only a map with keys that are not strings could fail, and there is none.
    body.unwrap_or_default()
}

/// The body of an answer to a Query request that accepts JSON.
pub fn query_body(action: &str, outcome: &Result<Reply, Error>, request_id: &str) -> String {
    match outcome {
        Ok(reply) => {
            let result = serde_json::to_string(&QueryJson(reply)).unwrap_or_default();
            let result = if reply.empty {
                String::new()
            } else {
                format!("\"{action}Result\":{result},")
            };
            let metadata = format!("\"ResponseMetadata\":{{\"RequestId\":\"{request_id}\"}}");
            format!("{{\"{action}Response\":{{{result}{metadata}}}}}")
        }
        Err(error) => json!({
            "Error": {
                "Code": error.row().code,
                "Message": error.query_text(),
                "Type": error.row().fault.query(),
                "Detail": null,
            },
            "RequestId": request_id,
        })
        .to_string(),
    }
}

//! The front ends: one function a protocol, from a request to a response.

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use powerqueue_net::Request;

/// Amazon SQS.
pub async fn sqs(request: Request) -> Response<Full<Bytes>> {
    if let Err(error) = request.body.collect().await {
        return error.response();
    }
    let mut response = Response::new(Full::from("the SQS front end is not part of this build\n"));
    *response.status_mut() = StatusCode::NOT_IMPLEMENTED;
    response
}

//! AWS JSON: the action's name, a line feed, the body.
#![no_main]

use bytes::Bytes;
use http::Request;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let split = data.iter().position(|b| *b == b'\n').unwrap_or(0);
    let (action, body) = data.split_at(split);
    let target = [b"AmazonSQS.", action].concat();
    let request = Request::post("/").header("x-amz-target", target);
    let Ok(request) = request.body(()) else { return };
    let (parts, ()) = request.into_parts();
    let _ = powerqueue_sqs::wire::decode(&parts, &Bytes::copy_from_slice(body));
});

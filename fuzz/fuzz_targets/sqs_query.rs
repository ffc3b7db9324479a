//! Query: the URL's path and query, a line feed, the form.
#![no_main]

use bytes::Bytes;
use http::Request;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let split = data.iter().position(|b| *b == b'\n').unwrap_or(data.len());
    let (uri, form) = data.split_at(split);
    let Ok(request) = Request::post(uri).body(()) else {
        return;
    };
    let (parts, ()) = request.into_parts();
    let form = form.strip_prefix(b"\n").unwrap_or(form);
    let _ = powerqueue_sqs::wire::decode(&parts, &Bytes::copy_from_slice(form));
});

//! Signatures, in lines: the `Authorization` header, the date, the URL, the body.
#![no_main]

use bytes::Bytes;
use http::Request;
use libfuzzer_sys::fuzz_target;
use powerqueue_sqs::sigv4::Signature;

fuzz_target!(|data: &[u8]| {
    let mut lines = data.splitn(4, |b| *b == b'\n');
    let mut line = || lines.next().unwrap_or_default();
    let (authorization, date, uri, body) = (line(), line(), line(), line());
    let mut request = Request::post(uri).header("host", "localhost");
    if !authorization.is_empty() {
        request = request.header("authorization", authorization).header("x-amz-date", date);
    }
    let Ok(request) = request.body(()) else { return };
    let (parts, ()) = request.into_parts();
    if let Ok(Some(signature)) = Signature::find(&parts) {
        let body = Bytes::copy_from_slice(body);
        assert!(signature.verify(&parts, &body, "secret", 1_440_938_160).is_err(), "forged");
    }
});

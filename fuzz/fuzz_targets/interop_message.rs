//! Stored messages: what decodes encodes to what decodes alike.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use powerqueue_interop::Message;

fuzz_target!(|data: &[u8]| {
    if let Ok(message) = Message::decode(Bytes::copy_from_slice(data)) {
        let again = Message::decode(message.encode());
        assert_eq!(again.ok().as_ref(), Some(&message));
    }
});

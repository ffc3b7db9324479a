//! How SQS reads and writes the canonical message.
//!
//! SQS bodies are text. Bytes cross as base64 under the mark `x-pq-body-encoding`, in both directions: a body sent
//! with the mark is stored as the bytes, and bytes are read with it.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use crate::{Attribute, Body, Kind, Message, Protocol};

/// Attribute names with this prefix are the service's own.
pub const RESERVED_PREFIX: &str = "x-pq-";
/// The attribute that says how a body crossed.
pub const BODY_ENCODING: &str = "x-pq-body-encoding";
/// Its value for bytes.
pub const BASE64: &str = "base64";

/// Whether SQS can carry that text in a body or an attribute: tab, line feed, carriage return, U+0020 to U+D7FF, U+E000 to
/// U+FFFD, and what is above U+FFFF.
pub fn is_allowed(text: &str) -> bool {
    // Without a branch for each byte, so that many are compared at once.
    let controls = text.bytes().fold(false, |found, byte| {
        found | (byte < 0x20) & (byte != b'\t') & (byte != b'\n') & (byte != b'\r')
    });
    !controls && (text.is_ascii() || !text.contains(['\u{FFFE}', '\u{FFFF}']))
}

/// The body that an SQS reader gets, and the mark on it.
pub fn read_body(message: &Message) -> (Cow<'_, str>, Option<Attribute>) {
    match &message.body {
        Body::Text(text) if is_allowed(text) => (Cow::Borrowed(text), None),
        Body::Text(text) => marked(text.as_bytes()),
        // What SQS itself sent as bytes is read back as it was sent, even where the bytes happen to be text.
        Body::Binary(bytes) if message.origin == Protocol::Sqs => marked(bytes),
        Body::Binary(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) if is_allowed(text) => (Cow::Borrowed(text), None),
            _ => marked(bytes),
        },
    }
}

/// The bytes of a body that was sent under the mark. `None` if it is not base64 in its one canonical form, which
/// alone reads back as it was sent.
pub fn write_body(encoded: &str) -> Option<Body> {
    STANDARD
        .decode(encoded)
        .ok()
        .map(|b| Body::Binary(Bytes::from(b)))
}

fn marked(bytes: &[u8]) -> (Cow<'static, str>, Option<Attribute>) {
    let mark = Attribute {
        name: BODY_ENCODING.to_owned(),
        kind: Kind::Text,
        label: None,
        value: Bytes::from_static(BASE64.as_bytes()),
    };
    (Cow::Owned(STANDARD.encode(bytes)), Some(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(origin: Protocol, body: Body) -> (String, bool) {
        let message = Message::new(origin, 0, body);
        let (body, mark) = read_body(&message);
        (body.into_owned(), mark.is_some())
    }

    proptest::proptest! {
        #[test]
        fn texts_are_carried_whose_every_character_is_in_the_ranges_of_the_documentation(
            text in r"[\t\n\r -~\u{7F}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]{0,40}",
            other: char,
        ) {
            proptest::prop_assert!(is_allowed(&text));
            let known = matches!(other, '\t' | '\n' | '\r' | '\u{20}'..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..);
            proptest::prop_assert_eq!(is_allowed(&format!("{text}{other}{text}")), known);
        }
    }

    #[test]
    fn characters_outside_the_ranges_are_not_carried() {
        for control in ('\0'..' ').chain(['\u{FFFE}', '\u{FFFF}']) {
            assert_eq!(
                is_allowed(&format!("ä{control}b")),
                "\t\n\r".contains(control)
            );
        }
    }

    #[test]
    fn text_reads_as_it_is() {
        assert_eq!(
            read(Protocol::Sqs, Body::Text("a\r\n".into())),
            ("a\r\n".into(), false)
        );
        let bytes = Body::Binary(Bytes::from_static(b"plain"));
        assert_eq!(read(Protocol::Amqp091, bytes), ("plain".into(), false));
    }

    #[test]
    fn bytes_read_as_marked_base64() {
        let bytes = Body::Binary(Bytes::from_static(b"\xff\x00"));
        assert_eq!(read(Protocol::Amqp091, bytes), ("/wA=".into(), true));
        let control = Body::Text("\u{1}".into());
        assert_eq!(read(Protocol::Amqp091, control), ("AQ==".into(), true));
    }

    #[test]
    fn bytes_sent_through_sqs_read_back_as_they_were_sent() {
        let body = write_body("cGxhaW4=").unwrap();
        assert_eq!(body, Body::Binary(Bytes::from_static(b"plain")));
        assert_eq!(read(Protocol::Sqs, body), ("cGxhaW4=".into(), true));
        assert_eq!(write_body("cGxhaW4"), None);
        assert_eq!(write_body("cGxhaW5="), None);
    }
}

//! The canonical encoding. Hand-written, because it is a disk format: what is written today must be readable for
//! as long as a message may live, and a reader must survive any bytes at all.
//!
//! ```text
//! message   := version:u8 origin:u8 id:u128le body-kind:u8 body:bytes properties attributes
//! properties:= count:varint { tag:varint value:bytes }
//! attributes:= count:varint { name:bytes kind:u8 label:bytes value:bytes }   (an empty label is none)
//! bytes     := length:varint byte*
//! ```
//!
//! Properties are optional and typed by their tag. A reader skips the tags that it does not know, so that an
//! interface can add its own (priority, reply-to, content type) without a new version.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::message::{Attribute, Body, Kind, Message, Protocol};

/// Why bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// They end before the message does.
    #[error("the message is cut short")]
    Short,
    /// A version, protocol or kind that this release does not know.
    #[error("unknown {0}")]
    Unknown(&'static str),
    /// Text that is not UTF-8.
    #[error("text is not UTF-8")]
    NotText,
    /// Bytes after the message's end.
    #[error("bytes after the end")]
    Trailing,
    /// A length or count beyond its bound.
    #[error("a length is out of bounds")]
    OutOfBounds,
}

const VERSION: u8 = 1;
const BODY_TEXT: u8 = 1;
const BODY_BINARY: u8 = 2;

/// More attributes than any interface lets a sender attach.
const MAX_ATTRIBUTES: u64 = 1024;
const MAX_PROPERTIES: u64 = 256;

const TAG_GROUP: u64 = 1;
const TAG_DEDUP_ID: u64 = 2;
const TAG_SENDER: u64 = 3;
const TAG_TRACE_HEADER: u64 = 4;

impl Message {
    /// The message in the canonical encoding.
    pub fn encode(&self) -> Bytes {
        let (kind, body) = match &self.body {
            Body::Text(text) => (BODY_TEXT, text.as_bytes()),
            Body::Binary(bytes) => (BODY_BINARY, bytes.as_ref()),
        };
        let mut out = BytesMut::with_capacity(64 + body.len());
        out.put_u8(VERSION);
        out.put_u8(self.origin as u8);
        out.put_u128_le(self.id);
        out.put_u8(kind);
        put_bytes(&mut out, body);
        self.put_properties(&mut out);
        put_varint(&mut out, self.attributes.len() as u64);
        for attribute in &self.attributes {
            put_bytes(&mut out, attribute.name.as_bytes());
            out.put_u8(attribute.kind as u8);
            put_bytes(
                &mut out,
                attribute.label.as_deref().unwrap_or("").as_bytes(),
            );
            put_bytes(&mut out, &attribute.value);
        }
        out.freeze()
    }

    fn put_properties(&self, out: &mut BytesMut) {
        let properties = [
            (TAG_GROUP, &self.group),
            (TAG_DEDUP_ID, &self.dedup_id),
            (TAG_SENDER, &self.sender),
            (TAG_TRACE_HEADER, &self.trace_header),
        ];
        put_varint(
            out,
            properties.iter().filter(|(_, p)| p.is_some()).count() as u64,
        );
        for (tag, value) in properties {
            if let Some(value) = value {
                put_varint(out, tag);
                put_bytes(out, value.as_bytes());
            }
        }
    }

    /// Reads a message. Binary values share the input's memory.
    pub fn decode(mut input: Bytes) -> Result<Self, DecodeError> {
        let input = &mut input;
        if get_u8(input)? != VERSION {
            return Err(DecodeError::Unknown("version"));
        }
        let origin = Protocol::from_number(get_u8(input)?).ok_or(DecodeError::Unknown("origin"))?;
        if input.remaining() < 16 {
            return Err(DecodeError::Short);
        }
        let id = input.get_u128_le();
        let body = match get_u8(input)? {
            BODY_TEXT => Body::Text(get_text(input)?),
            BODY_BINARY => Body::Binary(get_bytes(input)?),
            _ => return Err(DecodeError::Unknown("body")),
        };
        let mut message = Self::new(origin, id, body);
        message.get_properties(input)?;
        message.get_attributes(input)?;
        if input.has_remaining() {
            return Err(DecodeError::Trailing);
        }
        Ok(message)
    }

    fn get_properties(&mut self, input: &mut Bytes) -> Result<(), DecodeError> {
        for _ in 0..get_count(input, MAX_PROPERTIES)? {
            let tag = get_varint(input)?;
            let slot = match tag {
                TAG_GROUP => &mut self.group,
                TAG_DEDUP_ID => &mut self.dedup_id,
                TAG_SENDER => &mut self.sender,
                TAG_TRACE_HEADER => &mut self.trace_header,
                _ => {
                    get_bytes(input)?;
                    continue;
                }
            };
            *slot = Some(get_text(input)?);
        }
        Ok(())
    }

    fn get_attributes(&mut self, input: &mut Bytes) -> Result<(), DecodeError> {
        for _ in 0..get_count(input, MAX_ATTRIBUTES)? {
            let name = get_text(input)?;
            let kind = Kind::from_number(get_u8(input)?).ok_or(DecodeError::Unknown("kind"))?;
            let label = Some(get_text(input)?).filter(|l| !l.is_empty());
            let value = get_bytes(input)?;
            if kind.is_text() && std::str::from_utf8(&value).is_err() {
                return Err(DecodeError::NotText);
            }
            self.attributes.push(Attribute {
                name,
                kind,
                label,
                value,
            });
        }
        Ok(())
    }
}

pub(crate) fn put_varint(out: &mut BytesMut, mut value: u64) {
    while value >= 0x80 {
        out.put_u8((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

pub(crate) fn put_bytes(out: &mut BytesMut, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.put_slice(bytes);
}

pub(crate) fn get_u8(input: &mut Bytes) -> Result<u8, DecodeError> {
    input.try_get_u8().map_err(|_| DecodeError::Short)
}

pub(crate) fn get_varint(input: &mut Bytes) -> Result<u64, DecodeError> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = get_u8(input)?;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return Err(DecodeError::OutOfBounds);
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(DecodeError::OutOfBounds)
}

pub(crate) fn get_count(input: &mut Bytes, max: u64) -> Result<u64, DecodeError> {
    let count = get_varint(input)?;
    if count > max {
        return Err(DecodeError::OutOfBounds);
    }
    Ok(count)
}

pub(crate) fn get_bytes(input: &mut Bytes) -> Result<Bytes, DecodeError> {
    let len = usize::try_from(get_varint(input)?).map_err(|_| DecodeError::Short)?;
    if len > input.remaining() {
        return Err(DecodeError::Short);
    }
    Ok(input.split_to(len))
}

fn get_text(input: &mut Bytes) -> Result<String, DecodeError> {
    String::from_utf8(get_bytes(input)?.into()).map_err(|_| DecodeError::NotText)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn attribute() -> impl Strategy<Value = Attribute> {
        let text = (
            ".{0,12}",
            prop_oneof![Just(Kind::Text), Just(Kind::Number)],
            ".{0,8}",
            ".{0,40}",
        )
            .prop_map(|(name, kind, label, value)| Attribute {
                name,
                kind,
                label: Some(label).filter(|l| !l.is_empty()),
                value: Bytes::from(value),
            });
        let binary =
            (".{0,12}", proptest::collection::vec(any::<u8>(), 0..40)).prop_map(|(name, value)| {
                Attribute {
                    name,
                    kind: Kind::Binary,
                    label: None,
                    value: Bytes::from(value),
                }
            });
        prop_oneof![text, binary]
    }

    fn message() -> impl Strategy<Value = Message> {
        let body = prop_oneof![
            ".{0,200}".prop_map(Body::Text),
            proptest::collection::vec(any::<u8>(), 0..200)
                .prop_map(|b| Body::Binary(Bytes::from(b))),
        ];
        let options = proptest::array::uniform4(proptest::option::of(".{0,20}"));
        (
            any::<u128>(),
            body,
            options,
            proptest::collection::vec(attribute(), 0..10),
        )
            .prop_map(
                |(id, body, [group, dedup_id, sender, trace_header], attributes)| Message {
                    origin: Protocol::Sqs,
                    id,
                    body,
                    attributes,
                    group,
                    dedup_id,
                    sender,
                    trace_header,
                },
            )
    }

    proptest! {
        #[test]
        fn what_was_encoded_decodes_to_itself(message in message()) {
            prop_assert_eq!(Message::decode(message.encode()), Ok(message));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Message::decode(Bytes::from(bytes));
        }

        #[test]
        fn a_damaged_message_never_panics(message in message(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut bytes = message.encode().to_vec();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let _ = Message::decode(Bytes::from(bytes));
        }

        #[test]
        fn a_message_cut_short_is_refused(message in message(), at in any::<prop::sample::Index>()) {
            let bytes = message.encode();
            let cut = bytes.slice(..at.index(bytes.len()));
            prop_assert!(Message::decode(cut).is_err());
        }
    }

    #[test]
    fn unknown_properties_are_skipped() {
        let plain = Message::new(Protocol::Sqs, 7, Body::Text("b".into()));
        let mut bytes = BytesMut::new();
        bytes.put_u8(VERSION);
        bytes.put_u8(Protocol::Sqs as u8);
        bytes.put_u128_le(7);
        bytes.put_u8(BODY_TEXT);
        put_bytes(&mut bytes, b"b");
        put_varint(&mut bytes, 1);
        put_varint(&mut bytes, 4000);
        put_bytes(&mut bytes, b"\xff\xfe");
        put_varint(&mut bytes, 0);
        assert_eq!(Message::decode(bytes.freeze()), Ok(plain));
    }

    #[test]
    fn a_carriage_return_survives() {
        let message = Message::new(Protocol::Sqs, 1, Body::Text("a\r\nb\r".into()));
        assert_eq!(Message::decode(message.encode()), Ok(message));
    }
}

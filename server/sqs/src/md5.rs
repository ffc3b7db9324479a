//! The MD5 digests that SDKs check: of a body, and of attributes by AWS's own algorithm.

use md5::{Digest, Md5};
use powerqueue_interop::{Attribute, Kind};

/// The digest of a body.
pub fn of_text(text: &str) -> String {
    hex(&Md5::digest(text))
}

/// The digest of attributes; `None` of none. They are taken in the order of their names: length and name, length
/// and full data type, a byte for the transport type, length and value, each length four bytes, big end first.
pub fn of_attributes<'a>(attributes: impl IntoIterator<Item = &'a Attribute>) -> Option<String> {
    let mut sorted: Vec<_> = attributes.into_iter().collect();
    if sorted.is_empty() {
        return None;
    }
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    let mut md5 = Md5::new();
    for attribute in sorted {
        part(&mut md5, attribute.name.as_bytes());
        part(&mut md5, crate::message::data_type(attribute).as_bytes());
        md5.update([if attribute.kind == Kind::Binary { 2 } else { 1 }]);
        part(&mut md5, &attribute.value);
    }
    Some(hex(&md5.finalize()))
}

fn part(md5: &mut Md5, bytes: &[u8]) {
    // A request's size bounds every length far below this.
    md5.update(u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
    md5.update(bytes);
}

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|b| [b >> 4, b & 15]);
    digits.map(|d| char::from(DIGITS[usize::from(d)])).collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn attribute(name: &str, kind: Kind, value: &'static [u8]) -> Attribute {
        Attribute {
            name: name.into(),
            kind,
            label: None,
            value: Bytes::from_static(value),
        }
    }

    // The expected digests are AWS's own, recorded from the real service.
    #[test]
    fn digests_are_those_of_the_real_service() {
        assert_eq!(of_text("message"), "78e731027d8fd50ed642340b7c9a63b3");
        let timestamp = attribute("timestamp", Kind::Number, b"1493147359900");
        assert_eq!(
            of_attributes([&timestamp]).unwrap(),
            "235c5c510d26fb653d073faed50ae77c"
        );
        let trace = b"Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";
        let trace = attribute("AWSTraceHeader", Kind::Text, trace);
        assert_eq!(
            of_attributes([&trace]).unwrap(),
            "5ae4d5d7636402d80f4eb6d213245a88"
        );
        let binary = b"traceparent\x1e00-774062d6c37081a5a0b9b5b88e30627c-2d2482211f6489da-01";
        let binary = attribute("attr1", Kind::Binary, binary);
        assert_eq!(
            of_attributes([&binary]).unwrap(),
            "8cbe4db156db8a94db8b801b7addb984"
        );
        let three = [
            attribute("Help.Me", Kind::Text, b"Me"),
            attribute("Hello", Kind::Text, b"There"),
            attribute("General", Kind::Text, b"Kenobi"),
        ];
        assert_eq!(
            of_attributes(&three).unwrap(),
            "4c360f3fdafd970e05fae2f149d997f5"
        );
        assert_eq!(
            of_attributes(&three[..2]).unwrap(),
            "83fee93c1bcd8b9a5a923ffacdc636c7"
        );
        assert_eq!(of_attributes(&[]), None);
    }
}

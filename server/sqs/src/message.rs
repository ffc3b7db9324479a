//! Messages between SQS's form and the canonical one: what an attribute may be, what a message counts, and how SQS
//! reads it back.

use bytes::Bytes;
use powerqueue_interop::sqs::{BASE64, BODY_ENCODING, RESERVED_PREFIX, is_allowed, write_body};
use powerqueue_interop::{Attribute, Body, Kind as ValueKind, Message, Protocol};

use crate::errors::{Error, Kind};
use crate::wire::{AttributeValue, Outgoing};

const MAX_ATTRIBUTES: usize = 10;
const MAX_NAME_CHARS: usize = 256;
const MAX_TYPE_BYTES: usize = 256;
/// SQS takes numbers of 38 digits; this leaves room for a sign, a point and an exponent.
const MAX_NUMBER_BYTES: usize = 64;

/// A message that passed every check which needs no queue.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The message in the canonical form, without what its queue decides.
    pub message: Message,
    /// What it counts: the body as it was sent, and names, types and values of its attributes.
    pub charge: u32,
    /// The digest of its body.
    pub body_md5: String,
    /// The digest of its attributes.
    pub attributes_md5: Option<String>,
    /// The digest of its system attributes.
    pub system_md5: Option<String>,
}

impl Checked {
    /// Checks what a client sends. `trace` is the tracing header of the request, for a message without its own;
    /// `by_content` says that its body is its deduplication id where it brings none.
    pub fn new(
        outgoing: Outgoing,
        id: u128,
        sender: &str,
        trace: Option<&str>,
        by_content: bool,
    ) -> Result<Self, Error> {
        let Outgoing {
            body,
            attributes,
            system_attributes,
            dedup_id,
            group,
            ..
        } = outgoing;
        if !is_allowed(&body) {
            return Err(Error::of(Kind::InvalidMessageContents));
        }
        if attributes.len() > MAX_ATTRIBUTES {
            let text = format!(
                "Number of message attributes [{}] exceeds the allowed maximum [10].",
                attributes.len()
            );
            return Err(Error::new(Kind::InvalidParameterValue, text));
        }
        let attributes = attributes
            .into_iter()
            .map(|(name, value)| user_attribute(name, value));
        let mut attributes = attributes.collect::<Result<Vec<_>, _>>()?;
        let system = system_attributes
            .into_iter()
            .map(|(name, value)| system_attribute(name, value));
        let system = system.collect::<Result<Vec<_>, _>>()?;
        let charge = charge(&body, &attributes);
        let (body_md5, attributes_md5) = (
            crate::md5::of_text(&body),
            crate::md5::of_attributes(&attributes),
        );
        let dedup_id = dedup_id.or_else(|| by_content.then(|| content_id(&body)));
        let body = canonical_body(body, &mut attributes)?;
        let mut message = Message::new(Protocol::Sqs, id, body);
        message.attributes = attributes;
        message.group = group;
        message.dedup_id = dedup_id;
        message.sender = Some(sender.to_owned());
        message.trace_header = match system.first() {
            Some(own) => Some(String::from_utf8_lossy(&own.value).into_owned()),
            None => trace.map(str::to_owned),
        };
        let system_md5 = crate::md5::of_attributes(&system);
        Ok(Self {
            message,
            charge,
            body_md5,
            attributes_md5,
            system_md5,
        })
    }
}

/// The deduplication id that a body gives.
fn content_id(body: &str) -> String {
    use sha2::{Digest, Sha256};
    crate::md5::hex(&Sha256::digest(body))
}

/// What a message counts against the size of its queue, in bytes.
fn charge(body: &str, attributes: &[Attribute]) -> u32 {
    let attributes = attributes
        .iter()
        .map(|a| a.name.len() + data_type(a).len() + a.value.len());
    u32::try_from(body.len() + attributes.sum::<usize>()).unwrap_or(u32::MAX)
}

/// The body that is stored: the decoded bytes, if it is marked as base64. The mark is not kept, the reader makes it
/// anew.
fn canonical_body(body: String, attributes: &mut Vec<Attribute>) -> Result<Body, Error> {
    let Some(at) = attributes.iter().position(|a| a.name == BODY_ENCODING) else {
        return Ok(Body::Text(body));
    };
    attributes.remove(at);
    write_body(&body).ok_or_else(|| {
        let text =
            format!("The message body is not {BASE64}, as the attribute {BODY_ENCODING} says.");
        Error::new(Kind::InvalidParameterValue, text)
    })
}

/// The data type as SQS shows it: `Number`, `String.json`.
pub fn data_type(attribute: &Attribute) -> String {
    let base = match attribute.kind {
        ValueKind::Text => "String",
        ValueKind::Number => "Number",
        ValueKind::Binary => "Binary",
    };
    match &attribute.label {
        Some(label) => format!("{base}.{label}"),
        None => base.to_owned(),
    }
}

fn user_attribute(name: String, value: AttributeValue) -> Result<Attribute, Error> {
    check_name(&name)?;
    let attribute = typed(name, value, "user")?;
    if attribute.name.starts_with(RESERVED_PREFIX) {
        let is_mark = attribute.name == BODY_ENCODING
            && data_type(&attribute) == "String"
            && attribute.value == BASE64.as_bytes();
        if !is_mark {
            let text =
                format!("Message attribute names beginning with '{RESERVED_PREFIX}' are reserved.");
            return Err(Error::new(Kind::InvalidParameterValue, text));
        }
    }
    Ok(attribute)
}

fn system_attribute(name: String, value: AttributeValue) -> Result<Attribute, Error> {
    let refused = |name: &str| {
        let shown: String = name.chars().take(100).collect();
        let text = format!("Message system attribute name '{shown}' is invalid.");
        Error::new(Kind::InvalidParameterValue, text)
    };
    if name != "AWSTraceHeader" {
        return Err(refused(&name));
    }
    let attribute = typed(name, value, "system")?;
    if data_type(&attribute) != "String" {
        return Err(refused(&attribute.name));
    }
    Ok(attribute)
}

fn check_name(name: &str) -> Result<(), Error> {
    let refused = |text: &'static str| Err(Error::new(Kind::InvalidParameterValue, text));
    if name.chars().count() > MAX_NAME_CHARS {
        return refused("Message (user) attribute names must be shorter than 256 Bytes");
    }
    let allowed = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || !name.chars().all(allowed) {
        return refused(
            "Message (user) attributes name can only contain upper and lower score characters, digits, periods, \
             hyphens and underscores. ",
        );
    }
    let lower = name.to_lowercase();
    let reserved = lower.starts_with("aws.") || lower.starts_with("amazon.");
    if reserved || name.starts_with('.') || name.ends_with('.') || name.contains("..") {
        return refused(
            "You can't use message attribute names beginning with 'AWS.' or 'Amazon.'. These strings are reserved \
             for internal use. Additionally, they cannot start or end with '.'.",
        );
    }
    Ok(())
}

/// The typed value of an attribute; `whose` is `user` or `system`, for the words of a refusal.
fn typed(name: String, value: AttributeValue, whose: &str) -> Result<Attribute, Error> {
    let refused = |text: String| Error::new(Kind::InvalidParameterValue, text);
    if value.has_lists {
        return Err(Error::new(
            Kind::UnsupportedOperation,
            "Message attribute list values are not supported.",
        ));
    }
    let data_type = value.data_type.filter(|t| !t.is_empty());
    let data_type = data_type.ok_or_else(|| {
        refused(format!(
            "The message ({whose}) attribute '{name}' must contain a data type."
        ))
    })?;
    if data_type.len() > MAX_TYPE_BYTES {
        return Err(refused(
            "Message (user) attribute types must be shorter than 256 Bytes".into(),
        ));
    }
    let (base, label) = match data_type.split_once('.') {
        Some((_, "")) => ("", None),
        Some((base, label)) => (base, Some(label.to_owned())),
        None => (data_type.as_str(), None),
    };
    let kind = match base {
        "String" => ValueKind::Text,
        "Number" => ValueKind::Number,
        "Binary" => ValueKind::Binary,
        _ => {
            let text = format!(
                "The type of message ({whose}) attribute '{name}' is invalid. You must use only the following \
                 supported type prefixes: Binary, Number, String."
            );
            return Err(refused(text));
        }
    };
    let bytes = match kind {
        ValueKind::Binary => value.binary.map(Bytes::from),
        _ => value.string.map(Bytes::from),
    };
    let shown = if kind.is_text() { "String" } else { "Binary" };
    let bytes = bytes.filter(|b| !b.is_empty()).ok_or_else(|| {
        refused(format!(
            "Message ({whose}) attribute '{name}' must contain a non-empty value of type '{shown}'."
        ))
    })?;
    let text = std::str::from_utf8(&bytes).unwrap_or_default();
    if kind.is_text() && !is_allowed(text) {
        return Err(refused(format!(
            "Message ({whose}) attribute '{name}' has invalid characters. {}",
            Error::of(Kind::InvalidMessageContents).text()
        )));
    }
    if kind == ValueKind::Number && !is_number(text) {
        return Err(refused(format!(
            "Can't cast the value of message ({whose}) attribute '{name}' to a number."
        )));
    }
    Ok(Attribute {
        name,
        kind,
        label,
        value: bytes,
    })
}

/// A decimal number with an optional fraction and exponent. It is kept as text, to the letter.
fn is_number(text: &str) -> bool {
    let text = text.trim();
    let starts = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.'));
    text.len() <= MAX_NUMBER_BYTES && starts && text.parse::<f64>().is_ok_and(f64::is_finite)
}

/// Which attributes of a message a receiver wants.
#[derive(Debug)]
pub struct Wanted<'a>(&'a [String]);

impl<'a> Wanted<'a> {
    /// By the names of a request: exact, or a prefix that ends in `.*`, or all.
    pub fn new(names: &'a [String]) -> Self {
        Self(names)
    }

    /// Whether the attribute of that name is wanted. Names that cannot exist match nothing.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|wanted| match wanted.as_str() {
            "All" | "*" | ".*" => true,
            wanted => match wanted.strip_suffix(".*") {
                Some(prefix) => name.starts_with(prefix),
                None => name == wanted,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn value(data_type: &str, text: &str) -> AttributeValue {
        AttributeValue {
            data_type: Some(data_type.into()),
            string: Some(text.into()),
            ..Default::default()
        }
    }

    fn outgoing(body: &str, attributes: &[(&str, AttributeValue)]) -> Outgoing {
        Outgoing {
            body: body.into(),
            delay: None,
            attributes: attributes
                .iter()
                .map(|(n, v)| ((*n).to_owned(), v.clone()))
                .collect(),
            system_attributes: BTreeMap::new(),
            dedup_id: None,
            group: None,
        }
    }

    fn check(body: &str, attributes: &[(&str, AttributeValue)]) -> Result<Checked, Error> {
        Checked::new(outgoing(body, attributes), 1, "000000000001", None, false)
    }

    #[test]
    fn a_message_counts_its_body_and_names_types_and_values() {
        assert_eq!(
            check("abc", &[("k", value("String", "x"))]).unwrap().charge,
            3 + 1 + 6 + 1
        );
    }

    #[test]
    fn what_sqs_cannot_carry_is_refused() {
        assert_eq!(
            check("\u{1}", &[]).unwrap_err().kind,
            Kind::InvalidMessageContents
        );
        assert_eq!(
            check("\u{ffff}", &[]).unwrap_err().kind,
            Kind::InvalidMessageContents
        );
        let long_name = "L".repeat(257);
        let long_type = format!("Number.{}", "L".repeat(256));
        let cases = [
            ("aWs.x", value("String", "v")),
            ("AMAZON.x", value("String", "v")),
            (".x", value("String", "v")),
            ("x.", value("String", "v")),
            ("a§b", value("String", "v")),
            ("a!b", value("String", "v")),
            ("", value("String", "v")),
            (&long_name, value("String", "v")),
            ("a", value("Invalid", "v")),
            ("a", value("String.", "v")),
            ("a", value(&long_type, "1")),
            ("a", value("String", "\u{8}")),
            ("a", value("Number", "one")),
            ("a", value("Number", "inf")),
            ("a", value("Binary", "v")),
            ("a", AttributeValue::default()),
            ("x-pq-anything", value("String", "v")),
            ("x-pq-body-encoding", value("String", "json")),
        ];
        for (name, value) in cases {
            let error = check("b", &[(name, value.clone())]).unwrap_err();
            assert_eq!(
                error.row().code,
                "InvalidParameterValue",
                "{name} {value:?}"
            );
        }
        assert!(check("b", &[("attr.1øßä", value("String.custom", "v"))]).is_ok());
        let eleven: Vec<_> = (0..11)
            .map(|n| (format!("a{n}"), value("Number", "-1.5e3")))
            .collect();
        let eleven: Vec<_> = eleven
            .iter()
            .map(|(n, v)| (n.as_str(), v.clone()))
            .collect();
        assert!(check("b", &eleven).is_err());
        assert!(check("b", &eleven[..10]).is_ok());
    }

    #[test]
    fn an_empty_value_is_named() {
        let error = check("b", &[("ErrorDetails", value("String", ""))]).unwrap_err();
        assert_eq!(
            error.text(),
            "Message (user) attribute 'ErrorDetails' must contain a non-empty value of type 'String'."
        );
    }

    #[test]
    fn a_marked_body_is_stored_as_its_bytes_and_read_back_as_it_was_sent() {
        let mark = ("x-pq-body-encoding", value("String", "base64"));
        let checked = check("/wA=", std::slice::from_ref(&mark)).unwrap();
        assert_eq!(
            checked.message.body,
            Body::Binary(Bytes::from_static(b"\xff\x00"))
        );
        assert!(checked.message.attributes.is_empty());
        assert_eq!(checked.body_md5, crate::md5::of_text("/wA="));
        assert!(check("not base64", &[mark]).is_err());
    }

    #[test]
    fn a_type_label_survives() {
        let checked = check("b", &[("a", value("Number.float", "1.50"))]).unwrap();
        let attribute = &checked.message.attributes[0];
        assert_eq!(
            (data_type(attribute).as_str(), &attribute.value[..]),
            ("Number.float", &b"1.50"[..])
        );
    }

    #[test]
    fn wanted_names_are_exact_or_prefixes() {
        let wants = |names: &[&str], name: &str| {
            let names: Vec<_> = names.iter().map(|n| (*n).to_owned()).collect();
            Wanted::new(&names).has(name)
        };
        for all in ["All", "*", ".*"] {
            assert!(wants(&[all], "Hello"));
        }
        assert!(
            wants(&["Hel.*"], "Hello")
                && wants(&["Hel.*"], "Help.Me")
                && !wants(&["Hel.*"], "General")
        );
        assert!(
            !wants(&["Foo", "Help"], "Help.Me")
                && !wants(&["AWS.", "..foo"], "Hello")
                && !wants(&[], "Hello")
        );
    }
}

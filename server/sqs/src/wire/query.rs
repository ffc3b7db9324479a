//! The Query protocol's requests: form-encoded parameters whose dotted names spell a structure.
//!
//! `Attribute.1.Name=DelaySeconds&Attribute.1.Value=5` becomes `{"Attributes": {"DelaySeconds": "5"}}`, so that both
//! protocols are read by the same code.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::params::Params;
use crate::errors::{Error, Kind};

/// More parameters than ten messages with ten attributes each need, ten times over.
const MAX_PARAMETERS: usize = 5_000;
/// `SendMessageBatchRequestEntry.1.MessageAttribute.1.Value.StringListValue.1` has seven parts.
const MAX_PARTS: usize = 8;

/// A parameter and how the Query protocol spells it.
pub struct Field {
    /// Its name in the JSON protocol.
    pub name: &'static str,
    /// Its shape.
    pub shape: Shape,
}

/// How a parameter is spelt. Lists and maps are flattened: `Tag.1`, `Tag.2`.
pub enum Shape {
    /// `Name=value`.
    Scalar,
    /// `Tag.1=value`, under any of these tags.
    List(&'static [&'static str]),
    /// `Tag.1.Key=k&Tag.1.Value=v`.
    Map {
        /// The tags it goes by.
        tags: &'static [&'static str],
        /// What the key is called; the value is `Value`.
        key: &'static str,
    },
    /// `Tag.1.Name=k&Tag.1.Value.Field=v`.
    StructMap {
        /// The tag.
        tag: &'static str,
        /// The structure's fields.
        fields: &'static [Field],
    },
    /// `Tag.1.Field=value`.
    Structs {
        /// The tag.
        tag: &'static str,
        /// The structure's fields.
        fields: &'static [Field],
    },
}

/// Form-encoded parameters by name, decoded strictly: a broken escape, bytes that are not UTF-8 or a name given
/// twice is an error, never a guess.
pub fn parse_form(form: &[u8]) -> Result<BTreeMap<String, String>, Error> {
    let mut parameters = BTreeMap::new();
    for pair in form.split(|b| *b == b'&').filter(|pair| !pair.is_empty()) {
        let mut halves = pair.splitn(2, |b| *b == b'=');
        let name = unescape(halves.next().unwrap_or_default())?;
        let value = unescape(halves.next().unwrap_or_default())?;
        if parameters.len() >= MAX_PARAMETERS {
            return Err(Error::new(
                Kind::MalformedQueryString,
                "The query string has too many parameters.",
            ));
        }
        if parameters.insert(name, value).is_some() {
            return Err(given_twice());
        }
    }
    Ok(parameters)
}

/// Adds parameters from another part of the same request.
pub fn merge(
    parameters: &mut BTreeMap<String, String>,
    more: BTreeMap<String, String>,
) -> Result<(), Error> {
    for (name, value) in more {
        if parameters.insert(name, value).is_some() {
            return Err(given_twice());
        }
    }
    Ok(())
}

fn given_twice() -> Error {
    Error::new(
        Kind::InvalidQueryParameter,
        "A parameter occurs more than once.",
    )
}

/// One percent-encoded piece, with `+` for a space.
pub fn unescape(piece: &[u8]) -> Result<String, Error> {
    let malformed = || {
        Error::new(
            Kind::MalformedQueryString,
            "The query string contains a syntax error.",
        )
    };
    let mut out = Vec::with_capacity(piece.len());
    let mut rest = piece.iter();
    while let Some(byte) = rest.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => match (
                rest.next().and_then(|b| hex(*b)),
                rest.next().and_then(|b| hex(*b)),
            ) {
                (Some(high), Some(low)) => high << 4 | low,
                _ => return Err(malformed()),
            },
            other => *other,
        });
    }
    String::from_utf8(out).map_err(|_| malformed())
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|d| u8::try_from(d).ok())
}

/// The parameters of an action with these fields.
pub fn lower(parameters: BTreeMap<String, String>, fields: &[Field]) -> Result<Params, Error> {
    let mut root = Tree::default();
    for (name, value) in parameters {
        root.insert(&name, value)?;
    }
    Ok(Params(root.structure(fields)))
}

/// The dotted names as a tree. Its depth is bounded by [`MAX_PARTS`].
#[derive(Default)]
struct Tree {
    value: Option<String>,
    children: BTreeMap<String, Tree>,
}

impl Tree {
    fn insert(&mut self, name: &str, value: String) -> Result<(), Error> {
        let mut node = self;
        for (depth, part) in name.split('.').enumerate() {
            if depth == MAX_PARTS {
                return Err(Error::new(
                    Kind::InvalidQueryParameter,
                    "A parameter name is nested too deeply.",
                ));
            }
            node = node.children.entry(part.to_owned()).or_default();
        }
        node.value = Some(value);
        Ok(())
    }

    fn structure(&mut self, fields: &[Field]) -> Map<String, Value> {
        let found = fields
            .iter()
            .filter_map(|field| Some((field.name.to_owned(), self.field(field)?)));
        found.collect()
    }

    fn field(&mut self, field: &Field) -> Option<Value> {
        match &field.shape {
            Shape::Scalar => self.children.remove(field.name)?.value.map(Value::String),
            Shape::List(tags) => {
                let items = self.items(tags)?;
                Some(Value::Array(
                    items
                        .into_iter()
                        .filter_map(|item| item.value.map(Value::String))
                        .collect(),
                ))
            }
            Shape::Map { tags, key } => {
                let entries = self.items(tags)?.into_iter().filter_map(|mut item| {
                    let name = item.children.remove(*key)?.value?;
                    let value = item
                        .children
                        .remove("Value")
                        .and_then(|v| v.value)
                        .unwrap_or_default();
                    Some((name, Value::String(value)))
                });
                Some(Value::Object(entries.collect()))
            }
            Shape::StructMap { tag, fields } => {
                let entries = self.items(&[tag])?.into_iter().filter_map(|mut item| {
                    let name = item.children.remove("Name")?.value?;
                    let value = item
                        .children
                        .remove("Value")
                        .unwrap_or_default()
                        .structure(fields);
                    Some((name, Value::Object(value)))
                });
                Some(Value::Object(entries.collect()))
            }
            Shape::Structs { tag, fields } => {
                let items = self.items(&[tag])?.into_iter();
                Some(Value::Array(
                    items
                        .map(|mut item| Value::Object(item.structure(fields)))
                        .collect(),
                ))
            }
        }
    }

    /// The members of a list in the order of their numbers. A list of one may leave its number out; a tag with an
    /// empty value is an empty list.
    fn items(&mut self, tags: &[&str]) -> Option<Vec<Self>> {
        let mut list = tags.iter().find_map(|tag| self.children.remove(*tag))?;
        if list.children.keys().any(|key| key.parse::<u32>().is_err()) {
            return Some(vec![list]);
        }
        if let Some(value) = list.value.take().filter(|v| !v.is_empty()) {
            return Some(vec![Self {
                value: Some(value),
                children: BTreeMap::new(),
            }]);
        }
        let mut members: Vec<(u32, Self)> = list
            .children
            .into_iter()
            .filter_map(|(key, item)| Some((key.parse().ok()?, item)))
            .collect();
        members.sort_by_key(|(number, _)| *number);
        Some(members.into_iter().map(|(_, item)| item).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::action::Action;
    use super::*;
    use crate::wire::{Outgoing, Request};

    fn decode(form: &str) -> Result<Request, Error> {
        let mut parameters = parse_form(form.as_bytes())?;
        let action = Action::named(&parameters.remove("Action").unwrap()).unwrap();
        action.read(lower(parameters, action.fields)?)
    }

    #[test]
    fn numbered_members_keep_the_order_of_their_numbers() {
        let names = (1..=11)
            .map(|n| format!("&AttributeName.{n}=n{n}"))
            .collect::<String>();
        let Request::GetQueueAttributes { names, .. } =
            decode(&format!("Action=GetQueueAttributes&QueueUrl=q{names}")).unwrap()
        else {
            panic!("another action")
        };
        assert_eq!(names[1], "n2");
        assert_eq!(names[10], "n11");
    }

    #[test]
    fn maps_and_structures_are_read() {
        let Request::SendMessage {
            message: Outgoing {
                attributes, body, ..
            },
            ..
        } = decode(
            "Action=SendMessage&QueueUrl=q&MessageBody=a%0D%0A+b&MessageAttribute.1.Name=x.y\
             &MessageAttribute.1.Value.DataType=Number&MessageAttribute.1.Value.StringValue=7",
        )
        .unwrap()
        else {
            panic!("another action")
        };
        assert_eq!(body, "a\r\n b");
        assert_eq!(attributes["x.y"].data_type.as_deref(), Some("Number"));
        assert_eq!(attributes["x.y"].string.as_deref(), Some("7"));
    }

    #[test]
    fn a_single_entry_may_go_without_its_number() {
        let Request::SetQueueAttributes { attributes, .. } = decode(
            "Action=SetQueueAttributes&QueueUrl=q&Attribute.Name=DelaySeconds&Attribute.Value=3",
        )
        .unwrap() else {
            panic!("another action")
        };
        assert_eq!(attributes["DelaySeconds"], "3");
    }

    #[test]
    fn an_empty_list_is_empty() {
        let Request::SendMessageBatch { entries, .. } =
            decode("Action=SendMessageBatch&QueueUrl=q&SendMessageBatchRequestEntry=").unwrap()
        else {
            panic!("another action")
        };
        assert!(entries.is_empty());
    }

    #[test]
    fn broken_forms_are_refused() {
        for form in [
            "a=%",
            "a=%4",
            "a=%zz",
            "a=%ff",
            "a=1&a=2",
            "a.b.c.d.e.f.g.h.i=1",
        ] {
            let refused = parse_form(form.as_bytes()).and_then(|p| lower(p, &[]));
            assert!(refused.is_err(), "{form}");
        }
    }
}

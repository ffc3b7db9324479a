//! A reply, whichever protocol it goes out in: fields in the order of the service's model.

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

/// A structure: the fields of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// The fields in order. Lists and maps that are empty are left out.
    pub fields: Vec<Field>,
    /// Whether the action has no answer but its success.
    pub empty: bool,
}

/// A field and its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name in the JSON protocol.
    pub json: &'static str,
    /// Its element in XML; for a list or map, that of each member.
    pub xml: &'static str,
    /// Its value.
    pub value: Value,
    /// Whether the service's model has it in every answer, even when it is empty.
    pub required: bool,
}

/// What a field holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Text.
    Text(String),
    /// A number.
    Number(u64),
    /// A flag.
    Flag(bool),
    /// A list; the members go without a wrapper in XML.
    List(Vec<Value>),
    /// A map; `key` is what XML calls the key.
    Map {
        /// `Name` or `Key`.
        key: &'static str,
        /// The entries in order.
        entries: Vec<(String, Value)>,
    },
    /// A structure.
    Structure(Reply),
}

impl Value {
    fn is_empty(&self) -> bool {
        match self {
            Self::List(items) => items.is_empty(),
            Self::Map { entries, .. } => entries.is_empty(),
            _ => false,
        }
    }
}

impl Reply {
    /// An answer with fields to come.
    pub fn new() -> Self {
        Self::default()
    }

    /// The answer of an action that has none.
    pub fn done() -> Self {
        Self {
            fields: Vec::new(),
            empty: true,
        }
    }

    /// With a field that has the same name in both protocols.
    pub fn with(self, name: &'static str, value: Value) -> Self {
        self.named(name, name, value)
    }

    /// With a field.
    pub fn named(mut self, json: &'static str, xml: &'static str, value: Value) -> Self {
        self.fields.push(Field {
            json,
            xml,
            value,
            required: false,
        });
        self
    }

    /// With the last field shown even when it is empty.
    pub fn required(mut self) -> Self {
        if let Some(field) = self.fields.last_mut() {
            field.required = true;
        }
        self
    }

    /// With a text.
    pub fn text(self, name: &'static str, value: impl Into<String>) -> Self {
        self.with(name, Value::Text(value.into()))
    }

    /// With a text, if there is one.
    pub fn maybe(self, name: &'static str, value: Option<String>) -> Self {
        match value {
            Some(value) => self.text(name, value),
            None => self,
        }
    }

    /// With a number.
    pub fn number(self, name: &'static str, value: u64) -> Self {
        self.with(name, Value::Number(value))
    }

    /// The fields that are shown.
    pub fn shown(&self) -> impl Iterator<Item = &Field> {
        self.fields
            .iter()
            .filter(|field| field.required || !field.value.is_empty())
    }
}

/// The JSON protocol's form.
impl Serialize for Reply {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for field in self.shown() {
            map.serialize_entry(field.json, &field.value)?;
        }
        map.end()
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Number(number) => serializer.serialize_u64(*number),
            Self::Flag(flag) => serializer.serialize_bool(*flag),
            Self::List(items) => serializer.collect_seq(items),
            Self::Map { entries, .. } => {
                serializer.collect_map(entries.iter().map(|(k, v)| (k, v)))
            }
            Self::Structure(reply) => reply.serialize(serializer),
        }
    }
}

/// The form that the Query protocol has for `Accept: application/json`: maps are lists of pairs, and the lists of
/// messages and queue URLs start in lower case.
pub struct QueryJson<'a>(pub &'a Reply);

impl Serialize for QueryJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for field in self.0.shown() {
            let name = match field.json {
                "Messages" => "messages",
                "QueueUrls" => "queueUrls",
                other => other,
            };
            map.serialize_entry(name, &QueryJsonValue(&field.value))?;
        }
        map.end()
    }
}

struct QueryJsonValue<'a>(&'a Value);

impl Serialize for QueryJsonValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Structure(reply) => QueryJson(reply).serialize(serializer),
            Value::List(items) => serializer.collect_seq(items.iter().map(QueryJsonValue)),
            Value::Map { key, entries } => {
                let mut list = serializer.serialize_seq(Some(entries.len()))?;
                for (name, value) in entries {
                    list.serialize_element(&Pair { key, name, value })?;
                }
                list.end()
            }
            plain => plain.serialize(serializer),
        }
    }
}

struct Pair<'a> {
    key: &'static str,
    name: &'a str,
    value: &'a Value,
}

impl Serialize for Pair<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry(self.key, self.name)?;
        map.serialize_entry("Value", &QueryJsonValue(self.value))?;
        map.end()
    }
}

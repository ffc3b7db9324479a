//! A request's parameters, whichever protocol they came in: a JSON object, read field by field into typed requests.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::errors::{Error, Kind};

/// Parameters that are still to be read. Reading takes a value out, so that a body is never copied.
#[derive(Clone, Debug, Default)]
pub struct Params(pub(super) Map<String, Value>);

/// A message attribute as the sender gave it, before it is known to be one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttributeValue {
    /// `DataType`.
    pub data_type: Option<String>,
    /// `StringValue`.
    pub string: Option<String>,
    /// `BinaryValue`, decoded.
    pub binary: Option<Vec<u8>>,
    /// Whether `StringListValues` or `BinaryListValues` hold anything; SQS has never implemented them.
    pub has_lists: bool,
}

impl Params {
    fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|v| !v.is_null())
    }

    /// Gives `name` a value if it has none.
    pub fn default_text(&mut self, name: &str, value: String) {
        self.0.entry(name).or_insert(Value::String(value));
    }

    /// The text of `name`, if it is there.
    pub fn text(&mut self, name: &str) -> Result<Option<String>, Error> {
        self.take(name).map(|v| text(v, name)).transpose()
    }

    /// The text of `name`, which must be there; it may be empty.
    pub fn required(&mut self, name: &str) -> Result<String, Error> {
        self.text(name)?.ok_or_else(|| Error::missing(name))
    }

    /// The whole number `name`, if it is there: a JSON number, or digits.
    pub fn integer(&mut self, name: &str) -> Result<Option<i64>, Error> {
        let not_a_number = |shown: &dyn std::fmt::Display| {
            let reason = format!(
                "Value {shown} for parameter {name} is invalid. Reason: Must be an integer."
            );
            Error::new(Kind::InvalidParameterValue, reason)
        };
        match self.take(name) {
            None => Ok(None),
            Some(Value::Number(n)) => n.as_i64().map(Some).ok_or_else(|| not_a_number(&n)),
            Some(Value::String(s)) => s.trim().parse().map(Some).map_err(|_| not_a_number(&s)),
            Some(_) => Err(Error::serialization(format!("{name} must be a number"))),
        }
    }

    /// The list of texts `name`; empty if it is absent.
    pub fn texts(&mut self, name: &str) -> Result<Vec<String>, Error> {
        let items = self.list(name)?;
        items.into_iter().map(|item| text(item, name)).collect()
    }

    /// The map from text to text `name`; `None` if it is absent.
    pub fn text_map(&mut self, name: &str) -> Result<Option<BTreeMap<String, String>>, Error> {
        let Some(map) = self.map(name)? else {
            return Ok(None);
        };
        let entries = map.into_iter().filter(|(_, v)| !v.is_null());
        let entries = entries.map(|(key, value)| text(value, name).map(|value| (key, value)));
        entries.collect::<Result<_, _>>().map(Some)
    }

    /// The message attributes `name`; empty if it is absent.
    pub fn attribute_values(
        &mut self,
        name: &str,
    ) -> Result<BTreeMap<String, AttributeValue>, Error> {
        let Some(map) = self.map(name)? else {
            return Ok(BTreeMap::new());
        };
        let entries = map
            .into_iter()
            .map(|(key, value)| Ok((key, attribute_value(value, name)?)));
        entries.collect()
    }

    /// The structures in the list `name`; empty if it is absent.
    pub fn entries(&mut self, name: &str) -> Result<Vec<Self>, Error> {
        let items = self.list(name)?;
        items
            .into_iter()
            .map(|item| object(item, name).map(Self))
            .collect()
    }

    fn list(&mut self, name: &str) -> Result<Vec<Value>, Error> {
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => Ok(items),
            Some(_) => Err(Error::serialization(format!("{name} must be a list"))),
        }
    }

    fn map(&mut self, name: &str) -> Result<Option<Map<String, Value>>, Error> {
        self.take(name).map(|value| object(value, name)).transpose()
    }
}

fn text(value: Value, name: &str) -> Result<String, Error> {
    match value {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(flag) => Ok(flag.to_string()),
        _ => Err(Error::serialization(format!("{name} must be a string"))),
    }
}

fn object(value: Value, name: &str) -> Result<Map<String, Value>, Error> {
    match value {
        Value::Object(map) => Ok(map),
        _ => Err(Error::serialization(format!("{name} must be a structure"))),
    }
}

fn attribute_value(value: Value, name: &str) -> Result<AttributeValue, Error> {
    let mut fields = Params(object(value, name)?);
    let binary = fields.text("BinaryValue")?.map(|encoded| {
        STANDARD
            .decode(encoded)
            .map_err(|_| Error::serialization(format!("{name}: BinaryValue is not base64")))
    });
    Ok(AttributeValue {
        data_type: fields.text("DataType")?,
        string: fields.text("StringValue")?,
        binary: binary.transpose()?,
        has_lists: !fields.list("StringListValues")?.is_empty()
            || !fields.list("BinaryListValues")?.is_empty(),
    })
}

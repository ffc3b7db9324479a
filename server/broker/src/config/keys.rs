//! Keys: which ones there are, what kind of value each takes, and the nearest one to a misspelt one.
//!
//! The list is the default configuration itself, flattened; there is no second one to keep in step.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use toml::{Table, Value};

use super::file::flatten;

/// One value for one key.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Dotted.
    pub key: String,
    /// Text where it comes from the environment or the command line.
    pub value: Value,
    /// Where it was set.
    pub origin: Origin,
}

/// Where a value was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In the configuration file.
    File(PathBuf),
    /// By a variable of this name.
    Environment(String),
    /// By this flag.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Environment(name) => f.write_str(name),
            Self::Flag(flag) => f.write_str(flag),
        }
    }
}

/// Below this key the user chooses the names.
const FREE: &str = "auth.keys.";

/// All keys with their default values.
pub struct Known(BTreeMap<String, Value>);

impl Known {
    /// The keys of a default configuration.
    pub fn new(defaults: &Table) -> Self {
        let mut keys = BTreeMap::new();
        flatten(
            String::new(),
            Value::Table(defaults.clone()),
            &mut |key, value| {
                keys.insert(key, value);
            },
        );
        Self(keys)
    }

    /// The value in the type its key takes: what comes as text becomes a number, a truth value or a list where the
    /// default is one. What does not fit stays text, for the typed configuration to refuse.
    ///
    /// # Errors
    /// A sentence, if there is no such key.
    pub fn typed(&self, setting: &Setting) -> Result<Value, String> {
        let Setting { key, value, .. } = setting;
        let default = match self.0.get(key) {
            Some(default) => default,
            None if key.starts_with(FREE) => return Ok(value.clone()),
            None => return Err(self.unknown(key)),
        };
        let Value::String(text) = value else {
            return Ok(value.clone());
        };
        Ok(match default {
            Value::Integer(_) => text.parse().map_or_else(|_| value.clone(), Value::Integer),
            Value::Boolean(_) => text.parse().map_or_else(|_| value.clone(), Value::Boolean),
            Value::Array(_) => Value::Array(
                text.split(',')
                    .map(str::trim)
                    .filter(|item| !item.is_empty())
                    .map(|item| Value::String(item.to_owned()))
                    .collect(),
            ),
            _ => value.clone(),
        })
    }

    fn unknown(&self, key: &str) -> String {
        let is_table = self
            .0
            .keys()
            .any(|known| known.starts_with(&format!("{key}.")));
        if is_table {
            return format!("{key} is a table of keys, not a value");
        }
        match self.nearest(key) {
            Some(near) => format!("unknown key {key}; did you mean {near}?"),
            None => format!("unknown key {key}"),
        }
    }

    /// The known key that takes the fewest changes, as a whole or in its last part.
    fn nearest(&self, key: &str) -> Option<&str> {
        let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
        let (distance, near) = self
            .0
            .keys()
            .map(|known| {
                let whole = strsim::damerau_levenshtein(key, known);
                // A right name in the wrong table is near, but not as near as the right table with a slip.
                let part = strsim::damerau_levenshtein(&last(key), &last(known)) + 2;
                (whole.min(part), known)
            })
            .min()?;
        (distance <= 1 + key.len() / 6).then_some(near)
    }
}

/// Puts a value at a dotted key. The key's tables are there: the key is known.
pub fn insert(table: &mut Table, key: &str, value: Value) {
    match key.split_once('.') {
        // An access key id may hold dots of its own.
        Some((first, rest)) if table.get(first).is_some_and(Value::is_table) => {
            if let Some(Value::Table(inner)) = table.get_mut(first) {
                insert(inner, rest, value);
            }
        }
        _ => {
            table.insert(key.to_owned(), value);
        }
    }
}

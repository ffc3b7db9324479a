//! The configuration file as a layer.

use std::path::Path;

use toml::{Table, Value};

use super::keys::{Origin, Setting};
use crate::failure::Failure;

/// Reads a TOML file.
pub fn settings(path: &Path) -> Result<Vec<Setting>, Failure> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::Config(format!("cannot read {shown}: {error}")))?;
    let table: Table = text.parse().map_err(|error: toml::de::Error| {
        Failure::Config(format!("{shown}: {}", one_line(&error, &text)))
    })?;
    let mut settings = Vec::new();
    flatten(String::new(), Value::Table(table), &mut |key, value| {
        settings.push(Setting {
            key,
            value,
            origin: Origin::File(path.to_owned()),
        });
    });
    Ok(settings)
}

/// Calls `each` with every leaf's dotted key. An empty table is a leaf, so that a misspelt one is noticed.
pub fn flatten(prefix: String, value: Value, each: &mut impl FnMut(String, Value)) {
    match value {
        Value::Table(table) if prefix.is_empty() || !table.is_empty() => {
            for (name, value) in table {
                let key = if prefix.is_empty() {
                    name
                } else {
                    format!("{prefix}.{name}")
                };
                flatten(key, value, each);
            }
        }
        leaf => each(prefix, leaf),
    }
}

fn one_line(error: &toml::de::Error, text: &str) -> String {
    let line = error
        .span()
        .and_then(|span| text.get(..span.start))
        .map_or(1, |before| before.matches('\n').count() + 1);
    format!("line {line}: {}", error.message().trim().replace('\n', " "))
}

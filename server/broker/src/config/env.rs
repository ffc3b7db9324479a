//! The environment as a layer: `POWERQUEUE_LISTEN__SQS=…` sets `listen.sqs`.

use toml::Value;

use super::keys::{Origin, Setting};

const PREFIX: &str = "POWERQUEUE_";

/// Names the configuration file; not a setting itself.
pub const CONFIG: &str = "POWERQUEUE_CONFIG";

/// What Kubernetes puts into every container beside a service called `powerqueue`.
const KUBERNETES: [&str; 2] = ["POWERQUEUE_SERVICE_", "POWERQUEUE_PORT"];

/// The settings among the variables, in the order of their names.
pub fn settings(variables: &[(String, String)]) -> Vec<Setting> {
    let mut settings: Vec<Setting> = variables
        .iter()
        .filter(|(name, _)| name != CONFIG)
        .filter(|(name, _)| !KUBERNETES.iter().any(|prefix| name.starts_with(prefix)))
        .filter_map(|(name, text)| {
            Some(Setting {
                key: key(name.strip_prefix(PREFIX)?),
                value: Value::String(text.clone()),
                origin: Origin::Environment(name.clone()),
            })
        })
        .collect();
    settings.sort_by(|a, b| a.key.cmp(&b.key));
    settings
}

/// `LISTEN__SQS` is `listen.sqs`; an access key id below `AUTH__KEYS__` keeps its case.
fn key(name: &str) -> String {
    const KEYS: &str = "AUTH__KEYS__";
    match name.strip_prefix(KEYS) {
        Some(id) => format!("auth.keys.{id}"),
        None => name.replace("__", ".").to_ascii_lowercase(),
    }
}

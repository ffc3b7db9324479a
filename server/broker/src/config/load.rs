//! Puts the layers together.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use toml::{Table, Value};

use super::keys::{Known, Origin, Setting, insert};
use super::{Config, Mode, defaults, env, file};
use crate::failure::Failure;

/// Where settings come from, beside the defaults.
#[derive(Debug, Default)]
pub struct Sources {
    /// `--config`; `POWERQUEUE_CONFIG` names it too.
    pub file: Option<PathBuf>,
    /// The process's environment.
    pub environment: Vec<(String, String)>,
    /// `--data`.
    pub data: Option<PathBuf>,
    /// `--mode`.
    pub mode: Option<String>,
    /// `--set`, each `key=value`.
    pub set: Vec<String>,
}

/// The effective configuration and where it was set.
#[derive(Debug)]
pub struct Loaded {
    /// The values.
    pub config: Config,
    origins: BTreeMap<String, Origin>,
}

impl Loaded {
    /// Whether somebody set that key, even to its default.
    pub fn is_set(&self, key: &str) -> bool {
        self.origins.contains_key(key)
    }

    /// As TOML that loads again; the keys that were set, and where, stand above it.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        let mut text = String::new();
        for (key, origin) in &self.origins {
            text.push_str(&format!("# {key}: {origin}\n"));
        }
        text.push_str(&self.config.to_toml()?);
        Ok(text)
    }
}

/// Loads the configuration.
///
/// # Errors
/// [`Failure::Config`] with the key, the place where it was set and what is wrong.
pub fn load(sources: &Sources) -> Result<Loaded, Failure> {
    let settings = layers(sources)?;
    let mode = mode(&settings)?;
    let mut table =
        Table::try_from(defaults(mode)).map_err(|error| Failure::Config(error.to_string()))?;
    let known = Known::new(&table);
    let mut config = defaults(mode);
    let mut origins = BTreeMap::new();
    for setting in settings {
        let wrong = |reason: String| Failure::Config(format!("{}: {reason}", setting.origin));
        let value = known.typed(&setting).map_err(wrong)?;
        insert(&mut table, &setting.key, value);
        // Read anew after every value, so that the one that does not fit is known.
        config = Config::deserialize(table.clone())
            .map_err(|error| wrong(format!("{}: {}", setting.key, reason(&error))))?;
        origins.insert(setting.key, setting.origin);
    }
    match config.contradiction() {
        Some(sentence) => Err(Failure::Config(sentence)),
        None => Ok(Loaded { config, origins }),
    }
}

/// All settings, the ones that win last.
fn layers(sources: &Sources) -> Result<Vec<Setting>, Failure> {
    let named = sources
        .environment
        .iter()
        .find(|(name, _)| name == env::CONFIG);
    let path = sources
        .file
        .clone()
        .or_else(|| named.map(|(_, path)| path.into()));
    let mut settings = match path {
        Some(path) => file::settings(&path)?,
        None => Vec::new(),
    };
    settings.extend(env::settings(&sources.environment));
    let mut flag = |flag, key: &str, text: &str| {
        settings.push(Setting {
            key: key.to_owned(),
            value: Value::String(text.to_owned()),
            origin: Origin::Flag(flag),
        });
    };
    for pair in &sources.set {
        let Some((key, text)) = pair.split_once('=') else {
            return Err(Failure::Config(format!("--set {pair}: expected KEY=VALUE")));
        };
        flag("--set", key.trim(), text.trim());
    }
    if let Some(data) = &sources.data {
        flag("--data", "data", &data.to_string_lossy());
    }
    if let Some(mode) = &sources.mode {
        flag("--mode", "mode", mode);
    }
    Ok(settings)
}

/// The mode decides the defaults, so it is looked for first. Keys without a mode mean the private one.
fn mode(settings: &[Setting]) -> Result<Mode, Failure> {
    if let Some(setting) = settings.iter().rev().find(|setting| setting.key == "mode") {
        return Mode::deserialize(setting.value.clone()).map_err(|error| {
            Failure::Config(format!("{}: mode: {}", setting.origin, reason(&error)))
        });
    }
    let keys = settings
        .iter()
        .any(|setting| setting.key.starts_with("auth.keys."));
    Ok(if keys { Mode::Private } else { Mode::Local })
}

fn reason(error: &toml::de::Error) -> String {
    error.message().trim().replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Addresses, Cap, Span};

    fn with_set(set: &[&str]) -> Sources {
        Sources {
            set: set.iter().map(|&pair| pair.to_owned()).collect(),
            ..Sources::default()
        }
    }

    fn refusal(sources: &Sources) -> String {
        load(sources).unwrap_err().to_string()
    }

    fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("powerqueue.toml");
        std::fs::write(&path, text).unwrap();
        (folder, path)
    }

    #[test]
    fn later_layers_win() {
        let (_folder, path) =
            file("[listen]\nsqs = '127.0.0.1:1'\nhttp = ['127.0.0.1:1']\nmetrics = ''\n");
        let sources = Sources {
            file: Some(path),
            environment: vec![
                ("POWERQUEUE_LISTEN__SQS".into(), "127.0.0.1:2".into()),
                (
                    "POWERQUEUE_LISTEN__HTTP".into(),
                    "127.0.0.1:2,[::1]:2".into(),
                ),
                ("POWERQUEUE_ENTITIES__CREATE_BY_USE".into(), "false".into()),
                ("POWERQUEUE_SERVICE_HOST".into(), "10.0.0.1".into()),
                ("HOME".into(), "/".into()),
            ],
            set: vec!["listen.sqs=127.0.0.1:3".into()],
            ..Sources::default()
        };
        let config = load(&sources).unwrap().config;
        assert_eq!(config.listen.sqs, "127.0.0.1:3".parse().unwrap());
        assert_eq!(config.listen.http, "127.0.0.1:2,[::1]:2".parse().unwrap());
        assert_eq!(config.listen.metrics, Addresses::default());
        assert!(!config.entities.create_by_use);
    }

    #[test]
    fn what_is_printed_loads_again_in_every_mode() {
        for set in [
            &["mode=local"][..],
            &["auth.keys.AKIA.1=secret", "entities.create_by_use=true"],
            &[
                "mode=public",
                "limits.lifetime=2h",
                "limits.entities=off",
                "proxy.listeners=sqs,http",
            ],
            &[
                "tls.source=acme",
                "tls.listeners=sqs,metrics",
                "tls.names=a.example,b.example",
            ],
            &[
                "tls.source=files",
                "tls.certificate=/a",
                "tls.key=/b",
                "tls.poll=1s",
            ],
            &["tls.source=self-signed", "tls.names=*.a.example,192.0.2.1"],
        ] {
            let loaded = load(&with_set(set)).unwrap();
            let (_folder, path) = file(&loaded.to_toml().unwrap());
            let again = load(&Sources {
                file: Some(path),
                ..Sources::default()
            })
            .unwrap();
            assert_eq!(again.config, loaded.config);
        }
    }

    #[test]
    fn modes_have_their_own_defaults() {
        let local = load(&Sources::default()).unwrap().config;
        assert_eq!(local.mode, Mode::Local);
        assert_eq!(local.limits.entities, Cap::Off);
        assert!(local.entities.create_by_use);
        let public = Sources {
            mode: Some("public".into()),
            ..Sources::default()
        };
        let public = load(&public).unwrap().config;
        assert_eq!(public.limits.entities, Cap::At(100));
        assert_eq!(public.limits.lifetime, Cap::At(Span::secs(3600)));
        let private = load(&with_set(&["auth.keys.AKIA1=secret"])).unwrap().config;
        assert_eq!(private.mode, Mode::Private);
        assert!(!private.entities.create_by_use);
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_nearest_one_and_where_it_was_set() {
        for (key, near) in [
            ("listen.sqz", "listen.sqs"),
            ("limits.message_byte", "limits.message_bytes"),
            ("create_by_use", "entities.create_by_use"),
            ("storage.segmentbytes", "storage.segment_bytes"),
            ("dta", "data"),
        ] {
            let expected = format!("--set: unknown key {key}; did you mean {near}?");
            assert_eq!(refusal(&with_set(&[&format!("{key}=1")])), expected);
        }
        assert_eq!(
            refusal(&with_set(&["something.entirely.else=1"])),
            "--set: unknown key something.entirely.else"
        );
        let environment = vec![("POWERQUEUE_LISTEN__SQL".into(), "x".into())];
        assert_eq!(
            refusal(&Sources {
                environment,
                ..Sources::default()
            }),
            "POWERQUEUE_LISTEN__SQL: unknown key listen.sql; did you mean listen.sqs?"
        );
        let (_folder, path) = file("[listeners]\n");
        assert!(
            refusal(&Sources {
                file: Some(path),
                ..Sources::default()
            })
            .contains("unknown key listeners")
        );
    }

    #[test]
    fn a_wrong_value_is_refused_with_its_key() {
        for (pair, part) in [
            ("listen.sqs=9324", "listen.sqs: \"9324\" is not an address"),
            (
                "shutdown.grace=30",
                "shutdown.grace: \"30\" is not a duration",
            ),
            (
                "storage.segment_bytes=big",
                "storage.segment_bytes: \"big\" is not a size",
            ),
            ("storage.sync=never", "storage.sync: "),
            (
                "limits.entities=many",
                "limits.entities: \"many\" is neither a whole number",
            ),
            ("entities.create_by_use=perhaps", "entities.create_by_use: "),
            ("mode=secret", "--set: mode: "),
            ("listen=x", "listen is a table of keys"),
            ("listen.sqs", "expected KEY=VALUE"),
            ("log.level=,=", "log.level: "),
            ("tls.source=letsencrypt", "tls.source: "),
            ("tls.max_handshakes=few", "tls.max_handshakes: "),
        ] {
            let refusal = refusal(&with_set(&[pair]));
            assert!(refusal.contains(part), "{pair}: {refusal}");
        }
    }

    #[test]
    fn a_broken_file_is_refused_with_its_line() {
        let (_folder, path) = file("mode = 'local'\n[listen\n");
        let refusal = refusal(&Sources {
            file: Some(path),
            ..Sources::default()
        });
        assert!(refusal.contains("powerqueue.toml: line 2: "), "{refusal}");
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused() {
        for (set, part) in [
            (&["mode=private"][..], "has no keys"),
            (&["mode=public", "auth.keys.a=b"], "would not be checked"),
            (&["proxy.listeners=sqs,amqp"], "\"amqp\""),
            (&["storage.shards=0"], "at least 1"),
            (&["tls.listeners=amqp"], "tls.listeners names \"amqp\""),
            (
                &["tls.source=self-signed", "tls.listeners="],
                "names no listener",
            ),
            (&["tls.max_handshakes=0"], "at least 1"),
            (&["tls.poll=0s"], "longer than nothing"),
            (
                &["tls.source=self-signed", "tls.names=a b"],
                "\"a b\" is neither",
            ),
            (&["tls.source=files", "tls.key=/k"], "needs both"),
            (&["tls.certificate=/c"], "would not be read"),
            (&["tls.source=acme"], "no name to order"),
            (
                &["tls.source=acme", "tls.names=*.a.example"],
                "cannot be had by HTTP-01",
            ),
            (
                &["tls.source=acme", "tls.names=192.0.2.1"],
                "cannot be had by HTTP-01",
            ),
            (
                &[
                    "tls.source=acme",
                    "tls.names=a.example",
                    "tls.acme_directory=http://ca.example",
                ],
                "an https URL",
            ),
            (
                &["tls.source=acme", "tls.names=a.example", "listen.http="],
                "listen.http is off",
            ),
            (
                &[
                    "tls.source=acme",
                    "tls.names=a.example",
                    "tls.listeners=sqs,http",
                ],
                "in plain text",
            ),
        ] {
            let refusal = refusal(&with_set(set));
            assert!(refusal.contains(part), "{set:?}: {refusal}");
        }
    }

    #[test]
    fn what_is_probably_not_meant_is_said() {
        for (set, part) in [
            (&["mode=public"][..], "not in proxy.listeners"),
            (&["auth.keys.a=b", "listen.sqs=0.0.0.0:1"], "in plain text"),
            (&["listen.sqs=[::]:1"], "in local mode"),
            (
                &["tls.source=self-signed", "proxy.listeners=sqs"],
                "the proxy must speak TLS",
            ),
        ] {
            let doubts = load(&with_set(set)).unwrap().config.doubts();
            assert!(doubts.len() == 1 && doubts[0].contains(part), "{doubts:?}");
        }
        let meant = load(&with_set(&["mode=public", "proxy.listeners=sqs"])).unwrap();
        assert!(meant.config.doubts().is_empty());
        let over_tls = [
            "auth.keys.a=b",
            "listen.sqs=0.0.0.0:1",
            "tls.source=self-signed",
        ];
        assert!(
            load(&with_set(&over_tls))
                .unwrap()
                .config
                .doubts()
                .is_empty()
        );
        assert!(
            load(&Sources::default())
                .unwrap()
                .config
                .doubts()
                .is_empty()
        );
    }
}

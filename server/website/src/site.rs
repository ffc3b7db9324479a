//! Templates and files into finished answers.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use include_dir::{Dir, include_dir};
use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, Output, State, UndefinedBehavior, Value,
    escape_formatter,
};
use serde::Serialize;

use crate::date::rfc3339;
use crate::finished::Finished;

static WEB: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../web");

/// What the snippets call the service, replaced by where it is.
const ENDPOINT: &str = "https://sqs.powerqueue.link";
/// For how long security.txt says it holds: less than a year (RFC 9116 §2.5.5).
const HOLDS: u64 = 360 * 86_400;
/// Templates that are no page of their own: parts of others, answers to errors, and what the proxy serves.
const NO_PAGES: [&str; 5] = [
    "base.html",
    "_code.html",
    "404.html",
    "banned.html",
    "away.html",
];

/// What the pages say about the running broker.
#[derive(Clone, Debug, Serialize)]
pub struct Facts {
    /// The broker's version.
    pub version: &'static str,
    /// Its mode.
    pub mode: &'static str,
    /// The website's own URL, without a slash at its end.
    pub origin: String,
    /// Where abuse is reported: a mail address or a URL; may be empty.
    pub contact: String,
    /// URLs by protocol.
    pub endpoints: BTreeMap<&'static str, String>,
    /// The protocols that are served.
    pub protocols: Vec<Protocol>,
    /// Limits by configuration key.
    pub limits: BTreeMap<&'static str, Limit>,
    /// The time of the start, in seconds since 1970.
    #[serde(skip)]
    pub now: u64,
}

/// A protocol that is served.
#[derive(Clone, Debug, Serialize)]
pub struct Protocol {
    /// As in addresses and labels.
    pub id: &'static str,
    /// For people.
    pub name: &'static str,
    /// Its URL.
    pub endpoint: String,
    /// The page about it.
    pub guide: &'static str,
}

/// A limit of the running configuration.
#[derive(Clone, Debug, Serialize)]
pub struct Limit {
    /// Whether it holds.
    pub on: bool,
    /// Its value in words.
    pub text: String,
}

/// The embedded website cannot be rendered: a mistake in a template.
#[derive(Debug, thiserror::Error)]
#[error("the website cannot be rendered: {0:#}")]
pub struct Failure(#[from] Error);

/// The website, rendered.
#[derive(Debug)]
pub struct Website {
    found: HashMap<String, Finished>,
    missing: Finished,
    banned: Finished,
}

impl Website {
    /// Renders every page.
    ///
    /// # Errors
    /// If a template is wrong.
    pub fn new(facts: &Facts) -> Result<Self, Failure> {
        let env = environment(facts)?;
        let mut found = HashMap::new();
        let names: Vec<&str> = env.templates().map(|(name, _)| name).collect();
        for name in names {
            if let Some(path) = path_of(name) {
                let page = finished(name, render(&env, name, &path, facts)?.into());
                found.insert(path, page);
            }
        }
        for (path, bytes) in files("assets") {
            let path = format!("/assets/{path}");
            let file = finished(&path, Bytes::from_static(bytes));
            found.insert(path, file);
        }
        Ok(Self {
            found,
            missing: finished("404.html", render(&env, "404.html", "", facts)?.into()),
            banned: Finished::new(
                "text/html; charset=utf-8",
                "no-store",
                render(&env, "banned.html", "", facts)?,
            ),
        })
    }

    /// The answer to a request for a page or a file.
    pub fn answer(&self, path: &str, method: &Method, headers: &HeaderMap) -> Response<Bytes> {
        if method != Method::GET && method != Method::HEAD {
            let mut refused = Response::new(Bytes::from_static(b"method not allowed\n"));
            *refused.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            let allowed = HeaderValue::from_static("GET, HEAD");
            refused.headers_mut().insert(header::ALLOW, allowed);
            return refused;
        }
        match self.found.get(path) {
            Some(file) => file.answer(StatusCode::OK, method, headers),
            None => self.missing.answer(StatusCode::NOT_FOUND, method, headers),
        }
    }

    /// The page for a visitor whose address is banned.
    pub fn banned(
        &self,
        method: &Method,
        headers: &HeaderMap,
        retry_after: u64,
    ) -> Response<Bytes> {
        let mut page = self
            .banned
            .answer(StatusCode::TOO_MANY_REQUESTS, method, headers);
        page.headers_mut()
            .insert(header::RETRY_AFTER, HeaderValue::from(retry_after));
        page
    }
}

fn environment(facts: &Facts) -> Result<Environment<'static>, Error> {
    let mut env = Environment::new();
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    env.set_keep_trailing_newline(true);
    env.set_formatter(escaped);
    for (name, bytes) in files("pages") {
        if let Ok(text) = std::str::from_utf8(bytes).map(str::to_owned)
            && name != "away.html"
        {
            env.add_template_owned(name, text)?;
        }
    }
    let endpoint = facts.endpoints.get("sqs").cloned().unwrap_or_default();
    env.add_function("snippet", move |name: &str| -> Result<String, Error> {
        let file = WEB.get_file(format!("snippets/{name}"));
        let text = file.and_then(|file| file.contents_utf8()).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidOperation,
                format!("there is no snippet {name}"),
            )
        })?;
        Ok(text.replace(ENDPOINT, &endpoint))
    });
    Ok(env)
}

/// Escapes what HTML needs escaped. minijinja's own way does the same to slashes, which makes addresses hard to read.
fn escaped(out: &mut Output<'_>, state: &State<'_, '_>, value: &Value) -> Result<(), Error> {
    let html = matches!(state.auto_escape(), AutoEscape::Html);
    let Some(text) = value.as_str().filter(|_| html && !value.is_safe()) else {
        return escape_formatter(out, state, value);
    };
    for part in text.split_inclusive(['&', '<', '>', '"', '\'']) {
        let (plain, entity) = match part.as_bytes().last() {
            Some(b'&') => (&part[..part.len() - 1], "&amp;"),
            Some(b'<') => (&part[..part.len() - 1], "&lt;"),
            Some(b'>') => (&part[..part.len() - 1], "&gt;"),
            Some(b'"') => (&part[..part.len() - 1], "&quot;"),
            Some(b'\'') => (&part[..part.len() - 1], "&#39;"),
            _ => (part, ""),
        };
        out.write_str(plain)?;
        out.write_str(entity)?;
    }
    Ok(())
}

fn render(env: &Environment<'_>, name: &str, path: &str, facts: &Facts) -> Result<String, Error> {
    let expires = rfc3339(facts.now + HOLDS);
    let page = minijinja::context! { path, expires, ..Value::from_serialize(facts) };
    env.get_template(name)?.render(page)
}

/// All files below a folder, by their path in it.
fn files(folder: &str) -> Vec<(String, &'static [u8])> {
    fn walk(dir: &'static Dir<'static>, root: &str, found: &mut Vec<(String, &'static [u8])>) {
        for file in dir.files() {
            if let Some(name) = file
                .path()
                .strip_prefix(root)
                .ok()
                .and_then(|path| path.to_str())
            {
                found.push((name.to_owned(), file.contents()));
            }
        }
        for dir in dir.dirs() {
            walk(dir, root, found);
        }
    }
    let mut found = Vec::new();
    if let Some(dir) = WEB.get_dir(folder) {
        walk(dir, folder, &mut found);
    }
    found
}

/// Where a template is served.
fn path_of(template: &str) -> Option<String> {
    match template {
        name if NO_PAGES.contains(&name) => None,
        "index.html" => Some("/".to_owned()),
        "security.txt" => Some("/.well-known/security.txt".to_owned()),
        name => Some(format!("/{}", name.strip_suffix(".html").unwrap_or(name))),
    }
}

/// Revalidated at each use: a new release must not meet an old script in a browser, and a 304 is cheap.
fn finished(name: &str, body: Bytes) -> Finished {
    let content_type = match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("woff2") => "font/woff2",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    };
    Finished::new(content_type, "no-cache", body)
}

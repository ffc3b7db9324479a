//! The HTTP listener: website, figures, health.
//!
//! What is answered from finished bytes (pages, files, figures) spends nothing of the visitor's budget: five seconds of
//! an open page must not cost what a program of the same address is about to send. It is bounded by the serving loop's
//! connections and requests, and a ban closes it. Only what reaches the front end, `/try/sqs`, is judged like any other
//! request to it, by the front end's own entrance.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header, request::Parts};
use powerqueue_admission::{Admission, Ban};
use powerqueue_net::Request;
use powerqueue_sqs::Sqs;
use powerqueue_website::{Facts, Failure, Limit, Protocol, Website, Window};
use serde_json::{Value, json};

use crate::config::{Cap, Config, Span};
use crate::endpoints::Endpoints;
use crate::front_ends;
use crate::statistics::{Statistics, millis};

/// Where a certificate authority looks whether a name is ours.
const ACME: &str = "/.well-known/acme-challenge/";

/// The website of a broker, before and after its store is open.
pub struct Site {
    website: Website,
    admission: Admission,
    /// The website's own origin as browsers name it.
    origin: String,
    open: OnceLock<(Sqs, Arc<Statistics>)>,
}

impl Site {
    /// Renders the pages.
    ///
    /// # Errors
    /// If a template is wrong.
    pub fn new(
        config: &Config,
        endpoints: &Endpoints,
        admission: &Admission,
    ) -> Result<Self, Failure> {
        let facts = facts(config, endpoints);
        Ok(Self {
            website: Website::new(&facts)?,
            admission: admission.clone(),
            origin: facts.origin,
            open: OnceLock::new(),
        })
    }

    /// From now on there is something to try and to show.
    pub fn open(&self, sqs: Sqs, statistics: Arc<Statistics>) {
        // Opened once; a second time would change nothing.
        let _ = self.open.set((sqs, statistics));
    }

    fn answer(&self, parts: &Parts, address: IpAddr) -> Response<Bytes> {
        let (path, method, headers) = (parts.uri.path(), &parts.method, &parts.headers);
        if path == "/api/address" {
            return json_answer(StatusCode::OK, &self.standing(address));
        }
        if !path.starts_with("/assets/")
            && let Some(ban) = self.admission.ban(address)
        {
            let seconds = seconds_left(&ban);
            if !path.starts_with("/api/") {
                return self.website.banned(method, headers, seconds);
            }
            let body = json!({ "error": "banned", "ban": shown(&ban) });
            let mut response = json_answer(StatusCode::TOO_MANY_REQUESTS, &body);
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            return response;
        }
        let figures = match path {
            "/api/stats" => Figures::Now,
            "/api/history" => match asked_window(parts) {
                Some(window) => Figures::Window(window),
                None => {
                    let body = json!({ "error": "window is hour, day or week" });
                    return json_answer(StatusCode::BAD_REQUEST, &body);
                }
            },
            _ => return self.website.answer(path, method, headers),
        };
        let Some((_, statistics)) = self.open.get() else {
            return json_answer(
                StatusCode::SERVICE_UNAVAILABLE,
                &json!({ "error": "starting" }),
            );
        };
        let finished = match figures {
            Figures::Now => statistics.now(),
            Figures::Window(window) => statistics.window(window),
        };
        finished.answer(StatusCode::OK, method, headers)
    }

    fn standing(&self, address: IpAddr) -> Value {
        let standing = self.admission.standing(address);
        json!({
            "address": standing.judged_as,
            "requests": standing.requests.map(|allowance| json!({
                "left": allowance.left,
                "burst": allowance.rate.burst,
                "per_second": (1.0 / allowance.rate.period.as_secs_f64()).round(),
            })),
            "tenants": standing.new_tenants.map(|allowance| json!({
                "left": allowance.left,
                "per_hour": (3600.0 / allowance.rate.period.as_secs_f64()).round(),
            })),
            "connections": standing.connections.map(|(open, most)| json!({ "open": open, "most": most })),
            "refusals": standing.refusals.map(|(recent, most)| json!({ "last_minute": recent, "ban_at": most })),
            "ban": standing.ban.as_ref().map(shown),
        })
    }

    /// Whether a page of ours may have sent this. A browser says where a request comes from, and a page cannot change
    /// what it says; a program that says nothing could ask the SQS endpoint as well.
    fn is_own(&self, parts: &Parts) -> bool {
        let field = |name: &str| parts.headers.get(name).map(HeaderValue::as_bytes);
        let site =
            field("sec-fetch-site").is_none_or(|site| site == b"same-origin" || site == b"none");
        site && field("origin").is_none_or(|origin| {
            // By another name of this machine, such as localhost, the page is as much ours.
            let named = field("host").unwrap_or_default();
            let authority = ["http://", "https://"]
                .into_iter()
                .find_map(|scheme| origin.strip_prefix(scheme.as_bytes()));
            origin == self.origin.as_bytes() || authority == Some(named)
        })
    }

    async fn try_sqs(&self, mut request: Request) -> Response<Body> {
        if request.parts.method != Method::POST || !self.is_own(&request.parts) {
            let body = json!({ "error": "this address is for the website's own pages; programs use the SQS endpoint" });
            return json_answer(StatusCode::FORBIDDEN, &body).map(Body::from);
        }
        match self.open.get() {
            Some((sqs, _)) => {
                // The front end would read a queue's address from the path.
                request.parts.uri = http::Uri::from_static("/");
                front_ends::answer_sqs(sqs.clone(), self.admission.clone(), request)
                    .await
                    .map(Body::new)
            }
            None => json_answer(
                StatusCode::SERVICE_UNAVAILABLE,
                &json!({ "error": "starting" }),
            )
            .map(Body::from),
        }
    }
}

enum Figures {
    Now,
    Window(Window),
}

type Answer = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// The listener's handler. `health` answers what monitors and certificate authorities ask, whoever is banned.
pub fn handler(
    site: Arc<Site>,
    health: impl Fn(Request) -> Answer + Send + Sync + 'static,
) -> impl Fn(Request) -> Answer + Send + Sync + 'static {
    move |request| {
        let path = request.parts.uri.path();
        if path.starts_with("/healthz/") || path.starts_with(ACME) || path == "/version" {
            return health(request);
        }
        let site = Arc::clone(&site);
        Box::pin(async move {
            let mut response = if request.parts.uri.path() == "/try/sqs" {
                site.try_sqs(request).await
            } else {
                site.answer(&request.parts, request.client.address)
                    .map(Body::from)
            };
            crate::health::secure(&mut response);
            response
        })
    }
}

fn asked_window(parts: &Parts) -> Option<Window> {
    let name = parts
        .uri
        .query()
        .unwrap_or_default()
        .strip_prefix("window=")?;
    Window::ALL
        .into_iter()
        .find(|window| window.as_str() == name)
}

fn seconds_left(ban: &Ban) -> u64 {
    ban.left
        .as_millis()
        .div_ceil(1000)
        .try_into()
        .unwrap_or(u64::MAX)
}

fn shown(ban: &Ban) -> Value {
    json!({ "level": ban.level, "ends_in_seconds": seconds_left(ban), "ends": ban.ends_ms })
}

fn json_answer(status: StatusCode, value: &Value) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(format!("{value}\n")));
    *response.status_mut() = status;
    for (name, value) in [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

fn facts(config: &Config, endpoints: &Endpoints) -> Facts {
    let url = |configured: &str, listener: &str, port: u16| {
        let url = if configured.is_empty() {
            endpoints
                .url(listener)
                .unwrap_or_else(|| format!("http://127.0.0.1:{port}"))
        } else {
            configured.to_owned()
        };
        url.trim_end_matches('/').to_owned()
    };
    let sqs = url(&config.website.sqs, "sqs", 9324);
    Facts {
        version: env!("CARGO_PKG_VERSION"),
        mode: config.mode.as_str(),
        origin: url(&config.website.origin, "http", 9325),
        contact: config.website.contact.clone(),
        endpoints: BTreeMap::from([("sqs", sqs.clone())]),
        protocols: vec![Protocol {
            id: "sqs",
            name: "Amazon SQS",
            endpoint: sqs,
            guide: "/docs/sqs",
        }],
        limits: limits(config),
        now: millis() / 1000,
    }
}

fn limits(config: &Config) -> BTreeMap<&'static str, Limit> {
    let limits = &config.limits;
    let lengths: Vec<String> = limits.ban_lengths.iter().map(|span| words(*span)).collect();
    let size = |size: crate::config::ByteSize| spaced(&size.to_string());
    let bans = Limit {
        on: limits.ban_refusals.limit().is_some(),
        text: lengths.join(", "),
    };
    BTreeMap::from([
        ("message_bytes", limit(limits.message_bytes, size)),
        ("entities", limit(limits.entities, grouped)),
        (
            "messages_per_queue",
            limit(limits.messages_per_queue, grouped),
        ),
        ("tenant_bytes", limit(limits.tenant_bytes, size)),
        ("dedup_bytes", limit(limits.dedup_bytes, size)),
        ("settings_bytes", limit(limits.settings_bytes, size)),
        ("receivers", limit(limits.receivers, grouped)),
        ("lifetime", limit(limits.lifetime, words)),
        (
            "implicit_entity_idle",
            limit(limits.implicit_entity_idle, words),
        ),
        ("tenant_idle", limit(limits.tenant_idle, words)),
        ("tenants", limit(limits.tenants, grouped)),
        (
            "new_tenants_per_hour",
            limit(limits.new_tenants_per_hour, grouped),
        ),
        (
            "requests_per_second",
            limit(limits.requests_per_second, grouped),
        ),
        ("requests_burst", limit(limits.requests_burst, grouped)),
        (
            "requests_in_flight",
            limit(limits.requests_in_flight, grouped),
        ),
        ("connections", limit(limits.connections, grouped)),
        (
            "new_connections_per_second",
            limit(limits.new_connections_per_second, grouped),
        ),
        (
            "new_connections_burst",
            limit(limits.new_connections_burst, grouped),
        ),
        ("ban_refusals", limit(limits.ban_refusals, grouped)),
        ("ban_lengths", bans),
    ])
}

fn limit<T>(cap: Cap<T>, text: impl Fn(T) -> String) -> Limit {
    let text = cap.limit().map(text);
    Limit {
        on: text.is_some(),
        text: text.unwrap_or_default(),
    }
}

/// `256KiB` as `256 KiB`.
fn spaced(text: &str) -> String {
    match text.find(|c: char| !c.is_ascii_digit()) {
        Some(at) => format!("{} {}", &text[..at], &text[at..]),
        None => text.to_owned(),
    }
}

/// `10000` as `10,000`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A span in its largest unit that divides it.
fn words(span: Span) -> String {
    let millis = span.duration().as_millis();
    let units = [
        ("day", 86_400_000),
        ("hour", 3_600_000),
        ("minute", 60_000),
        ("second", 1000),
    ];
    let (unit, length) = units
        .into_iter()
        .find(|(_, length)| millis.is_multiple_of(*length))
        .unwrap_or(("millisecond", 1));
    let count = millis / length;
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_for_people() {
        assert_eq!(words(Span::secs(3600)), "1 hour");
        assert_eq!(words(Span::secs(7 * 86_400)), "7 days");
        assert_eq!(words(Span::secs(90)), "90 seconds");
        assert_eq!(spaced("256KiB"), "256 KiB");
        assert_eq!(
            [grouped(100), grouped(10_000), grouped(1_234_567)],
            ["100", "10,000", "1,234,567"]
        );
    }
}

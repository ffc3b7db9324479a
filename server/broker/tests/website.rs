//! The website as the real binary serves it, over a socket.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};
use support::Broker;

struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines
            .filter(|(field, _)| field.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
            .next()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

impl Broker {
    fn request(&self, line: &str, fields: &[(&str, &str)], body: &str) -> Answer {
        ask(self.address("http"), line, fields, body)
    }

    fn visit(&self, path: &str) -> Answer {
        self.request(&format!("GET {path}"), &[], "")
    }

    fn try_sqs(&self, action: &str, body: &Value, fields: &[(&str, &str)]) -> Answer {
        let target = format!("AmazonSQS.{action}");
        let own = [
            ("x-amz-target", target.as_str()),
            ("content-type", "application/x-amz-json-1.0"),
            (
                "authorization",
                "AWS4-HMAC-SHA256 Credential=test/20261201/us-east-1/sqs/aws4_request, SignedHeaders=host, Signature=0",
            ),
        ];
        let fields = [&own[..], fields].concat();
        self.request("POST /try/sqs", &fields, &body.to_string())
    }
}

fn ask(address: SocketAddr, line: &str, fields: &[(&str, &str)], body: &str) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    let mut request = format!(
        "{line} HTTP/1.0\r\nhost: x\r\ncontent-length: {}\r\n",
        body.len()
    );
    for (name, value) in fields {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    write!(stream, "{request}\r\n{body}").unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let end = bytes
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap();
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    Answer {
        status: head[9..12].parse().unwrap(),
        head,
        body: bytes[end + 4..].to_vec(),
    }
}

#[test]
fn every_page_and_file_is_served_with_its_type_and_the_headers_for_browsers() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::on(folder.path(), &["limits.message_bytes=256KiB"]);
    for (path, content_type) in [
        ("/", "text/html; charset=utf-8"),
        ("/how", "text/html; charset=utf-8"),
        ("/docs", "text/html; charset=utf-8"),
        ("/docs/sqs", "text/html; charset=utf-8"),
        ("/limits", "text/html; charset=utf-8"),
        ("/address", "text/html; charset=utf-8"),
        ("/privacy", "text/html; charset=utf-8"),
        ("/assets/style.css", "text/css; charset=utf-8"),
        ("/assets/page.js", "text/javascript; charset=utf-8"),
        ("/assets/mark.svg", "image/svg+xml"),
        ("/assets/fonts/bricolage-grotesque-700.woff2", "font/woff2"),
        ("/robots.txt", "text/plain; charset=utf-8"),
        ("/.well-known/security.txt", "text/plain; charset=utf-8"),
    ] {
        let answer = broker.visit(path);
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, Some(content_type)),
            "{path}"
        );
        assert_eq!(
            answer.header("content-security-policy"),
            Some("default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'")
        );
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        let known = [("if-none-match", answer.header("etag").unwrap())];
        assert_eq!(
            broker.request(&format!("GET {path}"), &known, "").status,
            304,
            "{path}"
        );
    }
    assert!(
        broker
            .visit("/limits")
            .text()
            .contains("<strong>256 KiB</strong>")
    );
    let gzip = broker.request("GET /", &[("accept-encoding", "gzip")], "");
    assert_eq!(
        (gzip.header("content-encoding"), &gzip.body[..2]),
        (Some("gzip"), &[0x1f, 0x8b][..])
    );
    let missing = broker.visit("/base.html");
    assert_eq!(
        (missing.status, missing.header("content-type")),
        (404, Some("text/html; charset=utf-8"))
    );
    assert_eq!(broker.request("POST /", &[], "x").status, 405);
}

#[test]
fn what_is_tried_from_the_page_is_in_the_figures_the_metrics_and_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::on(folder.path(), &[]);
    let made = broker.try_sqs("CreateQueue", &json!({ "QueueName": "q" }), &[]);
    assert_eq!(made.status, 200, "{}", made.text());
    let url = made.json()["QueueUrl"].clone();
    let message = json!({ "QueueUrl": url, "MessageBody": "hello" });
    assert_eq!(broker.try_sqs("SendMessage", &message, &[]).status, 200);
    let received = broker
        .try_sqs("ReceiveMessage", &json!({ "QueueUrl": url }), &[])
        .json();
    let handle = &received["Messages"][0]["ReceiptHandle"];
    let delete = json!({ "QueueUrl": url, "ReceiptHandle": handle });
    assert_eq!(broker.try_sqs("DeleteMessage", &delete, &[]).status, 200);

    let metrics = ask(broker.address("metrics"), "GET /metrics", &[], "");
    for line in [
        "powerqueue_messages_sent_total{protocol=\"sqs\"} 1",
        "powerqueue_messages_delivered_total{protocol=\"sqs\"} 1",
        "powerqueue_messages_deleted_total{protocol=\"sqs\"} 1",
        "powerqueue_requests_total{operation=\"SendMessage\",protocol=\"sqs\",result=\"ok\"} 1",
        "powerqueue_requests_total{operation=\"SendMessage\",protocol=\"sqs\",result=\"failed\"} 0",
    ] {
        assert!(metrics.text().lines().any(|shown| shown == line), "{line}");
    }
    broker.stop();

    let broker = Broker::on(folder.path(), &[]);
    let totals = &broker.visit("/api/stats").json()["totals"];
    assert_eq!(
        *totals,
        json!({ "in": 1, "out": 1, "requests": 4, "refusals": 0, "bans": 0, "tenants_created": 1 })
    );
    for (window, points) in [("hour", 720), ("day", 1440), ("week", 1008)] {
        let history = broker
            .visit(&format!("/api/history?window={window}"))
            .json();
        assert_eq!(history["time"].as_array().unwrap().len(), points);
        assert_eq!(
            history["series"]["tenants"].as_array().unwrap().len(),
            points
        );
    }
    assert_eq!(broker.visit("/api/history?window=year").status, 400);
}

#[test]
fn the_figures_are_the_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let limits = ["limits.requests_per_second=1", "limits.requests_burst=40"];
    let broker = Broker::on(folder.path(), &limits);
    for name in ["a", "b", "c"] {
        broker.try_sqs("CreateQueue", &json!({ "QueueName": name }), &[]);
    }
    let url = "http://x/000000000000/a";
    for (action, body) in [
        (
            "SendMessage",
            json!({ "QueueUrl": url, "MessageBody": "x" }),
        ),
        ("SendMessage", json!({ "QueueUrl": url, "MessageBody": "" })),
        (
            "SendMessageBatch",
            json!({ "QueueUrl": url, "Entries": [
            { "Id": "1", "MessageBody": "x" }, { "Id": "2", "MessageBody": "y" } ] }),
        ),
        ("ReceiveMessage", json!({ "QueueUrl": url })),
        ("NoSuchAction", json!({})),
    ] {
        broker.try_sqs(action, &body, &[]);
    }
    let mut refused = 0;
    while refused < 5 {
        refused += u64::from(broker.try_sqs("ListQueues", &json!({}), &[]).status == 403);
    }
    let metrics = ask(broker.address("metrics"), "GET /metrics", &[], "");
    let first = |name: &str| sum(metrics.text(), name);
    assert_eq!(first("powerqueue_messages_sent_total"), 3);
    assert_eq!(first("powerqueue_admission_refused_total"), 5);
    assert!(first("powerqueue_requests_total") > 9);
    broker.stop();

    // The second life shows the first one's totals at once, and its own state.
    let broker = Broker::on(folder.path(), &limits);
    let figures = broker.visit("/api/stats").json();
    for (figure, name) in [
        ("in", "powerqueue_messages_sent_total"),
        ("out", "powerqueue_messages_delivered_total"),
        ("requests", "powerqueue_requests_total"),
        ("refusals", "powerqueue_admission_refused_total"),
        ("bans", "powerqueue_bans_total"),
        ("tenants_created", "powerqueue_tenants_created_total"),
    ] {
        assert_eq!(figures["totals"][figure], json!(first(name)), "{figure}");
    }
    let metrics = ask(broker.address("metrics"), "GET /metrics", &[], "");
    for (figure, name) in [
        ("tenants", "powerqueue_tenants"),
        ("queues", "powerqueue_queues"),
        ("messages", "powerqueue_messages"),
        ("receivers", "powerqueue_receivers"),
        ("message_bytes", "powerqueue_storage_live_bytes"),
        ("bans", "powerqueue_bans_active"),
    ] {
        assert_eq!(
            figures["now"][figure],
            json!(sum(metrics.text(), name)),
            "{figure}"
        );
    }
    assert_eq!(figures["now"]["queues"], json!(3));
}

/// All series of a metric together.
fn sum(metrics: &str, name: &str) -> u64 {
    let values = metrics.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let (labels, value) = rest.rsplit_once(' ')?;
        (labels.is_empty() || labels.starts_with('{')).then(|| value.parse::<u64>().unwrap())
    });
    values.sum()
}

#[test]
fn only_pages_of_our_own_may_try() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::on(folder.path(), &["website.origin=https://site.example"]);
    let list = |fields: &[(&str, &str)]| broker.try_sqs("ListQueues", &json!({}), fields).status;
    assert_eq!(
        list(&[
            ("origin", "https://site.example"),
            ("sec-fetch-site", "same-origin")
        ]),
        200
    );
    assert_eq!(list(&[("sec-fetch-site", "cross-site")]), 403);
    assert_eq!(list(&[("sec-fetch-site", "same-site")]), 403);
    assert_eq!(list(&[("origin", "https://evil.example")]), 403);
    assert_eq!(broker.visit("/try/sqs").status, 403);
}

#[test]
fn a_banned_address_is_told_so_and_can_still_ask_how_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    let limits = [
        "limits.requests_per_second=1",
        "limits.requests_burst=1",
        "limits.ban_refusals=3",
    ];
    let broker = Broker::on(folder.path(), &limits);
    while broker.try_sqs("ListQueues", &json!({}), &[]).status != 429 {}
    let page = broker.visit("/docs");
    assert_eq!(page.status, 429);
    assert!(page.header("retry-after").is_some());
    let figures = broker.visit("/api/stats");
    assert_eq!(
        (figures.status, &figures.json()["error"]),
        (429, &json!("banned"))
    );
    assert_eq!(broker.visit("/assets/style.css").status, 200);
    assert_eq!(broker.visit("/healthz/live").status, 200);
    let standing = broker.visit("/api/address");
    assert_eq!(
        (standing.status, &standing.json()["ban"]["level"]),
        (200, &json!(1))
    );
    assert_eq!(standing.json()["requests"]["burst"], json!(1));
}

#[test]
fn viewers_get_identical_bytes_and_spend_no_budget() {
    let folder = tempfile::tempdir().unwrap();
    let limits = ["limits.requests_per_second=1", "limits.requests_burst=2"];
    let broker = Broker::on(folder.path(), &limits);
    // One rendering lasts five seconds; a thousand questions at once see one or two.
    let mut bodies: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let viewers: Vec<_> = (0..20)
            .map(|_| {
                scope.spawn(|| {
                    (0..50)
                        .map(|_| broker.visit("/api/stats").body)
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        viewers
            .into_iter()
            .flat_map(|viewer| viewer.join().unwrap())
            .collect()
    });
    assert_eq!(bodies.len(), 1000);
    bodies.sort();
    bodies.dedup();
    assert!(bodies.len() <= 4, "{} renderings", bodies.len());
    assert_eq!(
        broker.visit("/api/address").json()["requests"]["left"],
        json!(2)
    );
}

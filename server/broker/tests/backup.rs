//! Backups and the self-test of the real binary, as an operator runs them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

mod support;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;
use serde_json::{Value, json};
use support::{Broker, on_free_ports};

/// So that a backup sees many.
const SMALL_SEGMENTS: &str = "storage.segment_bytes=64KiB";

fn start(data: &Path) -> Broker {
    Broker::on(data, &[SMALL_SEGMENTS])
}

impl Broker {
    /// A status and an answer of SQS.
    fn sqs(&self, action: &str, input: &Value) -> (u16, Value) {
        let body = input.to_string();
        let mut stream = TcpStream::connect(self.address("sqs")).unwrap();
        write!(
            stream,
            "POST / HTTP/1.0\r\nHost: x\r\nContent-Type: application/x-amz-json-1.0\r\n\
             X-Amz-Target: AmazonSQS.{action}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let value = serde_json::from_str(body).unwrap_or(Value::Null);
        (head[9..12].parse().unwrap(), value)
    }

    fn ok(&self, action: &str, input: &Value) -> Value {
        let (status, value) = self.sqs(action, input);
        assert_eq!(status, 200, "{action}: {value}");
        value
    }

    fn queue(&self) -> String {
        let made = self.ok(
            "CreateQueue",
            &json!({ "QueueName": "q", "Attributes": { "VisibilityTimeout": "2" } }),
        );
        made["QueueUrl"].as_str().unwrap().to_owned()
    }

    fn send(&self, queue: &str, body: &str) {
        self.ok(
            "SendMessage",
            &json!({ "QueueUrl": queue, "MessageBody": body }),
        );
    }

    /// Up to ten bodies and handles.
    fn receive(&self, queue: &str) -> Vec<(String, String)> {
        let input = json!({ "QueueUrl": queue, "MaxNumberOfMessages": 10, "WaitTimeSeconds": 1 });
        let answer = self.ok("ReceiveMessage", &input);
        let messages = answer["Messages"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        messages
            .iter()
            .map(|message| (text(&message["Body"]), text(&message["ReceiptHandle"])))
            .collect()
    }

    fn delete(&self, queue: &str, handle: &str) -> (u16, Value) {
        self.sqs(
            "DeleteMessage",
            &json!({ "QueueUrl": queue, "ReceiptHandle": handle }),
        )
    }
}

fn backup(data: &Path, into: &Path) -> Output {
    on_free_ports(data, &[SMALL_SEGMENTS])
        .arg("backup")
        .arg(into)
        .output()
        .unwrap()
}

/// What clients know, in the order in which they learn it.
#[derive(Default)]
struct Known {
    /// Sends begun and confirmed, by number.
    sending: Mutex<BTreeSet<u32>>,
    sent: Mutex<BTreeSet<u32>>,
    /// Deletes begun and confirmed.
    deleting: Mutex<BTreeSet<u32>>,
    deleted: Mutex<BTreeSet<u32>>,
}

/// A kilobyte that begins with a number.
fn body(number: u32) -> String {
    format!("{number} {}", "x".repeat(1000))
}

fn number(body: &str) -> u32 {
    body.split(' ').next().unwrap().parse().unwrap()
}

fn produce(broker: &Broker, queue: &str, known: &Known, next: &AtomicU32, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let n = next.fetch_add(1, Ordering::Relaxed);
        known.sending.lock().insert(n);
        broker.send(queue, &body(n));
        known.sent.lock().insert(n);
    }
}

fn consume(broker: &Broker, queue: &str, known: &Known, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        for (text, handle) in broker.receive(queue) {
            let n = number(&text);
            // Some stay, so that old segments are needed.
            if n.is_multiple_of(3) {
                continue;
            }
            known.deleting.lock().insert(n);
            assert_eq!(broker.delete(queue, &handle).0, 200);
            known.deleted.lock().insert(n);
        }
    }
}

#[test]
fn a_backup_under_load_holds_what_was_confirmed_before_it_and_nothing_that_was_gone() {
    let folder = tempfile::tempdir().unwrap();
    let (data, copy) = (folder.path().join("data"), folder.path().join("copy"));
    let broker = start(&data);
    let queue = broker.queue();
    let (known, next, stop) = (Known::default(), AtomicU32::new(0), AtomicBool::new(false));
    let (before, after) = std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| produce(&broker, &queue, &known, &next, &stop));
        }
        scope.spawn(|| consume(&broker, &queue, &known, &stop));
        while known.sent.lock().len() < 400 || known.deleted.lock().len() < 50 {
            std::thread::yield_now();
        }
        let before = (known.sent.lock().clone(), known.deleted.lock().clone());
        let made = backup(&data, &copy);
        let after = (known.sending.lock().clone(), known.deleting.lock().clone());
        stop.store(true, Ordering::Relaxed);
        let errors = String::from_utf8_lossy(&made.stderr).into_owned();
        assert!(made.status.success(), "{errors}");
        (before, after)
    });
    drop(broker);

    let restored = start(&copy);
    let held = drained(&restored, &restored.queue());
    let (sent, deleted) = before;
    let (sending, deleting) = after;
    let lost: Vec<_> = sent
        .difference(&deleting)
        .filter(|n| !held.contains(n))
        .collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    let risen: Vec<_> = held.intersection(&deleted).collect();
    assert!(risen.is_empty(), "back from the dead: {risen:?}");
    assert!(held.is_subset(&sending));
}

/// Every message of a queue. Those leased when the backup began come back when their lease ends.
fn drained(broker: &Broker, queue: &str) -> BTreeSet<u32> {
    let mut held = BTreeSet::new();
    let counts = json!({ "QueueUrl": queue, "AttributeNames": ["All"] });
    loop {
        for (text, handle) in broker.receive(queue) {
            held.insert(number(&text));
            assert_eq!(broker.delete(queue, &handle).0, 200);
        }
        let answer = broker.ok("GetQueueAttributes", &counts);
        let count = |name: &str| answer["Attributes"][name].as_str().unwrap().to_owned();
        if count("ApproximateNumberOfMessages") == "0"
            && count("ApproximateNumberOfMessagesNotVisible") == "0"
        {
            return held;
        }
    }
}

#[test]
fn a_restored_broker_refuses_the_handles_of_the_original() {
    let folder = tempfile::tempdir().unwrap();
    let (data, copy) = (folder.path().join("data"), folder.path().join("copy"));
    let broker = start(&data);
    let queue = broker.queue();
    broker.send(&queue, "1");
    let (_, handle) = broker.receive(&queue).remove(0);
    assert!(backup(&data, &copy).status.success());
    drop(broker);

    let restored = start(&copy);
    let queue = restored.queue();
    let (status, refusal) = restored.delete(&queue, &handle);
    assert_eq!(status, 400, "{refusal}");
    assert!(
        refusal.to_string().contains("ReceiptHandleIsInvalid"),
        "{refusal}"
    );
}

#[test]
fn a_stopped_brokers_data_can_be_backed_up_and_a_backup_replaces_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (data, copy) = (folder.path().join("data"), folder.path().join("copy"));
    let nothing = backup(&data, &copy);
    assert_eq!(nothing.status.code(), Some(1));
    let broker = start(&data);
    let queue = broker.queue();
    broker.send(&queue, "1");
    drop(broker);
    assert!(backup(&data, &copy).status.success());
    let again = backup(&data, &copy);
    assert_eq!(again.status.code(), Some(1));
    let restored = start(&copy);
    assert_eq!(restored.receive(&restored.queue())[0].0, "1");
}

#[test]
fn the_selftest_passes_on_a_running_broker_and_leaves_no_queue() {
    let folder = tempfile::tempdir().unwrap();
    let broker = start(folder.path());
    let sqs = format!("listen.sqs={}", broker.address("sqs"));
    let identifier = "a23456789012345678901234";
    let test = |more: &[&str]| {
        let mut command = on_free_ports(folder.path(), &[SMALL_SEGMENTS]);
        command.args(["--set", &sqs, "selftest"]).args(more);
        command.output().unwrap()
    };
    let passed = test(&["--identifier", identifier]);
    let said = String::from_utf8(passed.stdout).unwrap();
    assert_eq!(passed.status.code(), Some(0), "{said}");
    assert!(said.starts_with("sqs: ok ("), "{said}");
    let (_, metrics) = broker.get("metrics", "/metrics");
    assert!(metrics.contains("\npowerqueue_queues 0\n"), "{metrics}");
    assert_eq!(test(&["--identifier", "guest"]).status.code(), Some(78));

    drop(broker);
    let failed = test(&[]);
    assert_eq!(failed.status.code(), Some(1));
    let said = String::from_utf8(failed.stdout).unwrap();
    assert!(
        said.starts_with("sqs: failed: CreateQueue: no answer"),
        "{said}"
    );
}

#[test]
fn the_selftest_signs_where_signatures_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::on(folder.path(), &[SMALL_SEGMENTS, "auth.keys.AKID=secret"]);
    let sqs = format!("listen.sqs={}", broker.address("sqs"));
    let test = |key: &str| {
        let mut command = on_free_ports(folder.path(), &[SMALL_SEGMENTS]);
        command.args(["--set", &sqs, "--set", key, "selftest"]);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert!(test("auth.keys.AKID=secret").starts_with("sqs: ok ("));
    let refused = test("auth.keys.AKID=other");
    assert!(refused.contains("SignatureDoesNotMatch"), "{refused}");
}

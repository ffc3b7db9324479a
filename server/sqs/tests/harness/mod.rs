//! A service over a real node and disk, and clients of it in either protocol.
#![allow(dead_code)] // each test file uses its part

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use powerqueue_admission::{Admission, Counted};
use powerqueue_engine::Limits;
use powerqueue_node::{Node, Options, open};
use powerqueue_sqs::{Config, RequestContext, Sqs};
use powerqueue_store::{DiskFs, Store};
use serde_json::{Value, json};

/// A service, and the folder it lives in.
pub struct Service {
    pub sqs: Sqs,
    pub node: Node,
    pub key: String,
}

/// The store in that folder, once whoever had it has let go: tasks of a closed node end at their next turn.
fn unlocked_store(path: &Path, options: &powerqueue_store::Options) -> Store {
    loop {
        let fs = Arc::new(DiskFs::new(path).unwrap());
        match Store::open(fs, options.clone()) {
            Err(powerqueue_store::OpenError::Locked) => {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            opened => return opened.unwrap(),
        }
    }
}

/// A node in that folder.
pub fn node(path: &Path, limits: Limits) -> Node {
    let options = powerqueue_store::Options {
        segment_bytes: 64 << 20,
        min_free_bytes: 0,
        ..Default::default()
    };
    open(
        unlocked_store(path, &options),
        Options {
            shards: 2,
            limits,
            ..Options::default()
        },
    )
    .unwrap()
}

impl Service {
    pub fn start(path: &Path, config: Config) -> Self {
        Self::start_with(path, config, Limits::UNLIMITED)
    }

    pub fn start_with(path: &Path, config: Config, limits: Limits) -> Self {
        let node = node(path, limits);
        let key = "abcdefghijklmnopqrstuvwx".to_owned();
        Self {
            sqs: Sqs::new(node.clone(), Admission::off(), config),
            node,
            key,
        }
    }

    /// The same service for another client.
    pub fn with_key(&self, key: &str) -> Self {
        Self {
            sqs: self.sqs.clone(),
            node: self.node.clone(),
            key: key.to_owned(),
        }
    }

    /// A call in the JSON protocol: the status and the body.
    pub async fn json(&self, action: &str, parameters: Value) -> (u16, Value) {
        let credential = format!(
            "Credential={}/20260101/us-east-1/sqs/aws4_request",
            self.key
        );
        let request = Request::post("/")
            .header("host", "localhost:9324")
            .header("x-amz-target", format!("AmazonSQS.{action}"))
            .header(
                "authorization",
                format!("AWS4-HMAC-SHA256 {credential}, SignedHeaders=host, Signature=0"),
            );
        let response = self
            .send(request.body(Bytes::from(parameters.to_string())).unwrap())
            .await;
        (
            response.status().as_u16(),
            serde_json::from_slice(response.body()).unwrap(),
        )
    }

    /// A call that must succeed.
    pub async fn ok(&self, action: &str, parameters: Value) -> Value {
        let (status, body) = self.json(action, parameters).await;
        assert_eq!(status, 200, "{action}: {body}");
        body
    }

    /// A call that must fail: the name and the words of its error.
    pub async fn refused(&self, action: &str, parameters: Value) -> (String, String) {
        let (status, body) = self.json(action, parameters).await;
        assert_ne!(status, 200, "{action}: {body}");
        let name = body["__type"]
            .as_str()
            .unwrap()
            .trim_start_matches("com.amazonaws.sqs#")
            .to_owned();
        (name, body["message"].as_str().unwrap().to_owned())
    }

    /// A GET in the Query protocol: the status and the body.
    pub async fn get(&self, uri: &str) -> (u16, String) {
        let response = self
            .send(
                Request::get(uri)
                    .header("host", "localhost:9324")
                    .body(Bytes::new())
                    .unwrap(),
            )
            .await;
        (
            response.status().as_u16(),
            String::from_utf8(response.body().to_vec()).unwrap(),
        )
    }

    pub async fn send(&self, request: Request<Bytes>) -> Response<Bytes> {
        let (parts, body) = request.into_parts();
        let context = RequestContext {
            counted: Counted::Yes,
            client: Ipv4Addr::LOCALHOST.into(),
            tls: false,
            behind_proxy: false,
        };
        self.sqs.call(parts, body, context).await
    }

    /// Makes a queue and returns its URL.
    pub async fn create(&self, name: &str, attributes: Value) -> String {
        let made = self
            .ok(
                "CreateQueue",
                json!({ "QueueName": name, "Attributes": attributes }),
            )
            .await;
        made["QueueUrl"].as_str().unwrap().to_owned()
    }

    pub async fn put(&self, url: &str, body: &str) -> Value {
        self.ok(
            "SendMessage",
            json!({ "QueueUrl": url, "MessageBody": body }),
        )
        .await
    }

    /// Receives without waiting; the messages.
    pub async fn take(&self, url: &str, more: Value) -> Vec<Value> {
        let mut parameters = json!({ "QueueUrl": url, "MaxNumberOfMessages": 10 });
        for (name, value) in more.as_object().unwrap() {
            parameters[name] = value.clone();
        }
        let received = self.ok("ReceiveMessage", parameters).await;
        received["Messages"].as_array().cloned().unwrap_or_default()
    }

    pub async fn attribute(&self, url: &str, name: &str) -> String {
        let got = self
            .ok(
                "GetQueueAttributes",
                json!({ "QueueUrl": url, "AttributeNames": [name] }),
            )
            .await;
        got["Attributes"][name].as_str().unwrap().to_owned()
    }
}

/// One field of each message.
pub fn field(messages: &[Value], name: &str) -> Vec<String> {
    messages
        .iter()
        .map(|m| m[name].as_str().unwrap().to_owned())
        .collect()
}

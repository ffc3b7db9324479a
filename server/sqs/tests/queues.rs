//! Queues: making, using, naming, protecting, and moving their dead letters back.
#![allow(clippy::panic, clippy::unwrap_used, missing_docs)]

mod harness;

use std::time::Duration;

use harness::{Service, field};
use powerqueue_engine::{Limits, Millis};
use powerqueue_sqs::{Config, Key, Keys};
use serde_json::{Value, json};

const CAPS: Limits = Limits {
    entities: 3,
    messages_per_queue: 2,
    lifetime: Millis::from_secs(3600),
    ..Limits::UNLIMITED
};

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_made_once_and_again_only_alike() {
    let dir = tempfile::tempdir().unwrap();
    let service = Service::start(dir.path(), Config::local());
    let url = service.create("q", json!({ "DelaySeconds": "1" })).await;
    assert_eq!(service.create("q", json!({})).await, url);
    let other = json!({ "QueueName": "q", "Attributes": { "DelaySeconds": "2" } });
    let (name, text) = service.refused("CreateQueue", other).await;
    assert_eq!(name, "QueueNameExists");
    assert!(
        text.ends_with("a different value for attribute DelaySeconds"),
        "{text}"
    );
    service.ok("DeleteQueue", json!({ "QueueUrl": url })).await;
    assert_eq!(
        service
            .refused("CreateQueue", json!({ "QueueName": "q" }))
            .await
            .0,
        "QueueDeletedRecently"
    );
    // To whom uses it, the deleted queue is not there.
    assert_eq!(
        service
            .refused("GetQueueUrl", json!({ "QueueName": "q" }))
            .await
            .0,
        "QueueDoesNotExist"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn use_makes_a_queue_where_it_may() {
    let dir = tempfile::tempdir().unwrap();
    let service = Service::start(dir.path(), Config::local());
    let url = service.ok("GetQueueUrl", json!({ "QueueName": "q" })).await["QueueUrl"].clone();
    assert!(
        service
            .take(url.as_str().unwrap(), json!({}))
            .await
            .is_empty()
    );
    service.put("by-name", "b").await;
    assert_eq!(
        field(&service.take("by-name", json!({})).await, "Body"),
        ["b"]
    );
    // An explicit create makes it what is asked for.
    let url = service
        .create("by-name", json!({ "VisibilityTimeout": "7" }))
        .await;
    assert_eq!(service.attribute(&url, "VisibilityTimeout").await, "7");
    let strict = tempfile::tempdir().unwrap();
    let strict = Service::start(
        strict.path(),
        Config {
            create_by_use: false,
            ..Config::local()
        },
    );
    for (action, more) in [
        ("GetQueueUrl", json!({ "QueueName": "q" })),
        ("ReceiveMessage", json!({ "QueueUrl": "q" })),
    ] {
        assert_eq!(strict.refused(action, more).await.0, "QueueDoesNotExist");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_do_not_see_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let one = Service::start(dir.path(), Config::local());
    let two = one.with_key("zyxwvutsrqponmlkjihgfedc");
    let (url_one, url_two) = (
        one.create("q", json!({})).await,
        two.create("q", json!({})).await,
    );
    assert_ne!(url_one, url_two);
    one.put(&url_one, "b").await;
    assert!(two.take(&url_two, json!({})).await.is_empty());
    for action in ["ReceiveMessage", "PurgeQueue", "GetQueueAttributes"] {
        assert_eq!(
            two.refused(action, json!({ "QueueUrl": url_one })).await.0,
            "QueueDoesNotExist"
        );
    }
    let policy = json!({ "deadLetterTargetArn": one.attribute(&url_one, "QueueArn").await, "maxReceiveCount": 1 });
    let attributes = json!({ "RedrivePolicy": policy.to_string() });
    let refused = two
        .refused(
            "SetQueueAttributes",
            json!({ "QueueUrl": url_two, "Attributes": attributes }),
        )
        .await;
    assert_eq!(refused.0, "InvalidParameterValueException");
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_are_listed_in_pages() {
    let dir = tempfile::tempdir().unwrap();
    let service = Service::start(dir.path(), Config::local());
    for name in ["a-1", "a-2", "a-3", "b-1"] {
        service.create(name, json!({})).await;
    }
    let first = service
        .ok(
            "ListQueues",
            json!({ "QueueNamePrefix": "a-", "MaxResults": 2 }),
        )
        .await;
    assert_eq!(first["QueueUrls"].as_array().unwrap().len(), 2);
    let rest = json!({ "QueueNamePrefix": "a-", "MaxResults": 2, "NextToken": first["NextToken"] });
    let rest = service.ok("ListQueues", rest).await;
    assert!(
        rest["QueueUrls"][0].as_str().unwrap().ends_with("/a-3") && rest.get("NextToken").is_none()
    );
    assert_eq!(
        service
            .ok("ListQueues", json!({ "QueueNamePrefix": "none" }))
            .await,
        json!({})
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn tags_and_permissions_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let service = Service::start(dir.path(), Config::local());
    let url = service.create("q", json!({})).await;
    service
        .ok(
            "TagQueue",
            json!({ "QueueUrl": url, "Tags": { "a": "1", "b": "" } }),
        )
        .await;
    service
        .ok(
            "UntagQueue",
            json!({ "QueueUrl": url, "TagKeys": ["a", "none"] }),
        )
        .await;
    assert_eq!(
        service
            .ok("ListQueueTags", json!({ "QueueUrl": url }))
            .await,
        json!({ "Tags": { "b": "" } })
    );
    let permission = json!({ "QueueUrl": url, "Label": "l", "AWSAccountIds": ["000000000009"], "Actions": ["SendMessage"] });
    service.ok("AddPermission", permission).await;
    assert!(
        service
            .attribute(&url, "Policy")
            .await
            .contains("arn:aws:iam::000000000009:root")
    );
    service
        .ok("RemovePermission", json!({ "QueueUrl": url, "Label": "l" }))
        .await;
    let policy = json!({ "QueueUrl": url, "AttributeNames": ["Policy"] });
    assert_eq!(service.ok("GetQueueAttributes", policy).await, json!({}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_empties_and_has_to_wait_for_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let service = Service::start(dir.path(), Config::local());
    let url = service.create("q", json!({})).await;
    service.put(&url, "b").await;
    service.ok("PurgeQueue", json!({ "QueueUrl": url })).await;
    assert!(service.take(&url, json!({})).await.is_empty());
    let (status, body) = service.json("PurgeQueue", json!({ "QueueUrl": url })).await;
    assert_eq!(status, 403);
    assert_eq!(
        body["message"],
        "Only one PurgeQueue operation on q is allowed every 60 seconds."
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_public_service_takes_identifiers_only_and_refuses_above_its_caps() {
    let dir = tempfile::tempdir().unwrap();
    let service = Service::start_with(dir.path(), Config::public(), CAPS);
    let (status, body) = service.with_key("test").json("ListQueues", json!({})).await;
    assert_eq!(
        (status, &body["__type"]),
        (403, &json!("com.amazonaws.sqs#InvalidClientTokenId"))
    );
    assert!(
        body["message"]
            .as_str()
            .unwrap()
            .starts_with("this public service needs a tenant identifier")
    );
    let url = service.create("q", json!({})).await;
    assert_eq!(
        service.attribute(&url, "MessageRetentionPeriod").await,
        "3600"
    );
    let longer = json!({ "QueueUrl": url, "Attributes": { "MessageRetentionPeriod": "3601" } });
    assert_eq!(
        service.refused("SetQueueAttributes", longer).await.0,
        "InvalidAttributeValue"
    );
    service.put(&url, "1").await;
    let entries =
        json!([{ "Id": "fits", "MessageBody": "2" }, { "Id": "not", "MessageBody": "3" }]);
    let answer = service
        .ok(
            "SendMessageBatch",
            json!({ "QueueUrl": url, "Entries": entries }),
        )
        .await;
    assert_eq!(answer["Failed"][0]["Code"], "OverLimit");
    let (status, body) = service
        .json(
            "SendMessage",
            json!({ "QueueUrl": url, "MessageBody": "4" }),
        )
        .await;
    assert_eq!(
        (status, &body["__type"]),
        (403, &json!("com.amazonaws.sqs#OverLimit"))
    );
    service.create("q2", json!({})).await;
    service.create("q3", json!({})).await;
    assert_eq!(
        service
            .refused("CreateQueue", json!({ "QueueName": "q4" }))
            .await
            .0,
        "OverLimit"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_service_wants_signatures() {
    let dir = tempfile::tempdir().unwrap();
    let keys = Keys::new([(
        "known".to_owned(),
        Key {
            secret: "s".into(),
            tenant: "team".into(),
        },
    )]);
    let service = Service::start(dir.path(), Config::private(keys));
    let (status, xml) = service.get("/?Action=ListQueues").await;
    assert_eq!(status, 403);
    assert!(
        xml.contains("<Code>MissingAuthenticationToken</Code>"),
        "{xml}"
    );
    // The harness does not sign, and sends no date.
    assert_eq!(
        service
            .with_key("known")
            .refused("ListQueues", json!({}))
            .await
            .0,
        "IncompleteSignature"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_is_told_who_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let service = Service::start(dir.path(), Config::local());
    let (status, xml) = service
        .get("/?Action=GetCallerIdentity&Version=2011-06-15")
        .await;
    assert_eq!(status, 200);
    assert!(
        xml.contains("xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"")
            && xml.contains("<Account>1"),
        "{xml}"
    );
}

/// A queue with one dead letter in its dead-letter queue.
async fn with_dead_letter(service: &Service, bodies: &[&str]) -> (String, String, String) {
    let dead = service.create("dead", json!({})).await;
    let arn = service.attribute(&dead, "QueueArn").await;
    let policy = json!({ "deadLetterTargetArn": arn, "maxReceiveCount": 1 }).to_string();
    let url = service
        .create("q", json!({ "RedrivePolicy": policy }))
        .await;
    for body in bodies {
        service.put(&url, body).await;
    }
    for _ in 0..2 {
        service.take(&url, json!({ "VisibilityTimeout": 0 })).await;
    }
    assert_eq!(
        service
            .attribute(&dead, "ApproximateNumberOfMessages")
            .await,
        bodies.len().to_string()
    );
    (url, dead, arn)
}

async fn wait_for(service: &Service, arn: &str, status: &str) -> Value {
    for _ in 0..200 {
        let listed = service
            .ok("ListMessageMoveTasks", json!({ "SourceArn": arn }))
            .await;
        if listed["Results"][0]["Status"] == status {
            return listed["Results"][0].clone();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the task never was {status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_keep_their_id_and_come_back_under_a_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let service = Service::start(dir.path(), Config::local());
    let (url, dead, arn) = with_dead_letter(&service, &["a", "b"]).await;
    let sources = service
        .ok("ListDeadLetterSourceQueues", json!({ "QueueUrl": dead }))
        .await;
    assert_eq!(sources, json!({ "queueUrls": [url] }));
    let none = service
        .ok("ListDeadLetterSourceQueues", json!({ "QueueUrl": url }))
        .await;
    assert_eq!(none, json!({ "queueUrls": [] }));
    let all = json!({ "AttributeNames": ["All"], "VisibilityTimeout": 0 });
    let lying = service.take(&dead, all).await;
    assert!(
        lying[0]["Attributes"]["DeadLetterQueueSourceArn"]
            .as_str()
            .unwrap()
            .ends_with(":q")
    );
    let started = service
        .ok("StartMessageMoveTask", json!({ "SourceArn": arn }))
        .await;
    assert!(started["TaskHandle"].is_string());
    let done = wait_for(&service, &arn, "COMPLETED").await;
    assert_eq!(
        (
            &done["ApproximateNumberOfMessagesMoved"],
            done.get("TaskHandle")
        ),
        (&json!(2), None)
    );
    let back = service.take(&url, json!({})).await;
    assert_eq!(field(&back, "Body"), ["a", "b"]);
    assert_ne!(field(&back, "MessageId"), field(&lying, "MessageId"));
    let not_dead = service.attribute(&url, "QueueArn").await;
    let (_, text) = service
        .refused("StartMessageMoveTask", json!({ "SourceArn": not_dead }))
        .await;
    assert_eq!(
        text,
        "Source queue must be configured as a Dead Letter Queue."
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_task_survives_a_restart_and_can_be_cancelled() {
    let dir = tempfile::tempdir().unwrap();
    let service = Service::start(dir.path(), Config::local());
    let (_, _, arn) = with_dead_letter(&service, &["a", "b", "c", "d", "e", "f", "g", "h"]).await;
    let start = json!({ "SourceArn": arn, "MaxNumberOfMessagesPerSecond": 1 });
    let handle = service.ok("StartMessageMoveTask", start.clone()).await["TaskHandle"].clone();
    let (_, text) = service.refused("StartMessageMoveTask", start).await;
    assert!(
        text.starts_with("There is already a task running."),
        "{text}"
    );
    service.node.drain();
    service.node.close().await;
    drop(service);
    let service = Service::start(dir.path(), Config::local());
    service.sqs.resume();
    let running = wait_for(&service, &arn, "RUNNING").await;
    assert_eq!(running["TaskHandle"], handle);
    service
        .ok("CancelMessageMoveTask", json!({ "TaskHandle": handle }))
        .await;
    wait_for(&service, &arn, "CANCELLED").await;
    assert_eq!(
        service
            .refused("CancelMessageMoveTask", json!({ "TaskHandle": handle }))
            .await
            .1,
        "Task does not exist."
    );
}

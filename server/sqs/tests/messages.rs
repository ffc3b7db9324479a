//! Sending, receiving, deleting and hiding messages, through a real node.
#![allow(clippy::panic, clippy::unwrap_used, missing_docs)]

mod harness;

use std::time::Duration;

use harness::{Service, field};
use powerqueue_sqs::Config;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_message_arrives_as_it_was_sent() {
    let dir = tempfile::tempdir().unwrap();
    let service = Service::start(dir.path(), Config::local());
    let url = service.create("q", json!({})).await;
    let attributes = json!({
        "text": { "DataType": "String.label", "StringValue": "v" },
        "bytes": { "DataType": "Binary", "BinaryValue": "AP8=" },
    });
    let trace = json!({ "AWSTraceHeader": { "DataType": "String", "StringValue": "Root=1" } });
    let sent = service
        .ok(
            "SendMessage",
            json!({ "QueueUrl": url, "MessageBody": "a\r\n<&>", "MessageAttributes": attributes,
                    "MessageSystemAttributes": trace, "MessageGroupId": "g" }),
        )
        .await;
    let all = json!({ "AttributeNames": ["All"], "MessageAttributeNames": ["All"] });
    let got = &service.take(&url, all).await[0];
    assert_eq!(got["Body"], "a\r\n<&>");
    assert_eq!(got["MessageId"], sent["MessageId"]);
    assert_eq!(got["MD5OfBody"], sent["MD5OfMessageBody"]);
    assert_eq!(
        got["MD5OfMessageAttributes"],
        sent["MD5OfMessageAttributes"]
    );
    assert_eq!(got["MessageAttributes"], attributes);
    assert_eq!(got["Attributes"]["AWSTraceHeader"], "Root=1");
    assert_eq!(got["Attributes"]["MessageGroupId"], "g");
    assert_eq!(got["Attributes"]["ApproximateReceiveCount"], "1");
    assert!(got["Attributes"].get("SequenceNumber").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn both_protocols_read_one_queue() {
    let dir = tempfile::tempdir().unwrap();
    let service = Service::start(dir.path(), Config::local()).with_key("anything");
    let url = service.create("q", json!({})).await;
    let path = url.strip_prefix("http://localhost:9324").unwrap();
    let (status, _) = service
        .get(&format!("{path}?Action=SendMessage&MessageBody=a%0D%26"))
        .await;
    assert_eq!(status, 200);
    let (_, xml) = service
        .get(&format!("{path}?Action=ReceiveMessage&VisibilityTimeout=0"))
        .await;
    assert!(xml.contains("<Body>a&#xD;&amp;</Body>"), "{xml}");
    assert_eq!(
        field(&service.take(&url, json!({})).await, "Body"),
        ["a\r&"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_poll_ends_with_the_first_message() {
    let dir = tempfile::tempdir().unwrap();
    let service = Service::start(dir.path(), Config::local());
    let url = service
        .create("q", json!({ "ReceiveMessageWaitTimeSeconds": "20" }))
        .await;
    let poll = service.take(&url, json!({}));
    let send = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        service.put(&url, "b").await;
    };
    let (messages, ()) =
        tokio::time::timeout(Duration::from_secs(5), async { tokio::join!(poll, send) })
            .await
            .unwrap();
    assert_eq!(field(&messages, "Body"), ["b"]);
    assert!(
        service
            .take(&url, json!({ "WaitTimeSeconds": 0 }))
            .await
            .is_empty()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn visibility_is_each_messages_own() {
    let dir = tempfile::tempdir().unwrap();
    let service = Service::start(dir.path(), Config::local());
    let url = service.create("q", json!({})).await;
    for body in ["a", "b"] {
        service.put(&url, body).await;
    }
    let got = service.take(&url, json!({})).await;
    let change = |handle: &serde_json::Value, secs: i64| json!({ "QueueUrl": url, "ReceiptHandle": handle, "VisibilityTimeout": secs });
    service
        .ok(
            "ChangeMessageVisibility",
            change(&got[1]["ReceiptHandle"], 0),
        )
        .await;
    assert_eq!(field(&service.take(&url, json!({})).await, "Body"), ["b"]);
    let delete = json!({ "QueueUrl": url, "ReceiptHandle": got[0]["ReceiptHandle"] });
    service.ok("DeleteMessage", delete.clone()).await;
    service.ok("DeleteMessage", delete).await;
    let (name, text) = service
        .refused(
            "ChangeMessageVisibility",
            change(&got[0]["ReceiptHandle"], 9),
        )
        .await;
    assert_eq!(name, "InvalidParameterValueException");
    assert!(
        text.ends_with("Message does not exist or is not available for visibility timeout change."),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handle_is_good_in_its_own_queue_only() {
    let dir = tempfile::tempdir().unwrap();
    let service = Service::start(dir.path(), Config::local());
    let (one, two) = (
        service.create("one", json!({})).await,
        service.create("two", json!({})).await,
    );
    service.put(&one, "b").await;
    let handle = service.take(&one, json!({})).await[0]["ReceiptHandle"].clone();
    for handle in [handle, json!("garbage")] {
        let refused = service
            .refused(
                "DeleteMessage",
                json!({ "QueueUrl": two, "ReceiptHandle": handle }),
            )
            .await;
        assert_eq!(refused.0, "ReceiptHandleIsInvalid");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_fails_entry_by_entry() {
    let dir = tempfile::tempdir().unwrap();
    let service = Service::start(dir.path(), Config::local());
    let url = service
        .create("q", json!({ "MaximumMessageSize": "1024" }))
        .await;
    let entries = json!([
        { "Id": "good", "MessageBody": "b" },
        { "Id": "large", "MessageBody": "b".repeat(1025) },
        { "Id": "bad", "MessageBody": "\u{1}" },
    ]);
    let answer = service
        .ok(
            "SendMessageBatch",
            json!({ "QueueUrl": url, "Entries": entries }),
        )
        .await;
    assert_eq!(
        field(answer["Successful"].as_array().unwrap(), "Id"),
        ["good"]
    );
    let failed = answer["Failed"].as_array().unwrap();
    assert_eq!(
        field(failed, "Code"),
        ["InvalidParameterValue", "InvalidMessageContents"]
    );
    let handle = service.take(&url, json!({})).await[0]["ReceiptHandle"].clone();
    let entries =
        json!([{ "Id": "1", "ReceiptHandle": handle }, { "Id": "2", "ReceiptHandle": "garbage" }]);
    let answer = service
        .ok(
            "DeleteMessageBatch",
            json!({ "QueueUrl": url, "Entries": entries }),
        )
        .await;
    assert_eq!(answer["Successful"], json!([{ "Id": "1" }]));
    assert_eq!(answer["Failed"][0]["Code"], "ReceiptHandleIsInvalid");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fifo_queue_orders_groups_and_deduplicates() {
    let dir = tempfile::tempdir().unwrap();
    let service = Service::start(dir.path(), Config::local());
    let attributes = json!({ "FifoQueue": "true", "ContentBasedDeduplication": "true", "VisibilityTimeout": "30" });
    let url = service.create("q.fifo", attributes).await;
    let mut sequence = String::new();
    for (body, group) in [("a1", "a"), ("b1", "b"), ("a2", "a"), ("a3", "a")] {
        let message = json!({ "QueueUrl": url, "MessageBody": body, "MessageGroupId": group });
        let sent = service.ok("SendMessage", message.clone()).await;
        let again = service.ok("SendMessage", message).await;
        assert_eq!(sent["MessageId"], again["MessageId"]);
        assert_eq!(sent["SequenceNumber"], again["SequenceNumber"]);
        assert!(sent["SequenceNumber"].as_str().unwrap() > sequence.as_str());
        sequence = sent["SequenceNumber"].as_str().unwrap().to_owned();
    }
    let got = service.take(&url, json!({})).await;
    assert_eq!(field(&got, "Body"), ["a1", "a2", "a3", "b1"]);
    assert!(service.take(&url, json!({})).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receive_attempt_is_answered_again_until_a_message_of_it_changes() {
    let dir = tempfile::tempdir().unwrap();
    let service = Service::start(dir.path(), Config::local());
    let url = service
        .create(
            "q.fifo",
            json!({ "FifoQueue": "true", "ContentBasedDeduplication": "true" }),
        )
        .await;
    service
        .ok(
            "SendMessage",
            json!({ "QueueUrl": url, "MessageBody": "b", "MessageGroupId": "g" }),
        )
        .await;
    let attempt = json!({ "ReceiveRequestAttemptId": "once" });
    let first = service.take(&url, attempt.clone()).await;
    let again = service.take(&url, attempt).await;
    assert_eq!(
        field(&first, "ReceiptHandle"),
        field(&again, "ReceiptHandle")
    );
    service
        .ok(
            "DeleteMessage",
            json!({ "QueueUrl": url, "ReceiptHandle": first[0]["ReceiptHandle"] }),
        )
        .await;
    let parameters = json!({ "QueueUrl": url, "ReceiveRequestAttemptId": "once" });
    let (name, text) = service.refused("ReceiveMessage", parameters).await;
    assert_eq!(name, "InvalidParameterValueException");
    assert!(text.contains("the receive call is not retryable"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_handle_deletes_in_a_standard_queue_and_not_in_a_fifo_one() {
    let dir = tempfile::tempdir().unwrap();
    let service = Service::start(dir.path(), Config::local());
    let standard = service.create("q", json!({})).await;
    let fifo = service
        .create(
            "q.fifo",
            json!({ "FifoQueue": "true", "ContentBasedDeduplication": "true" }),
        )
        .await;
    for url in [&standard, &fifo] {
        service
            .ok(
                "SendMessage",
                json!({ "QueueUrl": url, "MessageBody": "b", "MessageGroupId": "g" }),
            )
            .await;
    }
    let handle = |messages: Vec<serde_json::Value>| messages[0]["ReceiptHandle"].clone();
    let at_once = json!({ "VisibilityTimeout": 0 });
    let stale = handle(service.take(&standard, at_once.clone()).await);
    service
        .ok(
            "DeleteMessage",
            json!({ "QueueUrl": standard, "ReceiptHandle": stale }),
        )
        .await;
    assert_eq!(
        service
            .attribute(&standard, "ApproximateNumberOfMessages")
            .await,
        "0"
    );
    let stale = handle(service.take(&fifo, at_once).await);
    let (_, text) = service
        .refused(
            "DeleteMessage",
            json!({ "QueueUrl": fifo, "ReceiptHandle": stale }),
        )
        .await;
    assert!(text.ends_with("The receipt handle has expired."), "{text}");
}

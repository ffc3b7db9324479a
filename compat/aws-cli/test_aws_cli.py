"""`aws sqs …` as a shell runs it."""

import base64
import json
import os
import pathlib
import secrets
import subprocess
import sys
import time

EXPECTED = json.load(open(os.environ["COMPAT_EXPECTATIONS"]))
AWS = pathlib.Path(sys.executable).with_name("aws")
OTHER_TENANT = {"AWS_ACCESS_KEY_ID": os.environ["OTHER_ACCESS_KEY_ID"], "AWS_SECRET_ACCESS_KEY": os.environ["OTHER_SECRET_ACCESS_KEY"]}


def start(*words, tenant=None):
    # Version 1 of the command overrides SQS's endpoint with a host name of its own unless it is given on the line.
    command = [str(AWS), "sqs", *words, "--output", "json", "--endpoint-url", os.environ["AWS_ENDPOINT_URL_SQS"]]
    environment = os.environ | {"AWS_MAX_ATTEMPTS": "1"} | (tenant or {})
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process, timeout=40):
    out, error = process.communicate(timeout=timeout)
    assert process.returncode == 0, error
    return json.loads(out) if out.strip() else {}


def aws(*words, tenant=None):
    return finish(start(*words, tenant=tenant))


def refused(*words, tenant=None):
    process = start(*words, tenant=tenant)
    _, error = process.communicate(timeout=40)
    assert process.returncode not in (0, None)
    return error


def create(attributes=None, name=None, tenant=None):
    name = name or f"q-{secrets.token_hex(8)}" + (".fifo" if (attributes or {}).get("FifoQueue") else "")
    words = ["--attributes", json.dumps(attributes)] if attributes else []
    return aws("create-queue", "--queue-name", name, *words, tenant=tenant)["QueueUrl"]


def receive(url, *words, tenant=None):
    return aws("receive-message", "--queue-url", url, "--wait-time-seconds", "2", "--max-number-of-messages", "10", *words,
               tenant=tenant).get("Messages", [])


def test_a_message_goes_through_with_body_attributes_and_digests():
    url = create()
    assert aws("get-queue-url", "--queue-name", url.split("/")[-1])["QueueUrl"] == url
    text = {"text": EXPECTED["attributes"]["text"]}
    body = EXPECTED["bodies"]["unicode"]
    sent = aws("send-message", "--queue-url", url, "--message-body", body["body"], "--message-attributes", json.dumps(text))
    assert sent["MD5OfMessageBody"] == body["md5"]
    assert sent["MD5OfMessageAttributes"] == EXPECTED["attributes_md5_of"]["text"]
    [message] = receive(url, "--message-attribute-names", "All", "--attribute-names", "All")
    assert message["Body"] == body["body"]
    assert message["MessageAttributes"] == text
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"
    aws("change-message-visibility", "--queue-url", url, "--receipt-handle", message["ReceiptHandle"], "--visibility-timeout", "0")
    [again] = receive(url, "--visibility-timeout", "1")
    aws("delete-message", "--queue-url", url, "--receipt-handle", again["ReceiptHandle"])
    assert receive(url) == []


def test_a_binary_attribute_goes_in_raw_and_comes_out_as_base64():
    url = create()
    # Version 1 takes what is typed as the bytes themselves.
    aws("send-message", "--queue-url", url, "--message-body", "m", "--message-attributes",
        json.dumps({"raw": {"DataType": "Binary.raw", "BinaryValue": "as typed"}}))
    [message] = receive(url, "--message-attribute-names", "raw")
    assert message["MessageAttributes"] == {"raw": {"DataType": "Binary.raw", "BinaryValue": base64.b64encode(b"as typed").decode()}}


def test_a_waiting_receive_returns_when_another_command_sends():
    url = create()
    waiting = start("receive-message", "--queue-url", url, "--wait-time-seconds", "20")
    time.sleep(3)  # the command needs a moment to start
    aws("send-message", "--queue-url", url, "--message-body", "woken")
    began = time.monotonic()
    assert [message["Body"] for message in finish(waiting)["Messages"]] == ["woken"]
    assert time.monotonic() - began < 8


def test_batches_send_and_delete():
    url = create()
    entries = [{"Id": str(n), "MessageBody": f"m{n}"} for n in range(3)]
    sent = aws("send-message-batch", "--queue-url", url, "--entries", json.dumps(entries))
    assert [entry["Id"] for entry in sent["Successful"]] == ["0", "1", "2"]
    got = []
    while len(got) < 3:
        more = receive(url)
        assert more
        got += more
    handles = [{"Id": str(n), "ReceiptHandle": message["ReceiptHandle"]} for n, message in enumerate(got)]
    assert len(aws("delete-message-batch", "--queue-url", url, "--entries", json.dumps(handles))["Successful"]) == 3


def test_a_fifo_queue_keeps_order_and_drops_duplicates():
    url = create({"FifoQueue": "true"})
    for text in ("a", "b", "a"):
        aws("send-message", "--queue-url", url, "--message-body", text, "--message-group-id", "g", "--message-deduplication-id", text)
    assert [message["Body"] for message in receive(url)] == ["a", "b"]


def test_redrive_moves_a_message_after_its_last_receive():
    dead = create()
    arn = aws("get-queue-attributes", "--queue-url", dead, "--attribute-names", "QueueArn")["Attributes"]["QueueArn"]
    url = create({"VisibilityTimeout": "0", "RedrivePolicy": json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": "1"})})
    aws("send-message", "--queue-url", url, "--message-body", "poison")
    assert len(receive(url)) == 1
    assert receive(url) == []
    assert [message["Body"] for message in receive(dead)] == ["poison"]
    assert aws("list-dead-letter-source-queues", "--queue-url", dead)["queueUrls"] == [url]


def test_attributes_and_tags_are_set_and_read():
    url = create()
    aws("set-queue-attributes", "--queue-url", url, "--attributes", "VisibilityTimeout=7")
    got = aws("get-queue-attributes", "--queue-url", url, "--attribute-names", "All")["Attributes"]
    assert got["VisibilityTimeout"] == "7"
    aws("tag-queue", "--queue-url", url, "--tags", "team=blue,kind=")
    assert aws("list-queue-tags", "--queue-url", url)["Tags"] == {"team": "blue", "kind": ""}
    aws("untag-queue", "--queue-url", url, "--tag-keys", "kind")
    assert aws("list-queue-tags", "--queue-url", url)["Tags"] == {"team": "blue"}


def test_listing_pages_through_all_queues_of_a_prefix():
    prefix = f"p-{secrets.token_hex(6)}"
    urls = [create(name=f"{prefix}-{n}") for n in range(3)]
    assert sorted(aws("list-queues", "--queue-name-prefix", prefix, "--page-size", "1")["QueueUrls"]) == urls


def test_purge_and_delete_and_what_the_command_prints_of_errors():
    url = create()
    aws("send-message", "--queue-url", url, "--message-body", "m")
    aws("purge-queue", "--queue-url", url)
    assert receive(url) == []
    assert "(AWS.SimpleQueueService.PurgeQueueInProgress)" in refused("purge-queue", "--queue-url", url)
    aws("delete-queue", "--queue-url", url)
    error = refused("receive-message", "--queue-url", url)
    assert "(AWS.SimpleQueueService.NonExistentQueue)" in error
    assert "The specified queue does not exist." in error


def test_tenants_do_not_see_each_other():
    url = create()
    aws("send-message", "--queue-url", url, "--message-body", "secret")
    assert url not in aws("list-queues", tenant=OTHER_TENANT).get("QueueUrls", [])
    assert "(AWS.SimpleQueueService.NonExistentQueue)" in refused("receive-message", "--queue-url", url, tenant=OTHER_TENANT)
    assert [message["Body"] for message in receive(url)] == ["secret"]

"""Every documented limit, and that what is above it is refused, never reduced."""

import secrets

import pytest
from conftest import MISSING, fill, fresh_name, receive, refused

KIB, MIB = 1024, 1024 * 1024


def test_a_tenant_has_a_hundred_queues(sqs, other):
    for i in range(100):
        sqs.create_queue(QueueName=f"q{i}")
    refused("OverLimit", 403, sqs.create_queue, QueueName="q100")
    refused("OverLimit", 403, sqs.get_queue_url, QueueName="by-use")
    url = sqs.create_queue(QueueName="q99")["QueueUrl"]
    refused("OverLimit", 403, sqs.send_message, QueueUrl=url[:-3] + "by-use", MessageBody="m")
    other.create_queue(QueueName="q100")
    sqs.delete_queue(QueueUrl=url)
    sqs.create_queue(QueueName="q100")
    assert len(sqs.list_queues()["QueueUrls"]) == 100


@pytest.mark.parametrize("suffix", ["", ".fifo"])
def test_a_queue_holds_a_thousand_messages(sqs, suffix):
    url = sqs.get_queue_url(QueueName=fresh_name(suffix))["QueueUrl"]
    fifo = {"MessageGroupId": lambda i: f"g{i % 7}", "MessageDeduplicationId": lambda i: f"d{i}"} if suffix else {}
    assert fill(sqs, url, 995, **fifo) == (995, [])
    again = {"MessageGroupId": lambda i: "g", "MessageDeduplicationId": lambda i: f"e{i}"} if suffix else {}
    assert fill(sqs, url, 10, **again) == (5, ["OverLimit"] * 5)
    one = {name: made(77) for name, made in again.items()}
    refused("OverLimit", 403, sqs.send_message, QueueUrl=url, MessageBody="m", **one)
    # What is received still counts; what is deleted does not.
    [message] = receive(sqs, url, MaxNumberOfMessages=1)
    refused("OverLimit", 403, sqs.send_message, QueueUrl=url, MessageBody="m", **one)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    sqs.send_message(QueueUrl=url, MessageBody="m", **one)


def test_a_tenant_holds_16_mib(sqs, other):
    urls = [sqs.get_queue_url(QueueName=name)["QueueUrl"] for name in ("a", "b")]
    body = "x" * (255 * KIB)
    accepted = 0
    for i in range(70):
        try:
            sqs.send_message(QueueUrl=urls[i % 2], MessageBody=body)
            accepted += 1
        except sqs.exceptions.OverLimit:
            break
    assert 60 <= accepted <= 16 * MIB // len(body)
    refused("OverLimit", 403, sqs.send_message, QueueUrl=urls[0], MessageBody=body)
    other.send_message(QueueUrl=other.get_queue_url(QueueName="a")["QueueUrl"], MessageBody=body)
    [message] = receive(sqs, urls[0], MaxNumberOfMessages=1)
    refused("OverLimit", 403, sqs.send_message, QueueUrl=urls[0], MessageBody=body)
    sqs.delete_message(QueueUrl=urls[0], ReceiptHandle=message["ReceiptHandle"])
    sqs.send_message(QueueUrl=urls[0], MessageBody=body)


def test_a_full_tenant_still_receives_and_deletes(sqs):
    url = sqs.get_queue_url(QueueName="q")["QueueUrl"]
    body = "x" * (200 * KIB)
    with pytest.raises(sqs.exceptions.OverLimit):
        for _ in range(100):
            sqs.send_message(QueueUrl=url, MessageBody=body)
    left = 0
    while messages := receive(sqs, url, WaitTimeSeconds=0):
        for message in messages:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        left += len(messages)
    assert left >= 70


def test_a_message_has_256_kib_with_its_attributes(sqs, queue):
    sqs.send_message(QueueUrl=queue, MessageBody="x" * (256 * KIB))
    text = refused("InvalidParameterValue", 400, sqs.send_message, QueueUrl=queue, MessageBody="x" * (256 * KIB + 1))
    assert text == "One or more parameters are invalid. Reason: Message must be shorter than 262144 bytes."
    attribute = {"a": {"DataType": "String", "StringValue": "v"}}
    refused("InvalidParameterValue", 400, sqs.send_message, QueueUrl=queue, MessageBody="x" * (256 * KIB), MessageAttributes=attribute)
    sqs.send_message(QueueUrl=queue, MessageBody="x" * (256 * KIB - 8), MessageAttributes=attribute)
    # Characters are counted as the bytes that they take.
    refused("InvalidParameterValue", 400, sqs.send_message, QueueUrl=queue, MessageBody="ä" * (128 * KIB + 1))
    entries = [{"Id": "big", "MessageBody": "x" * (256 * KIB + 1)}, {"Id": "small", "MessageBody": "m"}]
    answer = sqs.send_message_batch(QueueUrl=queue, Entries=entries)
    assert [s["Id"] for s in answer["Successful"]] == ["small"]
    assert [(f["Id"], f["Code"]) for f in answer["Failed"]] == [("big", "InvalidParameterValue")]


def test_a_queue_cannot_ask_for_larger_messages(sqs):
    refused("InvalidAttributeValue", 400, sqs.create_queue, QueueName=fresh_name(), Attributes={"MaximumMessageSize": "262145"})
    sqs.create_queue(QueueName=fresh_name(), Attributes={"MaximumMessageSize": "262144"})


def test_a_tenants_deduplication_ids_take_a_mebibyte_at_most(sqs):
    """Ids are remembered when their messages are gone, so that a drain makes no room for more of them."""
    accepted, codes, unique = 0, [], secrets.token_hex(8)
    for queue in range(12):
        url = sqs.get_queue_url(QueueName=f"q{queue}.fifo")["QueueUrl"]
        got, refused_by = fill(sqs, url, 1000, MessageGroupId=lambda i: "g",
                               MessageDeduplicationId=lambda i: f"{unique}-{queue}-{i}".ljust(128, "x"))
        accepted, codes = accepted + got, codes + refused_by
        if codes:
            break
    assert set(codes) == {"OverLimit"}, "12,000 ids of 128 characters were remembered"
    assert accepted * 16 <= MIB
    refused("OverLimit", 403, sqs.send_message, QueueUrl=url, MessageBody="m", MessageGroupId="g", MessageDeduplicationId="one-more".ljust(128, "y"))
    standard = sqs.get_queue_url(QueueName="standard")["QueueUrl"]
    sqs.send_message(QueueUrl=standard, MessageBody="standard queues remember none")


@pytest.mark.parametrize("name", ["MessageRetentionPeriod", "VisibilityTimeout"])
def test_lifetimes_above_an_hour_are_refused_in_attributes(sqs, queue, name):
    for value in ("3601", "43200", "345600"):
        refused("InvalidAttributeValue", 400, sqs.create_queue, QueueName=fresh_name(), Attributes={name: value})
        refused("InvalidAttributeValue", 400, sqs.set_queue_attributes, QueueUrl=queue, Attributes={name: value})
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={name: "3600"})
    assert sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=[name])["Attributes"][name] == "3600"


def test_lifetimes_that_nobody_asks_for_are_the_cap(sqs, queue):
    attributes = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    assert (attributes["MessageRetentionPeriod"], attributes["VisibilityTimeout"]) == ("3600", "30")


def test_visibility_above_an_hour_is_an_invalid_parameter(sqs, queue):
    sqs.send_message(QueueUrl=queue, MessageBody="m")
    refused("InvalidParameterValue", 400, sqs.receive_message, QueueUrl=queue, VisibilityTimeout=3601)
    [message] = receive(sqs, queue, VisibilityTimeout=3600)
    handle = message["ReceiptHandle"]
    refused("InvalidParameterValue", 400, sqs.change_message_visibility, QueueUrl=queue, ReceiptHandle=handle, VisibilityTimeout=3601)
    sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=handle, VisibilityTimeout=3600)
    entries = [{"Id": "1", "ReceiptHandle": handle, "VisibilityTimeout": 3601}]
    answer = sqs.change_message_visibility_batch(QueueUrl=queue, Entries=entries)
    assert [f["Code"] for f in answer["Failed"]] == ["InvalidParameterValue"]


@pytest.mark.parametrize("delay", [901, 3601, -1])
def test_delays_out_of_range_are_an_invalid_parameter(sqs, queue, delay):
    refused("InvalidParameterValue", 400, sqs.send_message, QueueUrl=queue, MessageBody="m", DelaySeconds=delay)
    refused("InvalidAttributeValue", 400, sqs.set_queue_attributes, QueueUrl=queue, Attributes={"DelaySeconds": str(delay)})
    answer = sqs.send_message_batch(QueueUrl=queue, Entries=[{"Id": "1", "MessageBody": "m", "DelaySeconds": delay}])
    assert [f["Code"] for f in answer["Failed"]] == ["InvalidParameterValue"]


def test_the_longest_delay_is_accepted(sqs, queue):
    sqs.send_message(QueueUrl=queue, MessageBody="m", DelaySeconds=900)
    assert receive(sqs, queue, WaitTimeSeconds=0) == []


def test_the_window_of_deduplication_cannot_be_changed(sqs):
    name = "x-pq-deduplication-window-seconds"
    text = refused("InvalidAttributeName", 400, sqs.create_queue, QueueName=fresh_name(".fifo"), Attributes={"FifoQueue": "true", name: "600"})
    assert text == f"Unknown Attribute {name}."
    missing = sqs.get_queue_url(QueueName="a.fifo")["QueueUrl"]
    refused("InvalidAttributeName", 400, sqs.set_queue_attributes, QueueUrl=missing, Attributes={name: "600"})


def test_queues_of_nobody_do_not_exist(sqs):
    base = sqs.get_queue_url(QueueName="q")["QueueUrl"].rsplit("/", 2)[0]
    for account in ("000000000000", "999999999999", "queue"):
        refused(MISSING, 400, sqs.send_message, QueueUrl=f"{base}/{account}/q", MessageBody="m")

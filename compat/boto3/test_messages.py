"""What is sent is what is received: bodies, attributes, their MD5s, batches, delays and deletion."""

import base64
import hashlib
import struct
import time

import pytest
from conftest import EXPECTED, Refused, attribute_of, bodies, receive, receive_until, refusal


def md5(data):
    return hashlib.md5(data.encode() if isinstance(data, str) else data).hexdigest()


def boto_attributes(names=None):
    """The attributes of expectations.json in boto3's form."""
    wanted = {name: EXPECTED["attributes"][name] for name in names or EXPECTED["attributes"]}
    return {
        name: {"DataType": value["DataType"], "BinaryValue": base64.b64decode(value["BinaryBase64"])}
        if "BinaryBase64" in value else dict(value)
        for name, value in wanted.items()
    }


def md5_of_attributes(attributes):
    """The service's digest: name, type, kind of value and value, each with its length, by name."""
    digest = hashlib.md5()

    def framed(data):
        digest.update(struct.pack(">I", len(data)) + data)

    for name in sorted(attributes):
        value = attributes[name]
        framed(name.encode())
        framed(value["DataType"].encode())
        if "BinaryValue" in value:
            digest.update(b"\x02")
            framed(value["BinaryValue"])
        else:
            digest.update(b"\x01")
            framed(value["StringValue"].encode())
    return digest.hexdigest()


@pytest.mark.parametrize("kind", EXPECTED["bodies"])
def test_a_body_comes_back_exactly_as_sent(sqs, queue, kind):
    body = EXPECTED["bodies"][kind]
    sent = sqs.send_message(QueueUrl=queue, MessageBody=body["body"])
    assert sent["MD5OfMessageBody"] == body["md5"]
    [message] = receive_until(sqs, queue, 1)
    assert message["Body"] == body["body"]
    assert message["MD5OfBody"] == body["md5"]
    assert message["MessageId"] == sent["MessageId"]
    assert "MessageAttributes" not in message and "MD5OfMessageAttributes" not in message and "Attributes" not in message


def test_attributes_of_every_type_come_back_exactly_as_sent(sqs, queue):
    attributes = boto_attributes()
    sent = sqs.send_message(QueueUrl=queue, MessageBody="attributes", MessageAttributes=attributes)
    assert sent["MD5OfMessageAttributes"] == EXPECTED["attributes_md5"] == md5_of_attributes(attributes)
    [message] = receive_until(sqs, queue, 1, MessageAttributeNames=["All"])
    assert message["MessageAttributes"] == attributes
    assert message["MD5OfMessageAttributes"] == EXPECTED["attributes_md5"]


@pytest.mark.parametrize("asked, answered", [
    (["All"], {"Hello", "Help.Me", "General"}),
    ([".*"], {"Hello", "Help.Me", "General"}),
    (["Hel.*"], {"Hello", "Help.Me"}),
    (["Hello"], {"Hello"}),
    (["General", "Unknown"], {"General"}),
    (["Unknown"], set()),
    ([], set()),
])
def test_only_the_message_attributes_asked_for_are_answered_and_digested(sqs, queue, asked, answered):
    attributes = {name: {"DataType": "String", "StringValue": name.lower()} for name in ("Hello", "Help.Me", "General")}
    sqs.send_message(QueueUrl=queue, MessageBody="m", MessageAttributes=attributes)
    [message] = receive_until(sqs, queue, 1, MessageAttributeNames=asked)
    assert set(message.get("MessageAttributes", {})) == answered
    expected = md5_of_attributes({name: attributes[name] for name in answered}) if answered else None
    assert message.get("MD5OfMessageAttributes") == expected


def test_the_system_attributes_tell_sender_times_and_count(sqs, queue):
    before = int(time.time() * 1000)
    sqs.send_message(QueueUrl=queue, MessageBody="m")
    [message] = receive_until(sqs, queue, 1, MessageSystemAttributeNames=["All"])
    attributes = message["Attributes"]
    assert set(attributes) == {"SenderId", "SentTimestamp", "ApproximateReceiveCount", "ApproximateFirstReceiveTimestamp"}
    assert attributes["ApproximateReceiveCount"] == "1"
    assert attributes["SenderId"]
    sent, first = int(attributes["SentTimestamp"]), int(attributes["ApproximateFirstReceiveTimestamp"])
    assert before - 5000 < sent <= first < before + 30000


def test_both_names_of_the_system_attribute_parameter_are_read_together(sqs, queue):
    sqs.send_message(QueueUrl=queue, MessageBody="m")
    [message] = receive_until(sqs, queue, 1, AttributeNames=["SenderId"], MessageSystemAttributeNames=["SentTimestamp"])
    assert set(message["Attributes"]) == {"SenderId", "SentTimestamp"}


def test_a_trace_header_is_digested_apart_and_kept(sqs, queue):
    header = EXPECTED["trace_header"]
    sent = sqs.send_message(QueueUrl=queue, MessageBody="m", MessageSystemAttributes={
        "AWSTraceHeader": {"DataType": "String", "StringValue": header["value"]}})
    assert sent["MD5OfMessageSystemAttributes"] == header["md5"]
    assert "MD5OfMessageAttributes" not in sent
    [message] = receive_until(sqs, queue, 1, AttributeNames=["AWSTraceHeader"])
    assert message["Attributes"] == {"AWSTraceHeader": header["value"]}


def test_an_empty_body_is_refused(sqs, queue):
    code, text = refusal(sqs.send_message, QueueUrl=queue, MessageBody="")
    assert (code, text) == ("MissingParameter", "The request must contain the parameter MessageBody.")


@pytest.mark.parametrize("body", ["\x00", "a\x0bb", "\ufffe", "\x1f"])
def test_characters_outside_of_the_services_set_are_refused(sqs, queue, body):
    with Refused(sqs, "bad characters"):
        sqs.send_message(QueueUrl=queue, MessageBody=body)


def test_a_body_of_one_mebibyte_fits_and_one_byte_more_does_not(sqs, queue):
    largest = "x" * 1048576
    sqs.send_message(QueueUrl=queue, MessageBody=largest)
    code, text = refusal(sqs.send_message, QueueUrl=queue, MessageBody=largest + "x")
    assert (code, text) == ("InvalidParameterValue",
                            "One or more parameters are invalid. Reason: Message must be shorter than 1048576 bytes.")
    [message] = receive_until(sqs, queue, 1)
    assert message["Body"] == largest


def test_attributes_count_towards_the_size(sqs, create):
    url = create(MaximumMessageSize="1024")
    attributes = {"name": {"DataType": "String", "StringValue": "v" * 14}}  # 4 + 6 + 14 bytes
    sqs.send_message(QueueUrl=url, MessageBody="x" * 1000, MessageAttributes=attributes)
    code, _ = refusal(sqs.send_message, QueueUrl=url, MessageBody="x" * 1001, MessageAttributes=attributes)
    assert code == "InvalidParameterValue"


@pytest.mark.parametrize("attributes", [
    {"a": {"DataType": "Colour", "StringValue": "red"}},
    {"a": {"DataType": "Number", "StringValue": "red"}},
    {"AWS.a": {"DataType": "String", "StringValue": "reserved"}},
    {"a..b": {"DataType": "String", "StringValue": "dots"}},
    {"a": {"DataType": "String", "StringValue": ""}},
    {f"a{n}": {"DataType": "String", "StringValue": "x"} for n in range(11)},
])
def test_attributes_the_service_does_not_allow_are_refused(sqs, queue, attributes):
    code, _ = refusal(sqs.send_message, QueueUrl=queue, MessageBody="m", MessageAttributes=attributes)
    assert code == "InvalidParameterValue"
    assert receive(sqs, queue) == []


def test_a_batch_answers_each_entry_by_its_id(sqs, queue):
    entries = [{"Id": f"e{n}", "MessageBody": f"body {n}"} for n in range(10)]
    entries[3]["MessageAttributes"] = boto_attributes()
    answer = sqs.send_message_batch(QueueUrl=queue, Entries=entries)
    assert "Failed" not in answer
    sent = {entry["Id"]: entry for entry in answer["Successful"]}
    assert {id_: entry["MD5OfMessageBody"] for id_, entry in sent.items()} == {e["Id"]: md5(e["MessageBody"]) for e in entries}
    assert sent["e3"]["MD5OfMessageAttributes"] == EXPECTED["attributes_md5"]
    got = {m["MessageId"]: m["Body"] for m in receive_until(sqs, queue, 10)}
    assert got == {sent[e["Id"]]["MessageId"]: e["MessageBody"] for e in entries}


def test_a_bad_entry_of_a_batch_fails_alone(sqs, queue):
    answer = sqs.send_message_batch(QueueUrl=queue, Entries=[
        {"Id": "good", "MessageBody": "good"}, {"Id": "bad", "MessageBody": "\x01"}, {"Id": "fine", "MessageBody": "fine"}])
    assert [entry["Id"] for entry in answer["Successful"]] == ["good", "fine"]
    [failed] = answer["Failed"]
    assert (failed["Id"], failed["Code"], failed["SenderFault"]) == ("bad", "InvalidMessageContents", True)
    assert sorted(bodies(receive_until(sqs, queue, 2))) == ["fine", "good"]


def test_an_entry_above_the_queues_own_size_fails_alone(sqs, create):
    url = create(MaximumMessageSize="1024")
    answer = sqs.send_message_batch(QueueUrl=url, Entries=[
        {"Id": "big", "MessageBody": "x" * 1025}, {"Id": "small", "MessageBody": "x" * 1024}])
    assert [entry["Id"] for entry in answer["Successful"]] == ["small"]
    assert [(entry["Id"], entry["Code"]) for entry in answer["Failed"]] == [("big", "InvalidParameterValue")]


@pytest.mark.parametrize("error, entries", [
    ("empty batch", []),
    ("eleven entries", [{"Id": f"e{n}", "MessageBody": "x"} for n in range(11)]),
    ("same id twice", [{"Id": "e", "MessageBody": "x"}, {"Id": "e", "MessageBody": "y"}]),
    ("bad batch id", [{"Id": "e e", "MessageBody": "x"}]),
    ("bad batch id", [{"Id": "e" * 81, "MessageBody": "x"}]),
    ("bad batch id", [{"Id": "", "MessageBody": "x"}]),
    ("batch too long", [{"Id": "a", "MessageBody": "x" * 1048576}, {"Id": "b", "MessageBody": "y"}]),
])
def test_a_malformed_batch_is_refused_whole(sqs, queue, error, entries):
    with Refused(sqs, error):
        sqs.send_message_batch(QueueUrl=queue, Entries=entries)
    assert receive(sqs, queue) == []


@pytest.mark.parametrize("number", [0, 11])
def test_a_receive_takes_one_to_ten_messages(sqs, queue, number):
    code, text = refusal(sqs.receive_message, QueueUrl=queue, MaxNumberOfMessages=number)
    assert (code, text) == ("InvalidParameterValue", f"Value {number} for parameter MaxNumberOfMessages is invalid. "
                                                     "Reason: Must be between 1 and 10, if provided.")


def test_a_receive_answers_no_more_than_asked(sqs, queue):
    sqs.send_message_batch(QueueUrl=queue, Entries=[{"Id": str(n), "MessageBody": str(n)} for n in range(5)])
    assert len(sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=2)["Messages"]) == 1
    assert 1 <= len(receive(sqs, queue, MaxNumberOfMessages=3)) <= 3


def test_a_delayed_message_comes_when_its_delay_is_over_and_not_before(sqs, queue):
    began = time.monotonic()
    sqs.send_message(QueueUrl=queue, MessageBody="later", DelaySeconds=2)
    assert receive(sqs, queue) == []
    assert bodies(receive_until(sqs, queue, 1)) == ["later"]
    assert time.monotonic() - began >= 1.9


def test_a_message_delay_replaces_the_queues(sqs, create):
    url = create(DelaySeconds="600")
    sqs.send_message(QueueUrl=url, MessageBody="now", DelaySeconds=0)
    sqs.send_message(QueueUrl=url, MessageBody="as the queue says")
    assert bodies(receive_until(sqs, url, 1)) == ["now"]
    assert attribute_of(sqs, url, "ApproximateNumberOfMessagesDelayed") == "1"


def test_a_delay_above_fifteen_minutes_is_refused(sqs, queue):
    code, _ = refusal(sqs.send_message, QueueUrl=queue, MessageBody="m", DelaySeconds=901)
    assert code == "InvalidParameterValue"


def test_a_deleted_message_does_not_come_back(sqs, queue):
    sqs.send_message(QueueUrl=queue, MessageBody="m")
    [message] = receive_until(sqs, queue, 1, VisibilityTimeout=1)
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    time.sleep(1.2)
    assert receive(sqs, queue, WaitTimeSeconds=1) == []


def test_a_handle_that_is_none_is_refused(sqs, queue):
    with Refused(sqs, "garbage handle"):
        sqs.delete_message(QueueUrl=queue, ReceiptHandle="garbage")


def test_a_batch_deletes_what_it_can_and_names_the_rest(sqs, queue):
    sqs.send_message_batch(QueueUrl=queue, Entries=[{"Id": str(n), "MessageBody": str(n)} for n in range(3)])
    taken = receive_until(sqs, queue, 3, VisibilityTimeout=1)
    entries = [{"Id": f"d{n}", "ReceiptHandle": m["ReceiptHandle"]} for n, m in enumerate(taken)]
    answer = sqs.delete_message_batch(QueueUrl=queue, Entries=entries + [{"Id": "bad", "ReceiptHandle": "garbage"}])
    assert {entry["Id"] for entry in answer["Successful"]} == {"d0", "d1", "d2"}
    [failed] = answer["Failed"]
    assert (failed["Id"], failed["Code"], failed["SenderFault"]) == ("bad", "ReceiptHandleIsInvalid", True)
    time.sleep(1.2)
    assert receive(sqs, queue, WaitTimeSeconds=1) == []


def test_a_group_id_on_a_standard_queue_is_kept_and_orders_nothing(sqs, queue):
    for text in ("a", "b"):
        sqs.send_message(QueueUrl=queue, MessageBody=text, MessageGroupId="tenant-1")
    first = receive_until(sqs, queue, 1, MaxNumberOfMessages=1, AttributeNames=["MessageGroupId"])
    second = receive_until(sqs, queue, 1, MaxNumberOfMessages=1, AttributeNames=["MessageGroupId"])
    assert [m["Attributes"]["MessageGroupId"] for m in first + second] == ["tenant-1", "tenant-1"]


def test_a_deduplication_id_on_a_standard_queue_is_refused(sqs, queue):
    code, _ = refusal(sqs.send_message, QueueUrl=queue, MessageBody="m", MessageDeduplicationId="d")
    assert code == "InvalidParameterValue"

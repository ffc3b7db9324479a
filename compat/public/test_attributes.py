"""`x-pq-` attributes are the service's own, and one of them a client may set."""

import base64

import pytest
from conftest import receive, refused


def text(value, kind="String"):
    return {"DataType": kind, "StringValue": value}


@pytest.mark.parametrize("name", ["x-pq-body-encoding", "x-pq-anything", "x-pq-", "x-pq-base64-attributes"])
@pytest.mark.parametrize("value", ["json", "", "Base64", "base64 "])
def test_the_services_own_names_cannot_be_set(sqs, queue, name, value):
    if value:
        refused("InvalidParameterValue", 400, sqs.send_message, QueueUrl=queue, MessageBody="aGk=", MessageAttributes={name: text(value)})
    else:
        binary = {"DataType": "Binary", "BinaryValue": b"base64"}
        refused("InvalidParameterValue", 400, sqs.send_message, QueueUrl=queue, MessageBody="aGk=", MessageAttributes={name: binary})


@pytest.mark.parametrize("name", ["x-pq", "X-PQ-Other", "x_pq_other", "my-x-pq-thing"])
def test_other_names_are_the_clients(sqs, queue, name):
    sqs.send_message(QueueUrl=queue, MessageBody="m", MessageAttributes={name: text("v")})
    [message] = receive(sqs, queue, MessageAttributeNames=["All"])
    assert message["MessageAttributes"] == {name: text("v")}


def test_in_a_batch_the_entry_alone_fails(sqs, queue):
    answer = sqs.send_message_batch(QueueUrl=queue, Entries=[
        {"Id": "bad", "MessageBody": "m", "MessageAttributes": {"x-pq-mine": text("v")}}, {"Id": "good", "MessageBody": "m"}])
    assert [s["Id"] for s in answer["Successful"]] == ["good"]
    assert [(f["Id"], f["Code"], f["SenderFault"]) for f in answer["Failed"]] == [("bad", "InvalidParameterValue", True)]


MARK = {"x-pq-body-encoding": text("base64")}


@pytest.mark.parametrize("content", [b"\x00\xff\xfe", b"plain", bytes(range(256)) * 20], ids=["bytes", "text", "all bytes"])
def test_marked_base64_comes_back_as_it_was_sent(sqs, queue, content):
    body = base64.b64encode(content).decode()
    sqs.send_message(QueueUrl=queue, MessageBody=body, MessageAttributes=MARK | {"other": text("v")})
    [message] = receive(sqs, queue, MessageAttributeNames=["All"])
    assert message["Body"] == body
    assert message["MessageAttributes"] == MARK | {"other": text("v")}


@pytest.mark.parametrize("body", ["no base64!", "YQ", "YR==", "YQ==\n", "_-8=", "====", "Y Q="])
def test_what_is_no_base64_cannot_carry_the_mark(sqs, queue, body):
    refused("InvalidParameterValue", 400, sqs.send_message, QueueUrl=queue, MessageBody=body, MessageAttributes=MARK)
    answer = sqs.send_message_batch(QueueUrl=queue, Entries=[{"Id": "1", "MessageBody": body, "MessageAttributes": MARK}])
    assert [f["Code"] for f in answer["Failed"]] == ["InvalidParameterValue"]


def test_the_mark_of_a_body_is_shown_only_to_who_asks(sqs, queue):
    sqs.send_message(QueueUrl=queue, MessageBody="AAE=", MessageAttributes=MARK)
    [message] = receive(sqs, queue)
    assert message["Body"] == "AAE=" and "MessageAttributes" not in message

"""Leases of messages on standard queues: hidden while taken, back afterwards, changed one by one."""

import time

import pytest
from conftest import Refused, bodies, receive, receive_until, refusal


def take(sqs, queue, *texts, **options):
    """Sends texts and receives them all."""
    for text in texts:
        sqs.send_message(QueueUrl=queue, MessageBody=text)
    return {m["Body"]: m for m in receive_until(sqs, queue, len(texts), **options)}


def test_a_taken_message_is_hidden_and_comes_back_counted_with_another_handle(sqs, queue):
    first = take(sqs, queue, "m", VisibilityTimeout=2, AttributeNames=["All"])["m"]
    assert receive(sqs, queue) == []
    [again] = receive_until(sqs, queue, 1, AttributeNames=["All"])
    assert again["MessageId"] == first["MessageId"]
    assert again["ReceiptHandle"] != first["ReceiptHandle"]
    assert again["Attributes"]["ApproximateReceiveCount"] == "2"
    for name in ("ApproximateFirstReceiveTimestamp", "SentTimestamp"):
        assert again["Attributes"][name] == first["Attributes"][name]


def test_the_queues_own_timeout_holds_where_the_receive_gives_none(sqs, create):
    url = create(VisibilityTimeout="1")
    take(sqs, url, "m")
    assert receive(sqs, url) == []
    assert bodies(receive_until(sqs, url, 1)) == ["m"]


def test_a_receive_with_no_visibility_leaves_the_message_visible_and_its_handle_good(sqs, queue):
    first = take(sqs, queue, "m", VisibilityTimeout=0)["m"]
    [again] = receive_until(sqs, queue, 1, VisibilityTimeout=0)
    assert again["MessageId"] == first["MessageId"]
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=first["ReceiptHandle"])
    assert receive(sqs, queue, WaitTimeSeconds=1) == []


def test_giving_a_message_back_makes_it_visible_at_once(sqs, queue):
    message = take(sqs, queue, "m", VisibilityTimeout=600)["m"]
    sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)
    assert bodies(receive_until(sqs, queue, 1)) == ["m"]


def test_a_lease_can_be_prolonged(sqs, queue):
    message = take(sqs, queue, "m", VisibilityTimeout=2)["m"]
    sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=600)
    assert receive(sqs, queue, WaitTimeSeconds=4) == []


def test_a_lease_can_be_shortened(sqs, queue):
    message = take(sqs, queue, "m", VisibilityTimeout=600)["m"]
    sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=1)
    assert receive(sqs, queue) == []
    assert bodies(receive_until(sqs, queue, 1)) == ["m"]


def test_each_message_of_a_receive_has_a_lease_of_its_own(sqs, queue):
    taken = take(sqs, queue, "a", "b", "c", VisibilityTimeout=600)
    sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=taken["b"]["ReceiptHandle"], VisibilityTimeout=0)
    assert bodies(receive_until(sqs, queue, 1)) == ["b"]
    assert receive(sqs, queue) == []


def test_a_taken_message_does_not_hold_back_those_behind_it(sqs, queue):
    take(sqs, queue, "held", VisibilityTimeout=600)
    assert set(take(sqs, queue, *map(str, range(20)))) == set(map(str, range(20)))


def test_a_message_whose_lease_ended_can_still_be_deleted(sqs, queue):
    message = take(sqs, queue, "m", VisibilityTimeout=1)["m"]
    time.sleep(1.3)
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    assert receive(sqs, queue, WaitTimeSeconds=1) == []


def test_a_batch_changes_what_it_can_and_names_the_rest(sqs, queue):
    taken = take(sqs, queue, "a", "b", VisibilityTimeout=600)
    answer = sqs.change_message_visibility_batch(QueueUrl=queue, Entries=[
        {"Id": "back", "ReceiptHandle": taken["a"]["ReceiptHandle"], "VisibilityTimeout": 0},
        {"Id": "keep", "ReceiptHandle": taken["b"]["ReceiptHandle"], "VisibilityTimeout": 900},
        {"Id": "bad", "ReceiptHandle": "garbage", "VisibilityTimeout": 0}])
    assert [entry["Id"] for entry in answer["Successful"]] == ["back", "keep"]
    assert [(entry["Id"], entry["Code"]) for entry in answer["Failed"]] == [("bad", "ReceiptHandleIsInvalid")]
    assert bodies(receive_until(sqs, queue, 1)) == ["a"]
    assert receive(sqs, queue) == []


@pytest.mark.parametrize("seconds", [-1, 43201])
def test_a_visibility_out_of_range_is_refused(sqs, queue, seconds):
    message = take(sqs, queue, "m")["m"]
    code, _ = refusal(sqs.change_message_visibility, QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"],
                      VisibilityTimeout=seconds)
    assert code == "InvalidParameterValue"
    code, _ = refusal(sqs.receive_message, QueueUrl=queue, VisibilityTimeout=seconds)
    assert code == "InvalidParameterValue"


def test_the_visibility_of_a_deleted_message_cannot_be_changed(sqs, queue):
    message = take(sqs, queue, "m")["m"]
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    code, text = refusal(sqs.change_message_visibility, QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"],
                         VisibilityTimeout=10)
    assert code == "InvalidParameterValue"
    assert text.endswith("Reason: Message does not exist or is not available for visibility timeout change.")


def test_a_handle_that_is_none_is_refused(sqs, queue):
    with Refused(sqs, "garbage handle"):
        sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle="garbage", VisibilityTimeout=0)


def test_a_message_is_hidden_for_twelve_hours_since_its_receive_at_most(sqs, queue):
    sqs.send_message(QueueUrl=queue, MessageBody="m")
    [message] = receive_until(sqs, queue, 1)
    time.sleep(1.1)
    handle = message["ReceiptHandle"]
    code, text = refusal(sqs.change_message_visibility, QueueUrl=queue, ReceiptHandle=handle, VisibilityTimeout=43_200)
    assert (code, text) == ("InvalidParameterValue", "Value 43200 for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout "
                            "for the message is beyond the limit [43200 seconds]")
    sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=handle, VisibilityTimeout=43_190)

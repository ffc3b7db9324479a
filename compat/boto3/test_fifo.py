"""FIFO queues: order within a group, one holder a group, deduplication."""

import time

import pytest
from conftest import Refused, attribute_of, bodies, receive, receive_until, refusal, send_group


def delete(sqs, url, *messages):
    for message in messages:
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


def test_a_group_comes_in_the_order_it_was_sent(sqs, fifo):
    texts = [f"m{n:02}" for n in range(25)]
    send_group(sqs, fifo, "g", *texts)
    got = []
    while len(got) < 25:
        batch = receive(sqs, fifo, WaitTimeSeconds=5)
        assert batch, f"only {len(got)} of 25 came"
        got += bodies(batch)
        delete(sqs, fifo, *batch)
    assert got == texts


def test_a_batch_keeps_the_order_of_its_entries(sqs, fifo):
    sqs.send_message_batch(QueueUrl=fifo, Entries=[
        {"Id": f"e{n}", "MessageBody": f"m{n}", "MessageGroupId": "g", "MessageDeduplicationId": f"d{n}"} for n in range(10)])
    assert bodies(receive_until(sqs, fifo, 10)) == [f"m{n}" for n in range(10)]


def test_sequence_numbers_have_twenty_digits_and_rise(sqs, fifo):
    sent = send_group(sqs, fifo, "a", "1", "2") + send_group(sqs, fifo, "b", "3") + send_group(sqs, fifo, "a", "4")
    numbers = [answer["SequenceNumber"] for answer in sent]
    assert all(len(number) == 20 and number.isdigit() for number in numbers)
    assert numbers == sorted(set(numbers))
    got = {m["Body"]: m["Attributes"] for m in receive_until(sqs, fifo, 4, AttributeNames=["All"])}
    assert [got[text]["SequenceNumber"] for text in "1234"] == numbers


def test_a_message_tells_its_group_and_deduplication_id(sqs, fifo):
    sqs.send_message(QueueUrl=fifo, MessageBody="m", MessageGroupId="the-group", MessageDeduplicationId="the-id")
    [message] = receive_until(sqs, fifo, 1, AttributeNames=["All"])
    assert message["Attributes"]["MessageGroupId"] == "the-group"
    assert message["Attributes"]["MessageDeduplicationId"] == "the-id"
    assert {"SenderId", "SentTimestamp", "ApproximateReceiveCount", "ApproximateFirstReceiveTimestamp"} < set(message["Attributes"])


def test_a_receive_goes_on_to_further_groups(sqs, fifo):
    send_group(sqs, fifo, "g1", "g1-m1", "g1-m2", "g1-m3")
    send_group(sqs, fifo, "g2", "g2-m1")
    assert bodies(receive(sqs, fifo, WaitTimeSeconds=5)) == ["g1-m1", "g1-m2", "g1-m3", "g2-m1"]


def test_a_group_with_a_message_in_flight_yields_nothing_and_others_do(sqs, fifo):
    send_group(sqs, fifo, "g1", "a1", "a2")
    send_group(sqs, fifo, "g2", "b1")
    assert bodies(receive_until(sqs, fifo, 1, MaxNumberOfMessages=1)) == ["a1"]
    assert bodies(receive(sqs, fifo, WaitTimeSeconds=2)) == ["b1"]
    assert receive(sqs, fifo) == []


def test_deleting_the_message_in_flight_frees_its_group(sqs, fifo):
    send_group(sqs, fifo, "g", "a", "b")
    [first] = receive_until(sqs, fifo, 1, MaxNumberOfMessages=1)
    delete(sqs, fifo, first)
    assert bodies(receive_until(sqs, fifo, 1)) == ["b"]


def test_deleting_part_of_what_is_in_flight_does_not_free_the_group(sqs, fifo):
    send_group(sqs, fifo, "g", "a", "b", "c")
    first, second = receive_until(sqs, fifo, 2, MaxNumberOfMessages=2)
    delete(sqs, fifo, first)
    assert receive(sqs, fifo, WaitTimeSeconds=1) == []
    delete(sqs, fifo, second)
    assert bodies(receive_until(sqs, fifo, 1)) == ["c"]


def test_an_ended_lease_brings_the_group_back_from_its_head(sqs, fifo):
    send_group(sqs, fifo, "g", "a", "b", "c")
    receive_until(sqs, fifo, 2, MaxNumberOfMessages=2, VisibilityTimeout=1)
    assert receive(sqs, fifo) == []
    time.sleep(1.3)
    assert bodies(receive(sqs, fifo, WaitTimeSeconds=2)) == ["a", "b", "c"]


def test_a_message_given_back_comes_before_those_behind_it(sqs, fifo):
    send_group(sqs, fifo, "g", "a", "b")
    [first] = receive_until(sqs, fifo, 1, MaxNumberOfMessages=1, VisibilityTimeout=600)
    sqs.change_message_visibility(QueueUrl=fifo, ReceiptHandle=first["ReceiptHandle"], VisibilityTimeout=0)
    assert bodies(receive(sqs, fifo, WaitTimeSeconds=2)) == ["a", "b"]


def test_a_handle_whose_lease_ended_cannot_delete(sqs, fifo):
    send_group(sqs, fifo, "g", "a")
    [message] = receive_until(sqs, fifo, 1, VisibilityTimeout=1)
    time.sleep(1.3)
    code, text = refusal(sqs.delete_message, QueueUrl=fifo, ReceiptHandle=message["ReceiptHandle"])
    assert code == "InvalidParameterValue"
    assert text.endswith("Reason: The receipt handle has expired.")
    assert bodies(receive_until(sqs, fifo, 1)) == ["a"]


def test_the_same_deduplication_id_is_accepted_and_delivered_once(sqs, fifo):
    first = sqs.send_message(QueueUrl=fifo, MessageBody="one", MessageGroupId="g", MessageDeduplicationId="d")
    again = sqs.send_message(QueueUrl=fifo, MessageBody="another", MessageGroupId="g", MessageDeduplicationId="d")
    assert (again["MessageId"], again["SequenceNumber"]) == (first["MessageId"], first["SequenceNumber"])
    assert bodies(receive(sqs, fifo, WaitTimeSeconds=2)) == ["one"]


def test_a_deduplication_id_outlives_the_deletion_of_its_message(sqs, fifo):
    sqs.send_message(QueueUrl=fifo, MessageBody="one", MessageGroupId="g", MessageDeduplicationId="d")
    delete(sqs, fifo, *receive_until(sqs, fifo, 1))
    sqs.send_message(QueueUrl=fifo, MessageBody="one", MessageGroupId="g", MessageDeduplicationId="d")
    assert receive(sqs, fifo, WaitTimeSeconds=1) == []


def test_a_deduplication_id_holds_across_the_groups_of_a_queue(sqs, fifo):
    sqs.send_message(QueueUrl=fifo, MessageBody="one", MessageGroupId="g1", MessageDeduplicationId="d")
    sqs.send_message(QueueUrl=fifo, MessageBody="two", MessageGroupId="g2", MessageDeduplicationId="d")
    assert bodies(receive(sqs, fifo, WaitTimeSeconds=2)) == ["one"]


def test_a_deduplication_id_holds_within_one_group_where_the_queue_says_so(sqs, create):
    url = create(FifoQueue="true", DeduplicationScope="messageGroup", FifoThroughputLimit="perMessageGroupId")
    for group in ("g1", "g2", "g1"):
        sqs.send_message(QueueUrl=url, MessageBody=group, MessageGroupId=group, MessageDeduplicationId="d")
    assert sorted(bodies(receive_until(sqs, url, 2))) == ["g1", "g2"]


def test_a_purge_forgets_deduplication_ids(sqs, fifo):
    sqs.send_message(QueueUrl=fifo, MessageBody="one", MessageGroupId="g", MessageDeduplicationId="d")
    sqs.purge_queue(QueueUrl=fifo)
    time.sleep(1)
    sqs.send_message(QueueUrl=fifo, MessageBody="two", MessageGroupId="g", MessageDeduplicationId="d")
    assert bodies(receive_until(sqs, fifo, 1)) == ["two"]


def test_content_based_deduplication_tells_bodies_apart(sqs, create):
    url = create(FifoQueue="true", ContentBasedDeduplication="true")
    sent = [sqs.send_message(QueueUrl=url, MessageBody=text, MessageGroupId="g") for text in ("a", "a", "b")]
    assert sent[0]["MessageId"] == sent[1]["MessageId"] != sent[2]["MessageId"]
    assert bodies(receive(sqs, url, WaitTimeSeconds=2)) == ["a", "b"]


def test_duplicates_within_one_batch_are_delivered_once(sqs, fifo):
    answer = sqs.send_message_batch(QueueUrl=fifo, Entries=[
        {"Id": "a", "MessageBody": "m", "MessageGroupId": "g", "MessageDeduplicationId": "d"},
        {"Id": "b", "MessageBody": "m", "MessageGroupId": "g", "MessageDeduplicationId": "d"}])
    assert len({entry["MessageId"] for entry in answer["Successful"]}) == 1
    assert bodies(receive(sqs, fifo, WaitTimeSeconds=2)) == ["m"]


def test_a_send_without_a_group_is_refused(sqs, fifo):
    code, text = refusal(sqs.send_message, QueueUrl=fifo, MessageBody="m", MessageDeduplicationId="d")
    assert (code, text) == ("MissingParameter", "The request must contain the parameter MessageGroupId.")


def test_a_batch_with_an_entry_without_a_group_is_refused_whole(sqs, fifo):
    code, text = refusal(sqs.send_message_batch, QueueUrl=fifo, Entries=[
        {"Id": "a", "MessageBody": "m", "MessageGroupId": "g", "MessageDeduplicationId": "1"},
        {"Id": "b", "MessageBody": "m", "MessageDeduplicationId": "2"}])
    assert (code, text) == ("InvalidParameterValue", "The request must contain the parameter MessageGroupId.")
    assert receive(sqs, fifo) == []


def test_a_send_without_any_deduplication_is_refused(sqs, fifo):
    code, text = refusal(sqs.send_message, QueueUrl=fifo, MessageBody="m", MessageGroupId="g")
    assert (code, text) == ("InvalidParameterValue", "The queue should either have ContentBasedDeduplication enabled or "
                                                     "MessageDeduplicationId provided explicitly")


@pytest.mark.parametrize("group", ["group 1", "ü", "g" * 129])
def test_a_group_id_outside_of_its_alphabet_is_refused(sqs, fifo, group):
    code, text = refusal(sqs.send_message, QueueUrl=fifo, MessageBody="m", MessageGroupId=group, MessageDeduplicationId="d")
    assert (code, text) == ("InvalidParameterValue", f"Value {group} for parameter MessageGroupId is invalid. Reason: "
                            "MessageGroupId can only include alphanumeric and punctuation characters. 1 to 128 in length.")


def test_a_delay_of_one_message_is_refused_and_none_is_not(sqs, fifo):
    code, _ = refusal(sqs.send_message, QueueUrl=fifo, MessageBody="m", MessageGroupId="g", MessageDeduplicationId="1",
                      DelaySeconds=2)
    assert code == "InvalidParameterValue"
    sqs.send_message(QueueUrl=fifo, MessageBody="m", MessageGroupId="g", MessageDeduplicationId="2", DelaySeconds=0)
    assert bodies(receive_until(sqs, fifo, 1)) == ["m"]


def test_a_queue_cannot_stop_being_fifo(sqs, fifo):
    with Refused(sqs, "attribute out of range",
                 says="Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported."):
        sqs.set_queue_attributes(QueueUrl=fifo, Attributes={"FifoQueue": "false"})


def test_a_repeated_receive_attempt_gets_the_same_messages_and_handles(sqs, fifo):
    send_group(sqs, fifo, "g", "a", "b")
    first = receive(sqs, fifo, WaitTimeSeconds=2, ReceiveRequestAttemptId="attempt-1")
    again = receive(sqs, fifo, WaitTimeSeconds=2, ReceiveRequestAttemptId="attempt-1")
    assert bodies(first) == ["a", "b"]
    assert [m["ReceiptHandle"] for m in again] == [m["ReceiptHandle"] for m in first]
    assert receive(sqs, fifo, ReceiveRequestAttemptId="attempt-2") == []


WINDOW = "x-pq-deduplication-window-seconds"


def test_a_fifo_queue_may_remember_longer_than_five_minutes(sqs, create, our_own):
    url = create(FifoQueue="true", **{WINDOW: "86400"})
    assert attribute_of(sqs, url, WINDOW) == "86400"
    sqs.set_queue_attributes(QueueUrl=url, Attributes={WINDOW: "31536000"})
    assert sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"][WINDOW] == "31536000"
    first, second = (sqs.send_message(QueueUrl=url, MessageBody=b, MessageGroupId="g", MessageDeduplicationId="d") for b in "ab")
    assert first["MessageId"] == second["MessageId"]


def test_the_usual_window_is_not_shown_and_no_other_is_accepted(sqs, queue, fifo, our_own):
    assert WINDOW not in sqs.get_queue_attributes(QueueUrl=fifo, AttributeNames=["All"])["Attributes"]
    for value in ("299", "31536001", "soon"):
        assert refusal(sqs.set_queue_attributes, QueueUrl=fifo, Attributes={WINDOW: value})[0] == "InvalidAttributeValue"
    assert refusal(sqs.set_queue_attributes, QueueUrl=queue, Attributes={WINDOW: "600"})[0] == "InvalidAttributeName"

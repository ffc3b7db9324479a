"""A waiting receive returns when there is something to return, and only then."""

import os
import time

import pytest
from conftest import Waiting, bodies, client_of, receive, receive_until, refusal, send_group


def test_a_waiting_receive_returns_when_another_client_sends(sqs, second_client, queue):
    waiting = Waiting(second_client, queue).begin()
    sqs.send_message(QueueUrl=queue, MessageBody="woken")
    assert bodies(waiting.returned()) == ["woken"]


def test_a_waiting_receive_returns_when_a_batch_is_sent(sqs, second_client, queue):
    waiting = Waiting(second_client, queue).begin()
    sqs.send_message_batch(QueueUrl=queue, Entries=[{"Id": str(n), "MessageBody": f"m{n}"} for n in range(3)])
    got = waiting.returned()
    rest = receive_until(sqs, queue, 3 - len(got)) if len(got) < 3 else []
    assert sorted(bodies(got + rest)) == ["m0", "m1", "m2"]


def test_a_waiting_receive_returns_when_a_delay_ends(sqs, second_client, queue):
    sqs.send_message(QueueUrl=queue, MessageBody="delayed", DelaySeconds=2)
    waiting = Waiting(second_client, queue).begin()
    assert bodies(waiting.returned(within=10)) == ["delayed"]


def test_a_waiting_receive_returns_when_a_visibility_timeout_ends(sqs, second_client, queue):
    sqs.send_message(QueueUrl=queue, MessageBody="again")
    receive_until(sqs, queue, 1, VisibilityTimeout=2)
    waiting = Waiting(second_client, queue).begin()
    assert bodies(waiting.returned(within=10)) == ["again"]


def test_a_waiting_receive_returns_when_another_client_gives_a_message_back(sqs, second_client, queue):
    sqs.send_message(QueueUrl=queue, MessageBody="given back")
    [taken] = receive_until(sqs, queue, 1, VisibilityTimeout=300)
    waiting = Waiting(second_client, queue).begin()
    sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=taken["ReceiptHandle"], VisibilityTimeout=0)
    assert bodies(waiting.returned()) == ["given back"]


def test_a_waiting_receive_returns_when_a_locked_group_is_freed(sqs, second_client, fifo):
    send_group(sqs, fifo, "g", "first", "second")
    [taken] = receive_until(sqs, fifo, 1, MaxNumberOfMessages=1, VisibilityTimeout=300)
    waiting = Waiting(second_client, fifo).begin()
    sqs.delete_message(QueueUrl=fifo, ReceiptHandle=taken["ReceiptHandle"])
    assert bodies(waiting.returned()) == ["second"]


def test_each_message_wakes_one_of_several_waiting_receives(sqs, queue):
    clients = [client_of(os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]) for _ in range(4)]
    polls = [Waiting(client, queue, MaxNumberOfMessages=1).begin() for client in clients]
    for n in range(4):
        sqs.send_message(QueueUrl=queue, MessageBody=f"m{n}")
    got = [bodies(poll.returned()) for poll in polls]
    assert sorted(got) == [["m0"], ["m1"], ["m2"], ["m3"]]


def test_a_waiting_receive_of_an_empty_queue_waits_its_time_and_answers_no_messages(sqs, queue):
    began = time.monotonic()
    answer = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=2)
    assert "Messages" not in answer
    assert time.monotonic() - began >= 1.9


def test_a_receive_waits_as_long_as_the_queue_says(sqs, create):
    url = create(ReceiveMessageWaitTimeSeconds="2")
    began = time.monotonic()
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
    assert time.monotonic() - began >= 1.9


def test_a_receive_that_asks_for_no_wait_returns_at_once_whatever_the_queue_says(sqs, create):
    url = create(ReceiveMessageWaitTimeSeconds="20")
    began = time.monotonic()
    assert receive(sqs, url, WaitTimeSeconds=0) == []
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("seconds", [21, -1])
def test_a_wait_out_of_range_is_refused(sqs, queue, seconds):
    code, text = refusal(sqs.receive_message, QueueUrl=queue, WaitTimeSeconds=seconds)
    assert (code, text) == ("InvalidParameterValue", f"Value {seconds} for parameter WaitTimeSeconds is invalid. "
                                                     "Reason: Must be >= 0 and <= 20, if provided.")

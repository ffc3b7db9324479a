"""Dead letters: redrive by receive count, who may redrive where, and moving messages back."""

import json
import time

import pytest
from conftest import arn_of, attribute_of, bodies, receive, receive_until, refusal


def redrive(arn, count):
    return json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": count})


@pytest.fixture
def pair(sqs, create):
    """A queue whose messages go to the second queue after one receive."""
    dead = create()
    return create(VisibilityTimeout="1", RedrivePolicy=redrive(arn_of(sqs, dead), 1)), dead


def fail_once(sqs, url, *texts):
    """Sends and receives texts, and lets their leases end, so that the next receive moves them."""
    for text in texts:
        sqs.send_message(QueueUrl=url, MessageBody=text)
    receive_until(sqs, url, len(texts), VisibilityTimeout=0)
    time.sleep(0.2)
    assert receive(sqs, url, WaitTimeSeconds=1) == []


def test_a_message_received_too_often_moves_on_the_next_receive(sqs, create):
    dead = create()
    url = create(RedrivePolicy=redrive(arn_of(sqs, dead), 2))
    sqs.send_message(QueueUrl=url, MessageBody="poison")
    for count in ("1", "2"):
        [message] = receive_until(sqs, url, 1, VisibilityTimeout=0, AttributeNames=["ApproximateReceiveCount"])
        assert message["Attributes"]["ApproximateReceiveCount"] == count
    assert receive(sqs, url, WaitTimeSeconds=1) == []
    assert bodies(receive_until(sqs, dead, 1)) == ["poison"]


def test_a_dead_letter_keeps_id_content_and_count_and_tells_its_source(sqs, pair):
    url, dead = pair
    attributes = {"a": {"DataType": "String", "StringValue": "kept"}}
    sent = sqs.send_message(QueueUrl=url, MessageBody="m", MessageAttributes=attributes)
    receive_until(sqs, url, 1, VisibilityTimeout=0)
    assert receive(sqs, url, WaitTimeSeconds=1) == []
    [message] = receive_until(sqs, dead, 1, AttributeNames=["All"], MessageAttributeNames=["All"])
    assert message["MessageId"] == sent["MessageId"]
    assert message["MessageAttributes"] == attributes
    assert message["Attributes"]["DeadLetterQueueSourceArn"] == arn_of(sqs, url)
    assert message["Attributes"]["ApproximateReceiveCount"] == "2"


@pytest.mark.parametrize("policy", [
    "{", "[]", "{}", '{"maxReceiveCount": 1}', '{"deadLetterTargetArn": "arn"}',
    '{"deadLetterTargetArn": "ARN", "maxReceiveCount": 0}', '{"deadLetterTargetArn": "ARN", "maxReceiveCount": 1001}',
    '{"deadLetterTargetArn": "ARN", "maxReceiveCount": "often"}',
])
def test_a_malformed_redrive_policy_is_refused(sqs, create, queue, policy):
    policy = policy.replace("ARN", arn_of(sqs, create()))
    code, _ = refusal(sqs.set_queue_attributes, QueueUrl=queue, Attributes={"RedrivePolicy": policy})
    assert code in ("InvalidParameterValue", "InvalidAttributeValue")
    assert attribute_of(sqs, queue, "RedrivePolicy") is None


def test_a_redrive_policy_to_a_missing_queue_is_refused(sqs, queue):
    code, _ = refusal(sqs.set_queue_attributes, QueueUrl=queue, Attributes={
        "RedrivePolicy": redrive(arn_of(sqs, queue) + "-none", 3)})
    assert code == "InvalidParameterValue"


def test_a_redrive_policy_to_a_queue_of_the_other_kind_is_refused(sqs, queue, fifo):
    code, _ = refusal(sqs.set_queue_attributes, QueueUrl=queue, Attributes={"RedrivePolicy": redrive(arn_of(sqs, fifo), 3)})
    assert code == "InvalidParameterValue"


def test_a_redrive_policy_to_another_tenants_queue_is_refused(sqs, other_tenant, queue):
    theirs = other_tenant.create_queue(QueueName=queue.split("/")[-1])["QueueUrl"]
    code, _ = refusal(sqs.set_queue_attributes, QueueUrl=queue, Attributes={
        "RedrivePolicy": redrive(arn_of(other_tenant, theirs), 3)})
    assert code == "InvalidParameterValue"


def test_an_empty_redrive_policy_removes_it(sqs, pair):
    url, _ = pair
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": ""})
    assert attribute_of(sqs, url, "RedrivePolicy") is None


def test_a_dead_letter_queue_lists_its_sources(sqs, pair):
    url, dead = pair
    assert sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [url]
    assert sqs.list_dead_letter_source_queues(QueueUrl=url).get("queueUrls", []) == []


def test_a_queue_that_allows_no_redrive_cannot_be_a_target(sqs, create, queue):
    denying = create(RedriveAllowPolicy=json.dumps({"redrivePermission": "denyAll"}))
    code, _ = refusal(sqs.set_queue_attributes, QueueUrl=queue, Attributes={"RedrivePolicy": redrive(arn_of(sqs, denying), 3)})
    assert code in ("InvalidParameterValue", "InvalidAttributeValue")


def test_a_queue_that_allows_some_redrives_can_be_a_target_of_those(sqs, create, queue):
    allowed = create()
    dead = create(RedriveAllowPolicy=json.dumps({"redrivePermission": "byQueue", "sourceQueueArns": [arn_of(sqs, allowed)]}))
    policy = {"RedrivePolicy": redrive(arn_of(sqs, dead), 3)}
    sqs.set_queue_attributes(QueueUrl=allowed, Attributes=policy)
    code, _ = refusal(sqs.set_queue_attributes, QueueUrl=queue, Attributes=policy)
    assert code in ("InvalidParameterValue", "InvalidAttributeValue")


def test_fifo_dead_letters_keep_their_order(sqs, create):
    dead = create(FifoQueue="true")
    url = create(FifoQueue="true", ContentBasedDeduplication="true", RedrivePolicy=redrive(arn_of(sqs, dead), 1))
    for text in ("a", "b", "c"):
        sqs.send_message(QueueUrl=url, MessageBody=text, MessageGroupId="g")
    assert len(receive_until(sqs, url, 3, VisibilityTimeout=0)) == 3
    assert receive(sqs, url, WaitTimeSeconds=1) == []
    assert bodies(receive_until(sqs, dead, 3)) == ["a", "b", "c"]


def test_a_move_task_brings_dead_letters_back_as_new_messages(sqs, pair):
    url, dead = pair
    fail_once(sqs, url, "a", "b")
    old = {m["MessageId"] for m in receive_until(sqs, dead, 2, VisibilityTimeout=0)}
    handle = sqs.start_message_move_task(SourceArn=arn_of(sqs, dead))["TaskHandle"]
    assert handle
    back = receive_until(sqs, url, 2, AttributeNames=["All"])
    assert sorted(bodies(back)) == ["a", "b"]
    assert not old & {m["MessageId"] for m in back}
    assert {m["Attributes"]["ApproximateReceiveCount"] for m in back} == {"1"}
    until = time.monotonic() + 15
    while True:
        [task] = sqs.list_message_move_tasks(SourceArn=arn_of(sqs, dead))["Results"]
        if task["Status"] == "COMPLETED" or time.monotonic() > until:
            break
        time.sleep(0.2)
    assert task["Status"] == "COMPLETED"
    assert task["ApproximateNumberOfMessagesMoved"] == 2
    assert "TaskHandle" not in task and "DestinationArn" not in task


def test_a_move_task_can_go_elsewhere_and_be_cancelled(sqs, pair, create):
    url, dead = pair
    elsewhere = create()
    fail_once(sqs, url, *map(str, range(6)))
    receive_until(sqs, dead, 6, VisibilityTimeout=0)
    source = arn_of(sqs, dead)
    handle = sqs.start_message_move_task(SourceArn=source, DestinationArn=arn_of(sqs, elsewhere),
                                         MaxNumberOfMessagesPerSecond=1)["TaskHandle"]
    [task] = sqs.list_message_move_tasks(SourceArn=source)["Results"]
    assert (task["Status"], task["TaskHandle"], task["MaxNumberOfMessagesPerSecond"]) == ("RUNNING", handle, 1)
    _, text = refusal(sqs.start_message_move_task, SourceArn=source)
    assert text == "There is already a task running. Only one active task is allowed for a source queue arn at a given time."
    assert sqs.cancel_message_move_task(TaskHandle=handle)["ApproximateNumberOfMessagesMoved"] < 6
    until = time.monotonic() + 15
    while sqs.list_message_move_tasks(SourceArn=source)["Results"][0]["Status"] != "CANCELLED" and time.monotonic() < until:
        time.sleep(0.2)
    assert sqs.list_message_move_tasks(SourceArn=source)["Results"][0]["Status"] == "CANCELLED"


def test_a_move_task_needs_a_dead_letter_queue_as_its_source(sqs, queue):
    _, text = refusal(sqs.start_message_move_task, SourceArn=arn_of(sqs, queue))
    assert text == "Source queue must be configured as a Dead Letter Queue."


def test_a_move_task_from_a_missing_queue_is_not_found(sqs, queue):
    with pytest.raises(sqs.exceptions.ResourceNotFoundException) as caught:
        sqs.start_message_move_task(SourceArn=arn_of(sqs, queue) + "-none")
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404


def test_a_handle_of_no_task_is_refused(sqs):
    code, text = refusal(sqs.cancel_message_move_task, TaskHandle="garbage")
    assert (code, text) == ("InvalidParameterValue", "Value for parameter TaskHandle is invalid.")

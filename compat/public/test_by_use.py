"""Using a name makes the queue."""

import pytest
from conftest import MISSING, fresh_name, new_tenant, receive, refused


def url_of(sqs, name):
    """The URL a queue of that name will have, without touching it."""
    base = sqs.create_queue(QueueName="somebody")["QueueUrl"].rpartition("/")[0]
    return f"{base}/{name}"


FIFO = {"MessageGroupId": "g", "MessageDeduplicationId": "d"}
USES = {
    "GetQueueUrl": lambda sqs, url, fifo: sqs.get_queue_url(QueueName=url.rpartition("/")[2]),
    "SendMessage": lambda sqs, url, fifo: sqs.send_message(QueueUrl=url, MessageBody="m", **(FIFO if fifo else {})),
    "SendMessageBatch": lambda sqs, url, fifo: sqs.send_message_batch(
        QueueUrl=url, Entries=[{"Id": "1", "MessageBody": "m", **(FIFO if fifo else {})}]),
    "ReceiveMessage": lambda sqs, url, fifo: sqs.receive_message(QueueUrl=url),
}


@pytest.mark.parametrize("suffix", ["", ".fifo"])
@pytest.mark.parametrize("use", USES)
def test_a_use_makes_the_queue(sqs, use, suffix):
    url = url_of(sqs, fresh_name(suffix))
    USES[use](sqs, url, bool(suffix))
    assert url in sqs.list_queues()["QueueUrls"]
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert attributes.get("FifoQueue") == ("true" if suffix else None)
    assert attributes["MessageRetentionPeriod"] == "3600"
    assert attributes["MaximumMessageSize"] == "262144"
    if use.startswith("Send"):
        assert [m["Body"] for m in receive(sqs, url)] == ["m"]


def test_nothing_else_makes_a_queue(sqs):
    url = url_of(sqs, fresh_name())
    for call, more in (
        (sqs.get_queue_attributes, {"AttributeNames": ["All"]}), (sqs.set_queue_attributes, {"Attributes": {"DelaySeconds": "1"}}),
        (sqs.purge_queue, {}), (sqs.delete_queue, {}), (sqs.list_queue_tags, {}), (sqs.tag_queue, {"Tags": {"a": "b"}}),
        (sqs.delete_message, {"ReceiptHandle": "h"}), (sqs.list_dead_letter_source_queues, {}),
    ):
        refused(MISSING, 400, call, QueueUrl=url, **more)
    assert url not in sqs.list_queues()["QueueUrls"]


@pytest.mark.parametrize("name", ["a b", "x" * 81, "ä", "a.b", "..", "a.fifo.fifo"])
def test_a_name_that_no_queue_can_have_makes_none(sqs, name):
    refused(MISSING, 400, sqs.send_message, QueueUrl=url_of(sqs, name), MessageBody="m")


@pytest.mark.parametrize("use", USES)
def test_a_name_deleted_just_now_is_not_made_again(sqs, use):
    url = sqs.create_queue(QueueName=fresh_name())["QueueUrl"]
    sqs.delete_queue(QueueUrl=url)
    refused(MISSING, 400, lambda: USES[use](sqs, url, False))
    refused("AWS.SimpleQueueService.QueueDeletedRecently", 400, sqs.create_queue, QueueName=url.rpartition("/")[2])


def test_a_send_that_is_refused_makes_no_queue(sqs):
    url = url_of(sqs, fresh_name())
    refused("InvalidParameterValue", 400, sqs.send_message, QueueUrl=url, MessageBody="m", DelaySeconds=901)
    refused("InvalidParameterValue", 400, sqs.send_message, QueueUrl=url, MessageBody="x" * 262_145)
    assert url not in sqs.list_queues()["QueueUrls"]


def test_the_same_name_is_made_for_each_tenant():
    name = fresh_name()
    one, two = new_tenant(), new_tenant()
    assert one.get_queue_url(QueueName=name) != two.get_queue_url(QueueName=name)

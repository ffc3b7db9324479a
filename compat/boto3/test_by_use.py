"""Names that become queues by being used."""

import pytest
from conftest import Refused, bodies, fresh_name, receive_until

pytestmark = pytest.mark.usefixtures("by_use")


def test_asking_for_a_url_makes_the_queue(sqs):
    name = fresh_name()
    url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    assert sqs.list_queues(QueueNamePrefix=name)["QueueUrls"] == [url]


def test_sending_makes_the_queue(sqs, queue):
    url = queue + "-sent"
    sqs.send_message(QueueUrl=url, MessageBody="first")
    assert bodies(receive_until(sqs, url, 1)) == ["first"]


def test_sending_a_batch_makes_the_queue(sqs, queue):
    url = queue + "-batch"
    sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": "1", "MessageBody": "first"}])
    assert bodies(receive_until(sqs, url, 1)) == ["first"]


def test_receiving_makes_the_queue(sqs, queue):
    url = queue + "-received"
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
    sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])


def test_a_fifo_name_makes_a_fifo_queue(sqs):
    url = sqs.get_queue_url(QueueName=fresh_name(".fifo"))["QueueUrl"]
    assert sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["FifoQueue"])["Attributes"] == {"FifoQueue": "true"}


def test_a_queue_made_by_use_can_be_created_afterwards(sqs):
    name = fresh_name()
    url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    assert sqs.create_queue(QueueName=name)["QueueUrl"] == url


def test_a_name_deleted_within_the_minute_is_not_made_again_by_use(sqs, queue):
    sqs.delete_queue(QueueUrl=queue)
    with Refused(sqs, "missing queue"):
        sqs.send_message(QueueUrl=queue, MessageBody="m")
    with Refused(sqs, "missing queue"):
        sqs.get_queue_url(QueueName=queue.split("/")[-1])


def test_reading_attributes_makes_nothing(sqs, queue):
    with Refused(sqs, "missing queue"):
        sqs.get_queue_attributes(QueueUrl=queue + "-none", AttributeNames=["All"])
    assert len(sqs.list_queues(QueueNamePrefix=queue.split("/")[-1])["QueueUrls"]) == 1

"""Two access keys are two worlds."""

import boto3
from conftest import Refused, bodies, fresh_name, receive, receive_until, refusal


def test_tenants_have_accounts_of_their_own(sqs, other_tenant):
    name = fresh_name()
    mine = sqs.create_queue(QueueName=name)["QueueUrl"]
    theirs = other_tenant.create_queue(QueueName=name)["QueueUrl"]
    assert mine != theirs
    assert mine.split("/")[-2] != theirs.split("/")[-2]


def test_the_same_name_is_two_queues(sqs, other_tenant):
    name = fresh_name()
    mine = sqs.create_queue(QueueName=name)["QueueUrl"]
    theirs = other_tenant.create_queue(QueueName=name)["QueueUrl"]
    sqs.send_message(QueueUrl=mine, MessageBody="mine")
    other_tenant.send_message(QueueUrl=theirs, MessageBody="theirs")
    assert bodies(receive_until(sqs, mine, 1)) == ["mine"]
    assert bodies(receive_until(other_tenant, theirs, 1)) == ["theirs"]
    assert receive(sqs, mine) == receive(other_tenant, theirs) == []


def test_listings_show_only_ones_own_queues(sqs, other_tenant, queue):
    assert queue in sqs.list_queues()["QueueUrls"]
    assert queue not in other_tenant.list_queues().get("QueueUrls", [])
    assert "QueueUrls" not in other_tenant.list_queues(QueueNamePrefix=queue.split("/")[-1])


def test_another_tenants_queue_url_is_a_queue_that_does_not_exist(sqs, other_tenant, queue):
    sqs.send_message(QueueUrl=queue, MessageBody="secret")
    for call, arguments in (
        (other_tenant.receive_message, {}),
        (other_tenant.send_message, {"MessageBody": "intruder"}),
        (other_tenant.send_message_batch, {"Entries": [{"Id": "1", "MessageBody": "intruder"}]}),
        (other_tenant.get_queue_attributes, {"AttributeNames": ["All"]}),
        (other_tenant.set_queue_attributes, {"Attributes": {"VisibilityTimeout": "0"}}),
        (other_tenant.purge_queue, {}),
        (other_tenant.delete_queue, {}),
    ):
        with Refused(other_tenant, "missing queue"):
            call(QueueUrl=queue, **arguments)
    assert bodies(receive_until(sqs, queue, 1)) == ["secret"]


def test_another_tenants_handle_deletes_nothing(sqs, other_tenant):
    name = fresh_name()
    mine = sqs.create_queue(QueueName=name)["QueueUrl"]
    theirs = other_tenant.create_queue(QueueName=name)["QueueUrl"]
    sqs.send_message(QueueUrl=mine, MessageBody="m")
    [message] = receive_until(sqs, mine, 1, VisibilityTimeout=1)
    code, _ = refusal(other_tenant.delete_message, QueueUrl=theirs, ReceiptHandle=message["ReceiptHandle"])
    assert code == "ReceiptHandleIsInvalid"
    assert bodies(receive_until(sqs, mine, 1)) == ["m"]


def test_another_regions_clients_of_a_tenant_see_the_same_queues(sqs, queue):
    elsewhere = boto3.client("sqs", region_name="ap-southeast-2")
    sqs.send_message(QueueUrl=queue, MessageBody="m")
    assert bodies(receive_until(elsewhere, queue, 1)) == ["m"]

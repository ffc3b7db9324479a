"""The access key is the tenant; what is no identifier is nobody."""

import json

import boto3
import pytest
from conftest import MISSING, ONCE, arn_of, client_of, fresh_name, identifier, receive, refusal, refused

SAYS = ("this public service needs a tenant identifier in your SDK's credential field: a lowercase letter followed by 23 lowercase "
        "letters or digits (24 characters), chosen at random; the service's web page generates one")


@pytest.mark.parametrize("key", [
    "test", "guest", "AKIAIOSFODNN7EXAMPLE", "000000000000", "dummy", "local",
    "abcdefghijklmnopqrstuvw", "abcdefghijklmnopqrstuvwxy", "ABCDEFGHIJKLMNOPQRSTUVWX", "abcdefghijklmnopqrstuvwX",
    "1bcdefghijklmnopqrstuvwx", "abcdefghijkl-nopqrstuvwx", "abcdefghijkl_nopqrstuvwx", "abcdefghijkl.nopqrstuvwx",
    "abcdefghijklmnopqrstuvw ", "a/cdefghijklmnopqrstuvwx",
], ids=repr)
def test_what_is_no_identifier_is_refused_and_told_what_one_is(key):
    assert refusal(client_of(key).list_queues) == (403, "InvalidClientTokenId", SAYS)


def test_no_credential_at_all_is_refused_alike():
    from botocore import UNSIGNED
    from botocore.config import Config

    unsigned = boto3.client("sqs", config=ONCE.merge(Config(signature_version=UNSIGNED)))
    assert refusal(unsigned.list_queues) == (403, "InvalidClientTokenId", SAYS)


@pytest.mark.parametrize("key", ["abcdefghijklmnopqrstuvwx", "a23456789012345678901234"])
def test_any_identifier_is_a_tenant_with_any_secret_in_any_region(key):
    name = fresh_name()
    client_of(key, "one").create_queue(QueueName=name)
    elsewhere = boto3.client("sqs", aws_access_key_id=key, aws_secret_access_key="two", region_name="ap-southeast-2", config=ONCE)
    assert name in elsewhere.get_queue_url(QueueName=name)["QueueUrl"]


def test_two_identifiers_have_nothing_in_common(sqs, other):
    name = fresh_name()
    mine = sqs.create_queue(QueueName=name)["QueueUrl"]
    assert other.list_queues().get("QueueUrls", []) == []
    theirs = other.create_queue(QueueName=name)["QueueUrl"]
    assert mine != theirs
    sqs.send_message(QueueUrl=mine, MessageBody="mine")
    assert receive(other, theirs, WaitTimeSeconds=0) == []
    assert [m["Body"] for m in receive(sqs, mine)] == ["mine"]


def test_another_tenants_queue_url_does_not_exist_whatever_one_asks(sqs, other, queue):
    sqs.send_message(QueueUrl=queue, MessageBody="secret")
    [message] = receive(sqs, queue, VisibilityTimeout=2)
    handle = message["ReceiptHandle"]
    entry = {"Id": "1", "ReceiptHandle": handle}
    for call, more in (
        (other.receive_message, {}),
        (other.send_message, {"MessageBody": "intruder"}),
        (other.send_message_batch, {"Entries": [{"Id": "1", "MessageBody": "intruder"}]}),
        (other.get_queue_attributes, {"AttributeNames": ["All"]}),
        (other.set_queue_attributes, {"Attributes": {"VisibilityTimeout": "0"}}),
        (other.add_permission, {"Label": "l", "AWSAccountIds": ["123456789012"], "Actions": ["*"]}),
        (other.remove_permission, {"Label": "l"}),
        (other.delete_message, {"ReceiptHandle": handle}),
        (other.delete_message_batch, {"Entries": [entry]}),
        (other.change_message_visibility, {"ReceiptHandle": handle, "VisibilityTimeout": 0}),
        (other.change_message_visibility_batch, {"Entries": [entry | {"VisibilityTimeout": 0}]}),
        (other.list_queue_tags, {}),
        (other.tag_queue, {"Tags": {"k": "v"}}),
        (other.untag_queue, {"TagKeys": ["k"]}),
        (other.list_dead_letter_source_queues, {}),
        (other.purge_queue, {}),
        (other.delete_queue, {}),
    ):
        refused(MISSING, 400, call, QueueUrl=queue, **more)
    name, account = queue.split("/")[-1], queue.split("/")[-2]
    refused(MISSING, 400, other.get_queue_url, QueueName=name, QueueOwnerAWSAccountId=account)
    assert [m["Body"] for m in receive(sqs, queue, WaitTimeSeconds=10)] == ["secret"]


def test_another_tenants_arn_is_an_invalid_parameter(sqs, other, queue):
    theirs = other.create_queue(QueueName=fresh_name())["QueueUrl"]
    policy = json.dumps({"deadLetterTargetArn": arn_of(other, theirs), "maxReceiveCount": 3})
    refused("InvalidParameterValue", 400, sqs.set_queue_attributes, QueueUrl=queue, Attributes={"RedrivePolicy": policy})
    refused("InvalidParameterValue", 400, sqs.create_queue, QueueName=fresh_name(), Attributes={"RedrivePolicy": policy})
    # A dead-letter queue of one's own, so that only the destination is wrong.
    dead = sqs.create_queue(QueueName=fresh_name())["QueueUrl"]
    own = json.dumps({"deadLetterTargetArn": arn_of(sqs, dead), "maxReceiveCount": 3})
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": own})
    refused("InvalidParameterValue", 400, sqs.start_message_move_task, SourceArn=arn_of(sqs, dead), DestinationArn=arn_of(other, theirs))
    refused("InvalidParameterValue", 400, sqs.start_message_move_task, SourceArn=arn_of(other, theirs))
    refused("InvalidParameterValue", 400, sqs.list_message_move_tasks, SourceArn=arn_of(other, theirs))


def test_another_tenants_receipt_handle_is_none(sqs, other):
    name = fresh_name()
    mine, theirs = (client.create_queue(QueueName=name)["QueueUrl"] for client in (sqs, other))
    sqs.send_message(QueueUrl=mine, MessageBody="m")
    [message] = receive(sqs, mine)
    refused("ReceiptHandleIsInvalid", 400, other.delete_message, QueueUrl=theirs, ReceiptHandle=message["ReceiptHandle"])
    refused("ReceiptHandleIsInvalid", 400, other.change_message_visibility, QueueUrl=theirs, ReceiptHandle=message["ReceiptHandle"],
            VisibilityTimeout=0)


def test_accounts_are_twelve_digits_and_no_two_tenants_share_one():
    clients = [client_of(identifier()) for _ in range(5)]
    accounts = {client.create_queue(QueueName="q")["QueueUrl"].split("/")[-2] for client in clients}
    assert len(accounts) == 5 and all(len(a) == 12 and a.isdigit() for a in accounts)

"""Tags, permissions, encryption settings and who one is."""

import json

import boto3
import pytest
from conftest import Refused, arn_of, attribute_of, fresh_name, refusal


def test_tags_are_added_overwritten_and_removed(sqs, queue):
    assert "Tags" not in sqs.list_queue_tags(QueueUrl=queue)
    sqs.tag_queue(QueueUrl=queue, Tags={"a": "1", "b": "", "ü": "ż"})
    sqs.tag_queue(QueueUrl=queue, Tags={"a": "2", "A": "3"})
    assert sqs.list_queue_tags(QueueUrl=queue)["Tags"] == {"a": "2", "A": "3", "b": "", "ü": "ż"}
    sqs.untag_queue(QueueUrl=queue, TagKeys=["a", "never"])
    assert sqs.list_queue_tags(QueueUrl=queue)["Tags"] == {"A": "3", "b": "", "ü": "ż"}


def test_tags_can_be_given_at_creation(sqs):
    url = sqs.create_queue(QueueName=fresh_name(), tags={"team": "blue"})["QueueUrl"]
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"team": "blue"}


def test_more_than_fifty_tags_are_refused(sqs, queue):
    code, _ = refusal(sqs.tag_queue, QueueUrl=queue, Tags={f"t{n}": "x" for n in range(51)})
    assert code == "InvalidParameterValue"
    assert "Tags" not in sqs.list_queue_tags(QueueUrl=queue)


def test_tags_of_a_missing_queue_do_not_exist(sqs, queue):
    with Refused(sqs, "missing queue"):
        sqs.list_queue_tags(QueueUrl=queue + "-none")


def test_a_permission_becomes_a_policy_and_goes_with_its_label(sqs, queue):
    account = queue.split("/")[-2]
    sqs.add_permission(QueueUrl=queue, Label="readers", AWSAccountIds=["668614515564"], Actions=["ReceiveMessage"])
    arn = arn_of(sqs, queue)
    assert json.loads(attribute_of(sqs, queue, "Policy")) == {
        "Version": "2008-10-17",
        "Id": f"{arn}/SQSDefaultPolicy",
        "Statement": [{
            "Sid": "readers", "Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::668614515564:root"},
            "Action": "SQS:ReceiveMessage", "Resource": arn}],
    }
    code, text = refusal(sqs.add_permission, QueueUrl=queue, Label="readers", AWSAccountIds=[account], Actions=["SendMessage"])
    assert (code, text) == ("InvalidParameterValue", "Value readers for parameter Label is invalid. Reason: Already exists.")
    sqs.remove_permission(QueueUrl=queue, Label="readers")
    assert attribute_of(sqs, queue, "Policy") is None
    code, text = refusal(sqs.remove_permission, QueueUrl=queue, Label="readers")
    assert (code, text) == ("InvalidParameterValue", "Value readers for parameter Label is invalid. Reason: can't find label.")


def test_a_policy_is_kept_and_an_empty_one_removes_it(sqs, queue):
    policy = {"Version": "2012-10-17", "Statement": [{
        "Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Resource": arn_of(sqs, queue)}]}
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": json.dumps(policy)})
    assert json.loads(attribute_of(sqs, queue, "Policy")) == policy
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": ""})
    assert attribute_of(sqs, queue, "Policy") is None


def test_one_kind_of_encryption_replaces_the_other(sqs, create):
    url = create(KmsMasterKeyId="alias/key", KmsDataKeyReusePeriodSeconds="600")
    assert attribute_of(sqs, url, "SqsManagedSseEnabled") == "false"
    assert attribute_of(sqs, url, "KmsMasterKeyId") == "alias/key"
    with Refused(sqs, "unknown attribute", says="You can use one type of server-side encryption (SSE) at one time. "
                                               "You can either enable KMS SSE or SQS SSE."):
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"SqsManagedSseEnabled": "true", "KmsMasterKeyId": "alias/key"})


def test_sts_on_the_same_port_tells_the_account_of_the_queue_urls(queue):
    identity = boto3.client("sts").get_caller_identity()
    assert identity["Account"] == queue.split("/")[-2]
    assert identity["Arn"].split(":")[4] == identity["Account"]
    assert identity["UserId"]


@pytest.mark.parametrize("name, value", [("x-pq-mine", "1"), ("x-pq-body-encoding", "gzip")])
def test_the_services_own_attribute_names_are_refused(sqs, queue, our_own, name, value):
    code, _ = refusal(sqs.send_message, QueueUrl=queue, MessageBody="m", MessageAttributes={
        name: {"DataType": "String", "StringValue": value}})
    assert code == "InvalidParameterValue"


def test_a_base64_body_is_stored_decoded_and_read_back_as_sent(sqs, queue, our_own):
    encoding = {"x-pq-body-encoding": {"DataType": "String", "StringValue": "base64"}}
    sqs.send_message(QueueUrl=queue, MessageBody="AP8Q/w==", MessageAttributes=encoding)
    [message] = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5, MessageAttributeNames=["All"])["Messages"]
    assert message["Body"] == "AP8Q/w=="
    assert message["MessageAttributes"] == encoding
    code, _ = refusal(sqs.send_message, QueueUrl=queue, MessageBody="no base64!", MessageAttributes=encoding)
    assert code == "InvalidParameterValue"

"""Queues as such: creation, addresses, attributes, listing, purge and deletion."""

import os
import re
import time

import pytest
from conftest import EXPECTED, Refused, arn_of, attribute_of, bodies, fresh_name, receive, receive_until, refusal


def test_a_queue_url_is_the_endpoint_an_account_of_twelve_digits_and_the_name(sqs):
    name = fresh_name()
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    assert re.fullmatch(re.escape(os.environ["AWS_ENDPOINT_URL_SQS"]) + r"/\d{12}/" + name, url)
    assert sqs.get_queue_url(QueueName=name)["QueueUrl"] == url


def test_an_arn_names_region_account_and_queue(sqs):
    name = fresh_name()
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    account = url.split("/")[-2]
    assert arn_of(sqs, url) == f"arn:aws:sqs:{os.environ['AWS_REGION']}:{account}:{name}"


def test_a_new_queue_has_the_services_default_attributes(sqs, queue):
    attributes = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    now = time.time()
    assert abs(now - int(attributes.pop("CreatedTimestamp"))) < 30
    assert abs(now - int(attributes.pop("LastModifiedTimestamp"))) < 30
    attributes.pop("QueueArn")
    assert attributes == EXPECTED["standard_queue_attributes"]


def test_a_new_fifo_queue_says_what_it_is(sqs, fifo):
    attributes = sqs.get_queue_attributes(QueueUrl=fifo, AttributeNames=["All"])["Attributes"]
    expected = EXPECTED["standard_queue_attributes"] | EXPECTED["fifo_queue_attributes"]
    assert {name: attributes.get(name) for name in expected} == expected


def test_only_the_attributes_asked_for_are_answered(sqs, queue):
    answer = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["VisibilityTimeout", "DelaySeconds"])
    assert answer["Attributes"] == {"VisibilityTimeout": "30", "DelaySeconds": "0"}


def test_asking_for_no_attributes_answers_none(sqs, queue):
    assert "Attributes" not in sqs.get_queue_attributes(QueueUrl=queue)


def test_an_unknown_attribute_name_is_refused(sqs, queue):
    with Refused(sqs, "unknown attribute"):
        sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["Colour"])


def test_attributes_given_at_creation_are_kept(sqs, create):
    given = {"VisibilityTimeout": "77", "DelaySeconds": "3", "MaximumMessageSize": "2048", "MessageRetentionPeriod": "600",
             "ReceiveMessageWaitTimeSeconds": "4"}
    url = create(**given)
    assert sqs.get_queue_attributes(QueueUrl=url, AttributeNames=list(given))["Attributes"] == given


def test_attributes_can_be_changed_later(sqs, queue):
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"VisibilityTimeout": "12", "MaximumMessageSize": "1024"})
    assert attribute_of(sqs, queue, "VisibilityTimeout") == "12"
    assert attribute_of(sqs, queue, "MaximumMessageSize") == "1024"
    assert attribute_of(sqs, queue, "DelaySeconds") == "0"


@pytest.mark.parametrize("name, value", [
    ("VisibilityTimeout", "43201"), ("VisibilityTimeout", "-1"), ("VisibilityTimeout", "soon"), ("DelaySeconds", "901"),
    ("MaximumMessageSize", "1023"), ("MaximumMessageSize", "1048577"), ("MessageRetentionPeriod", "59"),
    ("MessageRetentionPeriod", "1209601"), ("ReceiveMessageWaitTimeSeconds", "21"),
])
def test_an_attribute_out_of_its_range_is_refused_and_changes_nothing(sqs, queue, name, value):
    before = attribute_of(sqs, queue, name)
    with Refused(sqs, "attribute out of range"):
        sqs.set_queue_attributes(QueueUrl=queue, Attributes={name: value})
    assert attribute_of(sqs, queue, name) == before


def test_creating_with_an_attribute_out_of_range_creates_nothing(sqs):
    name = fresh_name()
    with Refused(sqs, "attribute out of range"):
        sqs.create_queue(QueueName=name, Attributes={"DelaySeconds": "901"})
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix=name)


def test_creating_again_with_the_same_attributes_answers_the_same_queue(sqs):
    name = fresh_name()
    first = sqs.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "40"})["QueueUrl"]
    assert sqs.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "40"})["QueueUrl"] == first
    assert sqs.create_queue(QueueName=name)["QueueUrl"] == first


def test_creating_again_with_another_value_is_refused(sqs):
    name = fresh_name()
    sqs.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "40"})
    with Refused(sqs, "different attributes"):
        sqs.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "41"})


@pytest.mark.parametrize("name", ["with space", "dot.ted", "sl/ash", "x" * 81, "ümlaut"])
def test_a_name_the_service_does_not_allow_is_refused(sqs, name):
    code, _ = refusal(sqs.create_queue, QueueName=name)
    assert code == "InvalidParameterValue"


def test_a_name_of_eighty_characters_is_allowed(sqs):
    name = fresh_name() + "x" * (80 - len(fresh_name()))
    assert sqs.create_queue(QueueName=name)["QueueUrl"].endswith("/" + name)


def test_fifo_attributes_are_refused_on_a_standard_queue(sqs, queue):
    for name in ("FifoQueue", "ContentBasedDeduplication"):
        with Refused(sqs, "unknown attribute", says=f"Unknown Attribute {name}."):
            sqs.set_queue_attributes(QueueUrl=queue, Attributes={name: "true"})


def test_a_fifo_name_without_the_fifo_attribute_is_refused(sqs):
    code, _ = refusal(sqs.create_queue, QueueName=fresh_name(".fifo"))
    assert code == "InvalidParameterValue"


def test_the_counts_tell_visible_in_flight_and_delayed_messages(sqs, queue):
    for text in ("a", "b", "c"):
        sqs.send_message(QueueUrl=queue, MessageBody=text)
    sqs.send_message(QueueUrl=queue, MessageBody="later", DelaySeconds=60)
    receive_until(sqs, queue, 1, MaxNumberOfMessages=1)
    assert attribute_of(sqs, queue, "ApproximateNumberOfMessages") == "2"
    assert attribute_of(sqs, queue, "ApproximateNumberOfMessagesNotVisible") == "1"
    assert attribute_of(sqs, queue, "ApproximateNumberOfMessagesDelayed") == "1"


def test_listing_by_prefix_finds_exactly_those_queues(sqs):
    prefix = fresh_name()
    urls = {sqs.create_queue(QueueName=f"{prefix}-{n}")["QueueUrl"] for n in range(3)}
    sqs.create_queue(QueueName=fresh_name())
    assert set(sqs.list_queues(QueueNamePrefix=prefix)["QueueUrls"]) == urls
    assert urls <= set(sqs.list_queues()["QueueUrls"])
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix=prefix + "-none")


def test_listing_in_pages_finds_each_queue_once(sqs):
    prefix = fresh_name()
    urls = sorted(sqs.create_queue(QueueName=f"{prefix}-{n}")["QueueUrl"] for n in range(5))
    pages = list(sqs.get_paginator("list_queues").paginate(QueueNamePrefix=prefix, PaginationConfig={"PageSize": 2}))
    assert [len(page["QueueUrls"]) for page in pages] == [2, 2, 1]
    assert sorted(url for page in pages for url in page["QueueUrls"]) == urls
    assert "NextToken" not in sqs.list_queues(QueueNamePrefix=prefix)


def test_a_purge_removes_what_is_visible_delayed_and_in_flight(sqs, queue):
    for text in ("a", "b", "c"):
        sqs.send_message(QueueUrl=queue, MessageBody=text)
    sqs.send_message(QueueUrl=queue, MessageBody="later", DelaySeconds=2)
    taken = receive_until(sqs, queue, 1, MaxNumberOfMessages=1, VisibilityTimeout=2)[0]
    sqs.purge_queue(QueueUrl=queue)
    until = time.monotonic() + 4
    while time.monotonic() < until:
        assert bodies(receive(sqs, queue, WaitTimeSeconds=1)) == []
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=taken["ReceiptHandle"])
    sqs.send_message(QueueUrl=queue, MessageBody="after")
    assert bodies(receive_until(sqs, queue, 1)) == ["after"]


def test_a_second_purge_within_a_minute_is_refused(sqs, queue):
    sqs.purge_queue(QueueUrl=queue)
    name = queue.split("/")[-1]
    with Refused(sqs, "purge in progress", says=f"Only one PurgeQueue operation on {name} is allowed every 60 seconds."):
        sqs.purge_queue(QueueUrl=queue)


def test_a_deleted_queue_is_gone_for_every_action(sqs, queue):
    sqs.send_message(QueueUrl=queue, MessageBody="lost")
    sqs.delete_queue(QueueUrl=queue)
    name = queue.split("/")[-1]
    for call in (
        lambda: sqs.send_message(QueueUrl=queue, MessageBody="x"),
        lambda: sqs.receive_message(QueueUrl=queue),
        lambda: sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"]),
        lambda: sqs.purge_queue(QueueUrl=queue),
        lambda: sqs.get_queue_url(QueueName=name),
    ):
        with Refused(sqs, "missing queue"):
            call()
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix=name)


def test_a_name_deleted_within_the_minute_cannot_be_created(sqs, queue):
    sqs.delete_queue(QueueUrl=queue)
    with Refused(sqs, "deleted recently"):
        sqs.create_queue(QueueName=queue.split("/")[-1])


def test_a_queue_that_never_was_does_not_exist(sqs, queue):
    missing = queue + "-never"
    for call, arguments in (
        (sqs.get_queue_attributes, {"AttributeNames": ["All"]}),
        (sqs.set_queue_attributes, {"Attributes": {"DelaySeconds": "1"}}),
        (sqs.purge_queue, {}),
        (sqs.delete_queue, {}),
        (sqs.delete_message, {"ReceiptHandle": "x"}),
    ):
        with Refused(sqs, "missing queue"):
            call(QueueUrl=missing, **arguments)

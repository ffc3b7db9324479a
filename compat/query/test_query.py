"""Query/XML as the older SDKs and shell scripts speak it."""

import json
import os
import secrets

import pytest
from query import Client, send

EXPECTED = json.load(open(os.environ["COMPAT_EXPECTATIONS"]))
sqs = Client()
other_tenant = Client(os.environ["OTHER_ACCESS_KEY_ID"], os.environ["OTHER_SECRET_ACCESS_KEY"])


def fresh_name():
    return f"q-{secrets.token_hex(8)}"


def create(client=sqs, name=None, **attributes):
    numbered = {}
    for n, (attribute, value) in enumerate(attributes.items(), 1):
        numbered |= {f"Attribute__{n}__Name": attribute, f"Attribute__{n}__Value": value}
    suffix = ".fifo" if attributes.get("FifoQueue") == "true" else ""
    answer = client.call("CreateQueue", QueueName=(name or fresh_name()) + suffix, **numbered)
    assert answer.status == 200, answer.text
    return answer.one("CreateQueueResult/QueueUrl")


@pytest.fixture
def queue():
    return create()


def receive(queue, client=sqs, **options):
    return client.call("ReceiveMessage", url=queue, **{"WaitTimeSeconds": 2, "MaxNumberOfMessages": 10} | options)


def code_of(name):
    return EXPECTED["errors"][name]["code"]


def test_an_answer_is_xml_of_the_services_namespace_with_a_request_id(queue):
    answer = sqs.call("GetQueueUrl", QueueName=queue.split("/")[-1])
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/xml")
    assert 'xmlns="http://queue.amazonaws.com/doc/2012-11-05/"' in answer.text
    assert answer.root.tag == "GetQueueUrlResponse"
    assert answer.one("GetQueueUrlResult/QueueUrl") == queue
    assert answer.one("ResponseMetadata/RequestId")


@pytest.mark.parametrize("kind", [kind for kind in EXPECTED["bodies"]])
def test_a_body_comes_back_exactly_as_sent(queue, kind):
    body = EXPECTED["bodies"][kind]
    sent = sqs.call("SendMessage", url=queue, MessageBody=body["body"])
    assert sent.one("SendMessageResult/MD5OfMessageBody") == body["md5"]
    answer = receive(queue)
    assert answer.one("ReceiveMessageResult/Message/Body") == body["body"]
    assert answer.one("ReceiveMessageResult/Message/MD5OfBody") == body["md5"]
    assert answer.one("ReceiveMessageResult/Message/MessageId") == sent.one("SendMessageResult/MessageId")


def test_attributes_of_every_type_come_back_exactly_as_sent(queue):
    fields = {}
    for n, (name, value) in enumerate(EXPECTED["attributes"].items(), 1):
        kind = "BinaryValue" if "BinaryBase64" in value else "StringValue"
        fields |= {f"MessageAttribute__{n}__Name": name, f"MessageAttribute__{n}__Value__DataType": value["DataType"],
                   f"MessageAttribute__{n}__Value__{kind}": value.get("BinaryBase64") or value["StringValue"]}
    sent = sqs.call("SendMessage", url=queue, MessageBody="m", **fields)
    assert sent.one("SendMessageResult/MD5OfMessageAttributes") == EXPECTED["attributes_md5"]
    answer = receive(queue, MessageAttributeName__1="All")
    assert answer.one("Message/MD5OfMessageAttributes") == EXPECTED["attributes_md5"]
    got = {}
    for element in answer.root.findall(".//Message/MessageAttribute"):
        value = element.find("Value")
        got[element.findtext("Name")] = {"DataType": value.findtext("DataType")} | (
            {"BinaryBase64": value.findtext("BinaryValue")} if value.find("BinaryValue") is not None
            else {"StringValue": value.findtext("StringValue")})
    assert got == EXPECTED["attributes"]


def test_an_empty_receive_has_no_message_element(queue):
    answer = receive(queue, WaitTimeSeconds=0)
    assert answer.status == 200
    assert answer.root.find("ReceiveMessageResult") is not None
    assert answer.all("Message") == []


def test_the_queue_can_be_named_by_parameter_or_by_address_and_the_parameter_wins(queue):
    another = create()
    sqs.call("SendMessage", QueueUrl=queue, MessageBody="by parameter")
    sqs.call("SendMessage", url=another, QueueUrl=queue, MessageBody="by both")
    got = []
    while len(got) < 2:
        bodies = receive(queue).all("Message/Body")
        assert bodies
        got += bodies
    assert sorted(got) == ["by both", "by parameter"]
    assert receive(another, WaitTimeSeconds=0).all("Message") == []


def test_a_get_of_the_queues_address_with_an_action_works(queue):
    assert sqs.call("SendMessage", url=queue, method="GET", MessageBody="got & sent").status == 200
    answer = sqs.call("ReceiveMessage", url=queue, method="GET", WaitTimeSeconds=2)
    assert answer.one("Message/Body") == "got & sent"


def test_a_presigned_address_is_all_that_a_plain_get_needs(queue):
    sqs.call("SendMessage", url=queue, MessageBody="presigned")
    answer = send("GET", sqs.presigned("ReceiveMessage", url=queue, WaitTimeSeconds=2))
    assert answer.status == 200, answer.text
    assert answer.one("Message/Body") == "presigned"
    listed = send("GET", sqs.presigned("ListQueues"))
    assert queue in listed.all("QueueUrl")


def test_a_get_without_an_action_is_an_unknown_operation(queue):
    answer = sqs.call(None, url=queue, method="GET")
    assert answer.status == 404
    assert "<UnknownOperationException" in answer.text


def test_an_unknown_action_is_refused_on_a_queues_address(queue):
    answer = sqs.call("FooBar", url=queue)
    # Whatever the client made up is not repeated.
    assert answer.error[:3] == (400, "Sender", "InvalidAction") and "FooBar" not in answer.text


@pytest.mark.parametrize("action", ["CreateQueue", "ListQueues"])
def test_actions_on_no_queue_are_refused_on_a_queues_address(queue, action):
    answer = sqs.call(action, url=queue, QueueName=fresh_name())
    assert answer.error == (400, "Sender", "InvalidAction", f"The action {action} is not valid for this endpoint.")


def test_json_is_answered_where_a_query_get_asks_for_it(queue):
    answer = sqs.call("ListQueues", method="GET", headers={"accept": "application/json"})
    assert answer.status == 200
    assert queue in json.loads(answer.text)["ListQueuesResponse"]["ListQueuesResult"]["queueUrls"]


def test_a_missing_queue_says_so_in_this_protocols_words(queue):
    answer = sqs.call("GetQueueAttributes", url=queue + "-none", AttributeName__1="All")
    assert answer.error == (400, "Sender", code_of("missing queue"), "The specified queue does not exist for this wsdl version.")
    assert answer.one("RequestId")


def test_a_missing_parameter_is_named(queue):
    answer = sqs.call("SendMessage", url=queue)
    assert answer.error == (400, "Sender", "MissingParameter", "The request must contain the parameter MessageBody.")


def test_errors_have_this_protocols_codes(queue):
    sqs.call("PurgeQueue", url=queue)
    assert sqs.call("PurgeQueue", url=queue).error[:3] == (403, "Sender", code_of("purge in progress"))
    assert sqs.call("SendMessage", url=queue, MessageBody="\x01").error[:3] == (400, "Sender", "InvalidMessageContents")
    assert sqs.call("DeleteMessage", url=queue, ReceiptHandle="garbage").error[2:] == (
        "ReceiptHandleIsInvalid", 'The input receipt handle "garbage" is not a valid receipt handle.')
    assert sqs.call("SetQueueAttributes", url=queue, Attribute__1__Name="DelaySeconds",
                    Attribute__1__Value=901).error[2] == "InvalidAttributeValue"
    name = queue.split("/")[-1]
    assert sqs.call("CreateQueue", QueueName=name, Attribute__1__Name="VisibilityTimeout",
                    Attribute__1__Value=41).error[2:] == (
        "QueueAlreadyExists", "A queue already exists with the same name and a different value for attribute VisibilityTimeout")


def test_an_attribute_can_be_given_without_a_number_in_its_name(queue):
    assert sqs.call("SetQueueAttributes", url=queue, Attribute__Name="VisibilityTimeout", Attribute__Value=44).status == 200
    answer = sqs.call("GetQueueAttributes", url=queue, AttributeName="VisibilityTimeout")
    assert answer.one("Attribute/Value") == "44"


def test_batches_are_numbered_and_answered_by_id(queue):
    sent = sqs.call("SendMessageBatch", url=queue, SendMessageBatchRequestEntry__1__Id="a",
                    SendMessageBatchRequestEntry__1__MessageBody="one", SendMessageBatchRequestEntry__2__Id="b",
                    SendMessageBatchRequestEntry__2__MessageBody="\x02", SendMessageBatchRequestEntry__3__Id="c",
                    SendMessageBatchRequestEntry__3__MessageBody="three")
    assert sent.all("SendMessageBatchResultEntry/Id") == ["a", "c"]
    assert sent.all("BatchResultErrorEntry/Id") == ["b"]
    assert sent.all("BatchResultErrorEntry/Code") == ["InvalidMessageContents"]
    assert sent.all("BatchResultErrorEntry/SenderFault") == ["true"]
    handles = []
    while len(handles) < 2:
        more = receive(queue).all("Message/ReceiptHandle")
        assert more
        handles += more
    changed = sqs.call("ChangeMessageVisibilityBatch", url=queue, ChangeMessageVisibilityBatchRequestEntry__1__Id="v",
                       ChangeMessageVisibilityBatchRequestEntry__1__ReceiptHandle=handles[0],
                       ChangeMessageVisibilityBatchRequestEntry__1__VisibilityTimeout=0)
    assert changed.all("ChangeMessageVisibilityBatchResultEntry/Id") == ["v"]
    [handle] = receive(queue).all("Message/ReceiptHandle")
    deleted = sqs.call("DeleteMessageBatch", url=queue, DeleteMessageBatchRequestEntry__1__Id="x",
                       DeleteMessageBatchRequestEntry__1__ReceiptHandle=handle, DeleteMessageBatchRequestEntry__2__Id="y",
                       DeleteMessageBatchRequestEntry__2__ReceiptHandle="garbage")
    assert deleted.all("DeleteMessageBatchResultEntry/Id") == ["x"]
    assert deleted.all("BatchResultErrorEntry/Code") == ["ReceiptHandleIsInvalid"]


def test_an_empty_batch_is_refused(queue):
    assert sqs.call("SendMessageBatch", url=queue).error[2] == code_of("empty batch")


def test_system_attributes_are_named_pairs(queue):
    sqs.call("SendMessage", url=queue, MessageBody="m")
    answer = receive(queue, AttributeName__1="All")
    assert set(answer.all("Message/Attribute/Name")) == {
        "SenderId", "SentTimestamp", "ApproximateReceiveCount", "ApproximateFirstReceiveTimestamp"}


def test_fifo_sends_answer_a_sequence_number_and_keep_order():
    url = create(FifoQueue="true")
    numbers = [sqs.call("SendMessage", url=url, MessageBody=text, MessageGroupId="g", MessageDeduplicationId=text)
               .one("SendMessageResult/SequenceNumber") for text in "abc"]
    assert numbers == sorted(numbers) and all(len(number) == 20 for number in numbers)
    assert receive(url).all("Message/Body") == ["a", "b", "c"]


def test_tags_are_numbered_pairs(queue):
    sqs.call("TagQueue", url=queue, Tag__1__Key="team", Tag__1__Value="blue & green", Tag__2__Key="empty", Tag__2__Value="")
    answer = sqs.call("ListQueueTags", url=queue)
    assert dict(zip(answer.all("Tag/Key"), answer.all("Tag/Value"))) == {"team": "blue & green", "empty": ""}
    sqs.call("UntagQueue", url=queue, TagKey__1="team")
    assert sqs.call("ListQueueTags", url=queue).all("Tag/Key") == ["empty"]


def test_redrive_moves_a_message_after_its_last_receive(queue):
    arn = sqs.call("GetQueueAttributes", url=queue, AttributeName__1="QueueArn").one("Attribute/Value")
    url = create(VisibilityTimeout="0", RedrivePolicy=json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": "1"}))
    sqs.call("SendMessage", url=url, MessageBody="poison")
    assert receive(url).all("Message/Body") == ["poison"]
    assert receive(url, WaitTimeSeconds=1).all("Message") == []
    assert receive(queue).all("Message/Body") == ["poison"]


def test_a_delete_of_the_queue_works_by_its_address(queue):
    assert sqs.call("DeleteQueue", url=queue).root.tag == "DeleteQueueResponse"
    assert sqs.call("GetQueueAttributes", url=queue, AttributeName__1="All").error[2] == code_of("missing queue")


def test_tenants_do_not_see_each_other():
    name = fresh_name()
    mine, theirs = create(sqs, name), create(other_tenant, name)
    assert mine != theirs
    sqs.call("SendMessage", url=mine, MessageBody="mine")
    assert receive(theirs, other_tenant, WaitTimeSeconds=0).all("Message") == []
    assert receive(mine, other_tenant, WaitTimeSeconds=0).error[2] == code_of("missing queue")
    assert mine not in other_tenant.call("ListQueues").all("QueueUrl")
    assert receive(mine).all("Message/Body") == ["mine"]


def test_sts_on_the_same_port_tells_the_account(queue):
    answer = Client(service="sts").call("GetCallerIdentity", version="2011-06-15")
    assert answer.status == 200, answer.text
    assert answer.one("GetCallerIdentityResult/Account") == queue.split("/")[-2]

"""Addresses, parameters, handles and signatures that are not what they say."""

import base64
import json
import secrets

import pytest
from conftest import authorization, call, form, refused, request

MISSING = "AWS.SimpleQueueService.NonExistentQueue"
ECHO = "EchoedBackToWhoAsked"


@pytest.mark.parametrize("name", [ECHO, "", "../ListQueues", "<script>", "A" * 10_000, "listqueues", "AmazonSQS.ListQueues", "äöü", "%"])
def test_an_unknown_action_is_not_echoed(name):
    answers = [form("Action=" + "".join(f"%{b:02X}" for b in name.encode())), request("GET", "/?Action=" + "".join(f"%{b:02X}" for b in name.encode()))]
    if name.isascii():
        answers.append(request("POST", "/", {"X-Amz-Target": f"AmazonSQS.{name}"}, b"{}"))
    for answer in answers:
        refused(answer, "InvalidAction")
        assert not name or name not in ("<script>", ECHO) or name not in answer.text, answer


@pytest.mark.parametrize("target", ["ListQueues", "AmazonSNS.ListQueues", ".", "AmazonSQS.", "AmazonSQS.ListQueues.ListQueues"])
def test_a_target_that_is_none(target):
    refused(request("POST", "/", {"X-Amz-Target": target}, b"{}"), "InvalidAction")


@pytest.mark.parametrize("body", ["Action=ListQueues&Action=DeleteQueue", "Action=CreateQueue&QueueName=a&QueueName=b",
                                  "Action=CreateQueue&QueueName=a&Attribute.1.Name=DelaySeconds&Attribute.1.Value=1&Attribute.1.Value=2"])
def test_a_parameter_given_twice(body):
    refused(form(body), "InvalidQueryParameter")
    refused(request("GET", "/?" + body), "InvalidQueryParameter")


def test_a_parameter_in_the_url_and_in_the_body():
    refused(form("Action=CreateQueue&QueueName=b", target="/?QueueName=a"), "InvalidQueryParameter")


@pytest.mark.parametrize("escape", ["%", "%4", "%zz", "%%", "%u0041", "%ff", "%c3%28", "%ed%a0%80", "%G1"])
def test_bad_percent_encoding(escape):
    for answer in (form(f"Action=CreateQueue&QueueName=q{escape}"), form(f"Action=ListQueues&{escape}=x"),
                   request("GET", f"/?Action=ListQueues&QueueNamePrefix={escape}")):
        refused(answer, "MalformedQueryString")


def test_bytes_that_are_no_utf8_in_a_form():
    refused(form(b"Action=CreateQueue&QueueName=\xff\xfe"), "MalformedQueryString")


@pytest.mark.parametrize("path", [
    "../../etc/passwd", "..%2f..%2fetc%2fpasswd", "/../../x", "//", "%00", "a/b/c/d", "http://169.254.169.254/latest/meta-data",
    "file:///etc/passwd", "\\..\\..\\x", "x" * 100_000, "q\u0000", "q\r\nX-Injected: 1", "....//....//q"], ids=lambda p: repr(p[:30]))
def test_queue_urls_that_lead_elsewhere(path):
    for url in (path, f"http://localhost/000000000000/{path}", f"http://localhost/{path}/q2"):
        for action, more in (("GetQueueAttributes", {"AttributeNames": ["All"]}), ("DeleteQueue", {}), ("PurgeQueue", {})):
            answer = call(action, {"QueueUrl": url} | more)
            assert answer.status == 400 and answer.code in (MISSING, "InvalidParameterValue"), answer
            assert "x-injected" not in answer.headers and "root:" not in answer.text


@pytest.mark.parametrize("path", ["/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/a/b/c", "/000000000000/%00", "/000000000000/q%2f.."])
def test_paths_that_lead_elsewhere(path):
    answer = request("GET", path + "?Action=GetQueueAttributes&AttributeName.1=All")
    refused(answer, MISSING)


def delivered(queue, **more):
    call("SendMessage", {"QueueUrl": queue, "MessageBody": "m"})
    [message] = json.loads(call("ReceiveMessage", {"QueueUrl": queue, "WaitTimeSeconds": 2} | more).text)["Messages"]
    return message["ReceiptHandle"]


def changed(handle):
    data = base64.urlsafe_b64decode(handle + "=" * (-len(handle) % 4))
    for at in range(len(data)):
        yield base64.urlsafe_b64encode(data[:at] + bytes([data[at] ^ 1]) + data[at + 1:]).decode().rstrip("=")


def handles_like(handle):
    yield from changed(handle)
    yield from (handle[:at] for at in range(len(handle)))
    yield from (handle + "A", "A" + handle, handle * 2, handle.swapcase(), "garbage", "\u0000", "A" * 1_000_000, "AQEB" * 50, "ä" * 100)


def test_no_forged_or_shortened_handle_is_good(queue):
    handle = delivered(queue)
    for forged in handles_like(handle):
        answer = call("DeleteMessage", {"QueueUrl": queue, "ReceiptHandle": forged})
        refused(answer, "ReceiptHandleIsInvalid" if forged or answer.code != "MissingParameter" else "MissingParameter")
        assert len(answer.text) < 8192
    assert call("DeleteMessage", {"QueueUrl": queue, "ReceiptHandle": handle}).status == 200


def test_forged_handles_change_no_visibility(queue):
    handle = delivered(queue)
    for forged in ["garbage", *changed(handle)]:
        refused(call("ChangeMessageVisibility", {"QueueUrl": queue, "ReceiptHandle": forged, "VisibilityTimeout": 0}), "ReceiptHandleIsInvalid")
    assert json.loads(call("ReceiveMessage", {"QueueUrl": queue}).text) == {}


def test_another_queues_handle_is_none(queue):
    other = json.loads(call("CreateQueue", {"QueueName": f"q-{secrets.token_hex(8)}"}).text)["QueueUrl"]
    handle = delivered(queue)
    refused(call("DeleteMessage", {"QueueUrl": other, "ReceiptHandle": handle}), "ReceiptHandleIsInvalid")
    entries = [{"Id": "1", "ReceiptHandle": handle}]
    failed = json.loads(call("DeleteMessageBatch", {"QueueUrl": other, "Entries": entries}).text)["Failed"]
    assert [f["Code"] for f in failed] == ["ReceiptHandleIsInvalid"]


def test_a_deleted_and_made_again_queues_old_handle_is_none():
    name = f"q-{secrets.token_hex(8)}"
    queue = json.loads(call("CreateQueue", {"QueueName": name}).text)["QueueUrl"]
    handle = delivered(queue)
    call("DeleteQueue", {"QueueUrl": queue})
    refused(call("DeleteMessage", {"QueueUrl": queue, "ReceiptHandle": handle}), MISSING)


@pytest.mark.parametrize("token", ["garbage", "A" * 100_000, "%%%", "\u0000", base64.b64encode(b"\xff\xfe").decode()], ids=lambda t: repr(t[:20]))
def test_tokens_that_nobody_gave_out(queue, token):
    refused(call("ListQueues", {"MaxResults": 1, "NextToken": token}), "InvalidParameterValue")
    answer = call("CancelMessageMoveTask", {"TaskHandle": token})
    assert answer.status in (400, 404) and answer.code in ("InvalidParameterValue", "ResourceNotFoundException"), answer


@pytest.mark.parametrize("policy", ["{", "[]", "1", '{"deadLetterTargetArn":[]}', '{"deadLetterTargetArn":"arn","maxReceiveCount":1e99}',
                                    '{"a":' * 10_000, '{"deadLetterTargetArn":"arn:aws:sqs:::","maxReceiveCount":1}', '{"maxReceiveCount":-1}'],
                         ids=lambda p: repr(p[:40]))
def test_policies_that_are_none(queue, policy):
    for name in ("RedrivePolicy", "RedriveAllowPolicy", "Policy"):
        answer = call("SetQueueAttributes", {"QueueUrl": queue, "Attributes": {name: policy}})
        assert answer.status == 400 and answer.code in ("InvalidParameterValue", "InvalidAttributeValue") or (name, answer.status) == ("Policy", 200), answer


@pytest.mark.parametrize("header", ["", "AWS4-HMAC-SHA256", "Credential=", "AWS4-HMAC-SHA256 Credential=////", "Basic dGVzdDp0ZXN0", "x" * 20_000,
                                    authorization("k" * 10_000)], ids=lambda h: repr(h[:30]))
def test_credentials_that_are_none(header):
    answer = call("ListQueues", {}, {"Authorization": header})
    assert answer.status < 500 and (answer.status == 200 or answer.code), answer


def test_attributes_with_hostile_names(queue):
    for name in ("", "a..b", ".a", "a" * 257, "AWS.x", "Amazon.x", "a b", "\u0000", "a\r\nb"):
        answer = call("SendMessage", {"QueueUrl": queue, "MessageBody": "m", "MessageAttributes": {name: {"DataType": "String", "StringValue": "v"}}})
        refused(answer, "InvalidParameterValue")

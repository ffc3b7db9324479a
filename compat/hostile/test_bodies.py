"""Bodies that are no requests."""

import gzip
import json

import pytest
from conftest import call, form, raw, refused, request

HEAD = b"POST / HTTP/1.1\r\nHost: q\r\nX-Amz-Target: AmazonSQS.ListQueues\r\n"
ACTIONS = ["SendMessage", "CreateQueue", "ReceiveMessage", "TagQueue", "SendMessageBatch"]


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("nest", [("[", "]"), ('{"a":', "}"), ('{"Attributes":', "}")], ids=["lists", "objects", "attributes"])
def test_json_ten_thousand_levels_deep(action, nest):
    for value in (nest[0] * 10_000 + "1" + nest[1] * 10_000, nest[0] * 10_000):
        refused(call(action, ('{"QueueUrl":"q","Attributes":' + value + "}").encode()), "SerializationException")


def test_query_names_ten_thousand_levels_deep():
    refused(form("Action=CreateQueue&QueueName=q&" + "Attribute.1." * 10_000 + "Name=x"), "InvalidQueryParameter")


@pytest.mark.parametrize("body", [b"{", b"[]", b"1", b'"text"', b"null", b"\xff\xfe", b"{} trailing", b'{"QueueUrl":\xff}',
                                  b'{"QueueUrl":"\\ud800"}', b'{"QueueUrl":NaN}', b"\x00" * 1000], ids=repr)
def test_what_is_no_json_object(body):
    refused(call("SendMessage", body), "SerializationException")


@pytest.mark.parametrize("fields", [
    {"QueueUrl": {}, "MessageBody": "m"}, {"QueueUrl": ["q"], "MessageBody": "m"}, {"QueueUrl": "q", "MessageBody": []}, {"QueueUrl": "q", "MessageBody": "m", "MessageAttributes": []},
    {"QueueUrl": "q", "MessageBody": "m", "MessageAttributes": {"a": "v"}},
    {"QueueUrl": "q", "MessageBody": "m", "MessageAttributes": {"a": {"DataType": "Binary", "BinaryValue": "%%%"}}},
    {"QueueUrl": "q", "MessageBody": "m", "DelaySeconds": {}},
], ids=repr)
def test_fields_of_the_wrong_type(fields):
    refused(call("SendMessage", fields), "SerializationException")


@pytest.mark.parametrize("number", ["1e400", "99999999999999999999", "1.5", "-0.1", '"x"'])
def test_numbers_that_are_none(queue, number):
    body = f'{{"QueueUrl":{json.dumps(queue)},"MessageBody":"m","DelaySeconds":{number}}}'
    answer = call("SendMessage", body.encode())
    assert answer.status == 400 and answer.code in ("InvalidParameterValue", "SerializationException"), answer


def test_an_empty_body_lacks_what_is_required():
    refused(call("SendMessage", b""), "MissingParameter")
    assert call("ListQueues", b"").status == 200
    refused(form(""), None, 404)


def test_bodies_above_the_limit_are_too_large():
    refused(call("SendMessage", {"QueueUrl": "q", "MessageBody": "x" * (5 << 20)}), "RequestEntityTooLarge", 413)
    refused(form("Action=SendMessage&MessageBody=" + "x" * (5 << 20)), "RequestEntityTooLarge", 413)


def attributes(number):
    return {f"a{i}": "" for i in range(number)}


def test_a_million_attributes():
    refused(call("CreateQueue", {"QueueName": "q", "Attributes": attributes(1_000_000)}), "RequestEntityTooLarge", 413)
    refused(call("CreateQueue", {"QueueName": "q", "Attributes": attributes(250_000)}), "InvalidAttributeName")


def test_as_many_message_attributes_and_tags_as_a_body_holds(queue):
    many = {f"a{i}": {"DataType": "String", "StringValue": "v"} for i in range(60_000)}
    refused(call("SendMessage", {"QueueUrl": queue, "MessageBody": "m", "MessageAttributes": many}), "InvalidParameterValue")
    refused(call("TagQueue", {"QueueUrl": queue, "Tags": attributes(250_000)}), "InvalidParameterValue")
    entries = [{"Id": str(i), "MessageBody": "m"} for i in range(80_000)]
    refused(call("SendMessageBatch", {"QueueUrl": queue, "Entries": entries}), "AWS.SimpleQueueService.TooManyEntriesInBatchRequest")
    names = [f"n{i}" for i in range(250_000)]
    assert call("ReceiveMessage", {"QueueUrl": queue, "MessageAttributeNames": names, "AttributeNames": names[:1000]}).status in (200, 400)


def test_a_million_query_parameters():
    refused(form("Action=CreateQueue&QueueName=q&" + "&".join(f"A{i}=" for i in range(400_000))), "MalformedQueryString")


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
def test_compressed_bodies_are_refused_by_name(encoding):
    bomb = gzip.compress(b'{"QueueNamePrefix":"' + b"x" * (50 << 20) + b'"}')
    answer = refused(call("ListQueues", bomb, {"Content-Encoding": encoding}), "SerializationException")
    assert "Content-Encoding" in answer.text
    answer = refused(form(gzip.compress(b"Action=ListQueues"), headers={"Content-Encoding": encoding}), "SerializationException")
    assert "Content-Encoding" in answer.text


def test_bad_utf8_and_control_characters(queue):
    refused(call("SendMessage", f'{{"QueueUrl":"{queue}","MessageBody":"'.encode() + b'\xc3\x28"}'), "SerializationException")
    for body in ("\x00", "a\x0bb", "\ufffe"):
        refused(call("SendMessage", {"QueueUrl": queue, "MessageBody": body}), "InvalidMessageContents")


@pytest.mark.parametrize("length", ["99999999999", str(2**63 - 1)])
def test_a_huge_content_length_is_refused_before_the_body_comes(length):
    answer, took = raw(HEAD + b"Content-Length: " + length.encode() + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413 ") and b"RequestEntityTooLarge" in answer, answer
    assert took < 6


@pytest.mark.parametrize("length", [b"-1", b"1e9", b"99999999999999999999999999", b"2\r\nContent-Length: 3", b""], ids=repr)
def test_a_content_length_that_is_no_number_ends_the_connection(length):
    answer, took = raw(HEAD + b"Content-Length: " + length + b"\r\n\r\n{}")
    assert answer.startswith(b"HTTP/1.1 400 ") or not answer, answer
    assert took < 6


def test_two_lengths_of_two_kinds_smuggle_nothing():
    inner = b"GET /smuggled HTTP/1.1\r\nHost: q\r\n\r\n"
    answer, took = raw(HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner)
    assert took < 12 and b"smuggled" not in answer


@pytest.mark.parametrize("chunks", [b"zz\r\n{}\r\n0\r\n\r\n", b"ffffffffffffffffff\r\n{}", b"2\r\n{}garbage"], ids=repr)
def test_chunks_that_are_none(chunks):
    answer, took = raw(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
    assert took < 10 and not answer.startswith(b"HTTP/1.1 200"), answer


def test_a_slow_body_ends_in_time():
    answer, took = raw(HEAD + b"Content-Length: 100\r\n\r\n{")
    assert took < 8 and (not answer or answer.startswith(b"HTTP/1.1 408 ")), (answer, took)


def test_a_slow_head_ends_in_time():
    answer, took = raw(b"POST / HTTP/1.1\r\nHost: q\r\nX-Slow: ")
    assert took < 8, took


def test_many_slow_bodies_do_not_hold_up_others():
    import socket

    from conftest import ADDRESS

    held = [socket.create_connection(ADDRESS) for _ in range(300)]
    try:
        for connection in held:
            connection.sendall(HEAD + b"Content-Length: 100000\r\n\r\n" + b" " * 1000)
        assert call("ListQueues", {}).status == 200
    finally:
        for connection in held:
            connection.close()


@pytest.mark.parametrize("method", ["PUT", "DELETE", "HEAD", "PATCH", "TRACE", "OPTIONS", "CONNECT"])
def test_other_methods_do_nothing(method):
    answer = request(method, "/", {"X-Amz-Target": "AmazonSQS.ListQueues"})
    assert answer.status < 500, answer


def test_binary_noise_is_no_http():
    for noise in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200, b"\x00" * 4096, b"GET\r\n\r\n", b"\xff" * 100_000):
        answer, took = raw(noise)
        assert took < 8 and not answer.startswith(b"HTTP/1.1 200")


def test_heads_without_bounds():
    answer, took = raw(b"GET / HTTP/1.1\r\nHost: q\r\n" + b"".join(b"X-%d: v\r\n" % i for i in range(5000)) + b"\r\n")
    assert took < 8 and not answer.startswith(b"HTTP/1.1 200")
    answer, took = raw(b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\nHost: q\r\n\r\n")
    assert took < 8 and not answer.startswith(b"HTTP/1.1 200")

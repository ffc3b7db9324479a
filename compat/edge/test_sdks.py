"""Official SDKs through the proxy, over TLS, without a setting of their own."""

import os
import pathlib
import secrets
import subprocess
import threading
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent


def test_boto3_sends_receives_and_deletes(sqs, queue):
    assert queue.startswith(os.environ["COMPAT_SQS"] + "/"), "queue URLs name the proxy, not what is behind it"
    body = "ä/+%20" * 1000
    sqs.send_message(QueueUrl=queue, MessageBody=body)
    [message] = sqs.receive_message(QueueUrl=queue)["Messages"]
    assert message["Body"] == body
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])


def test_the_largest_message_passes(sqs, queue):
    body = "x" * (256 * 1024)
    sqs.send_message(QueueUrl=queue, MessageBody=body)
    [message] = sqs.receive_message(QueueUrl=queue)["Messages"]
    assert message["Body"] == body


def test_a_long_poll_lasts_its_twenty_seconds(sqs, queue):
    began = time.monotonic()
    assert "Messages" not in sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20)
    assert 19.5 < time.monotonic() - began < 25


def test_a_long_poll_is_answered_as_soon_as_a_message_comes(sqs, queue):
    sent = []

    def send():
        sqs.send_message(QueueUrl=queue, MessageBody="m")
        sent.append(time.monotonic())

    timer = threading.Timer(1, send)
    timer.start()
    assert sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20)["Messages"]
    timer.join()
    assert time.monotonic() - sent[0] < 5


def test_the_javascript_sdk_sends_receives_and_deletes():
    program = subprocess.run(["node", "sqs.mjs", f"q-{secrets.token_hex(8)}"], cwd=HERE / "js", capture_output=True, text=True, timeout=60)
    assert (program.returncode, program.stdout) == (0, "received\n"), program.stderr


def test_the_website_answers_under_its_own_name():
    with urllib.request.urlopen(os.environ["COMPAT_SITE"] + "/version", timeout=10) as answer:
        assert b"powerqueue" in answer.read()
        assert answer.headers["Strict-Transport-Security"]
        policies = answer.headers.get_all("Content-Security-Policy")
        assert len(policies) == 1 and policies[0].startswith("default-src 'self';"), policies
        assert answer.headers.get_all("Server") is None

"""Clients of two tenants, fresh queues, and what every test says about errors."""

import itertools
import json
import os
import secrets
import threading
import time

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

EXPECTED = json.load(open(os.environ["COMPAT_EXPECTATIONS"]))
CREATED_BY_USE = os.environ.get("COMPAT_BY_USE") == "1"
PROMPTLY = 5  # seconds: far above any wake-up, far below the 20 s that a poll would wait

# One attempt, so that no retry hides an error.
ONCE = Config(retries={"total_max_attempts": 1}, max_pool_connections=32, connect_timeout=5, read_timeout=40)


def client_of(access_key, secret_key):
    return boto3.client("sqs", aws_access_key_id=access_key, aws_secret_access_key=secret_key, config=ONCE)


@pytest.fixture(scope="session")
def sqs():
    return client_of(os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"])


@pytest.fixture(scope="session")
def other_tenant():
    return client_of(os.environ["OTHER_ACCESS_KEY_ID"], os.environ["OTHER_SECRET_ACCESS_KEY"])


@pytest.fixture
def second_client():
    """Another client of the first tenant, with connections of its own."""
    return client_of(os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"])


def fresh_name(suffix=""):
    return f"q-{secrets.token_hex(8)}{suffix}"


@pytest.fixture
def create(sqs):
    """Creates a queue with a fresh name and the attributes given, and answers its URL."""
    def create_queue(**attributes):
        fifo = attributes.get("FifoQueue") == "true"
        return sqs.create_queue(QueueName=fresh_name(".fifo" if fifo else ""), Attributes=attributes)["QueueUrl"]

    return create_queue


@pytest.fixture
def queue(create):
    return create()


@pytest.fixture
def fifo(create):
    return create(FifoQueue="true")


@pytest.fixture
def by_use():
    if not CREATED_BY_USE:
        pytest.skip("this server does not create queues by use")


@pytest.fixture
def our_own():
    """For what PowerQueue has beyond the real service."""
    if os.environ.get("COMPAT_PEER") == "1":
        pytest.skip("another server has no such thing")


def arn_of(sqs, url):
    return sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]


def attribute_of(sqs, url, name):
    return sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[name]).get("Attributes", {}).get(name)


def receive(sqs, url, **options):
    """One receive; short unless told otherwise."""
    options.setdefault("MaxNumberOfMessages", 10)
    options.setdefault("WaitTimeSeconds", 0)
    return sqs.receive_message(QueueUrl=url, **options).get("Messages", [])


def receive_until(sqs, url, number, within=20, **options):
    """Long polls until so many messages came; what came meanwhile stays in flight."""
    until = time.monotonic() + within
    got = []
    while len(got) < number and time.monotonic() < until:
        got += receive(sqs, url, WaitTimeSeconds=2, **options)
    assert len(got) == number, f"{len(got)} messages instead of {number}: {[m['Body'] for m in got]}"
    return got


def bodies(messages):
    return [message["Body"] for message in messages]


counter = itertools.count()


def send_group(sqs, url, group, *texts):
    """Sends texts to one message group in order, each with a deduplication id of its own."""
    return [
        sqs.send_message(QueueUrl=url, MessageBody=text, MessageGroupId=group, MessageDeduplicationId=f"d{next(counter)}")
        for text in texts
    ]


class Refused:
    """`with Refused(sqs, "missing queue"):` expects the error of that name in expectations.json, as boto3 raises it."""

    def __init__(self, sqs, name, says=None):
        self.expected = EXPECTED["errors"][name]
        self.raises = pytest.raises(getattr(sqs.exceptions, self.expected["shape"]))
        self.says = says or self.expected.get("message")

    def __enter__(self):
        self.info = self.raises.__enter__()
        return self

    def __exit__(self, *exception):
        matched = self.raises.__exit__(*exception)
        if exception[0] is not None and matched:
            answer = self.info.value.response
            assert answer["Error"]["Code"] == self.expected["code"]
            if "status" in self.expected:
                assert answer["ResponseMetadata"]["HTTPStatusCode"] == self.expected["status"]
            if self.says:
                assert answer["Error"]["Message"] == self.says
        return matched


def refusal(call, **arguments):
    """The code and the text of the error that a call must raise."""
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


class Waiting:
    """A long poll in a thread of its own. `begin` returns once its request is on the way to the server."""

    def __init__(self, client, url, **options):
        self.client, self.url = client, url
        self.options = {"WaitTimeSeconds": 20, "MaxNumberOfMessages": 10} | options
        self.sent = threading.Event()
        self.messages, self.failure = None, None
        self.thread = threading.Thread(target=self.poll, daemon=True)

    def begin(self):
        self.client.meta.events.register("before-send.sqs.ReceiveMessage", self.on_the_way)
        self.thread.start()
        assert self.sent.wait(10)
        time.sleep(0.3)  # lets the request arrive; a send that overtakes it would only make the test weaker
        return self

    def on_the_way(self, **_):
        self.sent.set()

    def poll(self):
        try:
            self.messages = self.client.receive_message(QueueUrl=self.url, **self.options).get("Messages", [])
        except Exception as failure:  # handed to the test's own thread
            self.failure = failure

    def returned(self, within=PROMPTLY):
        """The messages of the poll, which must have returned by then."""
        self.thread.join(within)
        assert not self.thread.is_alive(), f"the receive still waits {within} s after a message came"
        if self.failure:
            raise self.failure
        return self.messages

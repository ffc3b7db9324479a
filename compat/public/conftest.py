"""Tenants of a public service: an identifier is the whole credential, so that each test has worlds of its own."""

import secrets
import string

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

ONCE = Config(retries={"total_max_attempts": 1}, max_pool_connections=32, connect_timeout=5, read_timeout=60)


def identifier():
    letters = string.ascii_lowercase
    return secrets.choice(letters) + "".join(secrets.choice(letters + string.digits) for _ in range(23))


def client_of(key, secret="any"):
    return boto3.client("sqs", aws_access_key_id=key, aws_secret_access_key=secret, config=ONCE)


def new_tenant():
    return client_of(identifier())


@pytest.fixture
def sqs():
    return new_tenant()


@pytest.fixture
def other():
    return new_tenant()


def fresh_name(suffix=""):
    return f"q-{secrets.token_hex(8)}{suffix}"


@pytest.fixture
def queue(sqs):
    return sqs.create_queue(QueueName=fresh_name())["QueueUrl"]


def refusal(call, **arguments):
    """Status, code and text of the error that a call must raise."""
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    answer = caught.value.response
    return answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"]["Code"], answer["Error"]["Message"]


def refused(code, status, call, **arguments):
    got = refusal(call, **arguments)
    assert got[:2] == (status, code), got
    return got[2]


MISSING = "AWS.SimpleQueueService.NonExistentQueue"


def receive(sqs, url, **options):
    return sqs.receive_message(QueueUrl=url, **{"WaitTimeSeconds": 2, "MaxNumberOfMessages": 10} | options).get("Messages", [])


def arn_of(sqs, url):
    return sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]


def fill(sqs, url, number, body="m", **options):
    """Sends so many messages, ten a request; answers how many were accepted and the codes of the others."""
    accepted, codes = 0, []
    for start in range(0, number, 10):
        entries = [{"Id": str(i), "MessageBody": body, **{k: f(i) for k, f in options.items()}} for i in range(start, min(start + 10, number))]
        answer = sqs.send_message_batch(QueueUrl=url, Entries=entries)
        accepted += len(answer.get("Successful", []))
        codes += [failed["Code"] for failed in answer.get("Failed", [])]
    return accepted, codes

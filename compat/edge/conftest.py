"""Clients of a public service that stands behind Caddy."""

import os
import pathlib
import secrets
import string
import sys

import boto3
import pytest
from botocore.config import Config

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

# One attempt and no more: what fails once has failed.
ONCE = Config(retries={"total_max_attempts": 1}, max_pool_connections=64, connect_timeout=10, read_timeout=40)


def identifier():
    letters = string.ascii_lowercase
    return secrets.choice(letters) + "".join(secrets.choice(letters + string.digits) for _ in range(23))


def client_of(key, endpoint, ca):
    return boto3.client("sqs", endpoint_url=endpoint, verify=str(ca), aws_access_key_id=key, aws_secret_access_key="any",
                        region_name="eu-central-1", config=ONCE)


@pytest.fixture
def sqs():
    return client_of(identifier(), os.environ["COMPAT_SQS"], os.environ["COMPAT_CA"])


@pytest.fixture
def queue(sqs):
    return sqs.create_queue(QueueName=f"q-{secrets.token_hex(8)}")["QueueUrl"]

"""Brokers of our own, in public mode with small limits, and clients with addresses of their own.

Every address in 127.0.0.0/8 is this machine's, so that each test can come from addresses that nobody else uses; the SDK's
sockets are bound to one where urllib3 opens them.
"""

import contextlib
import http.client
import json
import os
import secrets
import signal
import string
import subprocess
import threading
import time
import urllib.request
from datetime import datetime, timezone

import boto3
import pytest
import urllib3.util.connection
from botocore.config import Config

BINARY = os.environ["COMPAT_BINARY"]
READY_WITHIN = 30

# --- clients with addresses ------------------------------------------------------------------------------------------

source = threading.local()
connect = urllib3.util.connection.create_connection


def connect_from(address, *arguments, **options):
    chosen = getattr(source, "address", None)
    return connect(address, *arguments, **options | ({"source_address": (chosen, 0)} if chosen else {}))


urllib3.util.connection.create_connection = connect_from


@contextlib.contextmanager
def coming_from(address):
    """SDK calls of this thread come from that address, on connections opened meanwhile."""
    source.address = address
    try:
        yield
    finally:
        source.address = None


addresses = (f"127.{a}.{b}.1" for a in range(10, 250) for b in range(250))


@pytest.fixture
def address():
    return next(addresses)


@pytest.fixture
def another_address():
    return next(addresses)


def identifier():
    letters = string.ascii_lowercase
    return secrets.choice(letters) + "".join(secrets.choice(letters + string.digits) for _ in range(23))


def client(broker, key=None, **config):
    config = Config(**{"retries": {"total_max_attempts": 1}, "max_pool_connections": 64} | config)
    return boto3.client("sqs", endpoint_url=broker.sqs, aws_access_key_id=key or identifier(),
                        aws_secret_access_key="any", config=config)


class Raw:
    """One keep-alive connection from an address, without an SDK."""

    def __init__(self, broker, address, key=None):
        host, port = broker.sqs.removeprefix("http://").split(":")
        self.connection = http.client.HTTPConnection(host, int(port), timeout=30, source_address=(address, 0))
        day = datetime.now(timezone.utc).strftime("%Y%m%d")
        self.headers = {
            "Content-Type": "application/x-amz-json-1.0",
            "Authorization": f"AWS4-HMAC-SHA256 Credential={key or identifier()}/{day}/eu-central-1/sqs/aws4_request, "
                             "SignedHeaders=host, Signature=0",
        }

    def call(self, action="ListQueues", body=None, headers=None):
        """Status, headers and body of an action's answer."""
        self.connection.request("POST", "/", json.dumps(body or {}),
                                self.headers | {"X-Amz-Target": f"AmazonSQS.{action}"} | (headers or {}))
        answer = self.connection.getresponse()
        return answer.status, answer.headers, answer.read()

    def statuses(self, number, **options):
        return [self.call(**options)[0] for _ in range(number)]


# --- brokers -----------------------------------------------------------------------------------------------------------


class Broker:
    def __init__(self, data, *settings, mode="public"):
        self.data, self.settings, self.mode = data, settings, mode
        self.start()

    def start(self):
        command = [BINARY, "--data", str(self.data), "--mode", self.mode]
        for name in ("sqs", "http", "metrics"):
            command += ["--set", f"listen.{name}=127.0.0.1:0"]
        for setting in self.settings:
            command += ["--set", setting]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        endpoints = json.loads(self.process.stdout.readline())["endpoints"]
        self.sqs, self.http, self.metrics = (endpoints[name][0] for name in ("sqs", "http", "metrics"))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(40) == 0

    def kill(self):
        self.process.kill()
        self.process.wait(10)
        self.process.stdout.close()

    def metric(self, series):
        """The value of one series, as in the metrics' text."""
        text = urllib.request.urlopen(f"{self.metrics}/metrics", timeout=10).read().decode()
        [value] = [line.rsplit(" ", 1)[1] for line in text.splitlines() if line.rsplit(" ", 1)[0] == series]
        return float(value)

    def readiness(self):
        return json.load(urllib.request.urlopen(f"{self.http}/healthz/ready", timeout=10))


@pytest.fixture
def start(tmp_path):
    """Starts a broker with further settings; it ends with the test."""
    started = []

    def start_one(*settings, data=None, **options):
        started.append(Broker(data or tmp_path / f"data{len(started)}", *settings, **options))
        return started[-1]

    yield start_one
    for broker in started:
        broker.kill()


def until(what, probe, within=30):
    """Polls until the probe gives something true, which is answered."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        got = probe()
        if got:
            return got
        time.sleep(0.05)
    pytest.fail(f"not within {within} s: {what}")

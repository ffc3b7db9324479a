"""Raw requests, a neighbour who works all the while, and what every test says of the process afterwards."""

import http.client
import json
import os
import pathlib
import re
import secrets
import socket
import threading
import time
from urllib.parse import urlsplit

import pytest

ENDPOINT = urlsplit(os.environ["AWS_ENDPOINT_URL_SQS"])
ADDRESS = (ENDPOINT.hostname, ENDPOINT.port)
GROWTH = 128 << 20  # what all of it together may add to the process: some bodies of 4 MiB, parsed
SLOWEST = 5.0  # seconds that a neighbour's request may take; the tests that build large bodies hold up its own thread too
KEY = os.environ["AWS_ACCESS_KEY_ID"]


def authorization(key=KEY):
    return f"AWS4-HMAC-SHA256 Credential={key}/20260101/eu-central-1/sqs/aws4_request, SignedHeaders=host, Signature=0"


class Answer:
    def __init__(self, status, headers, text):
        self.status, self.headers, self.text = status, headers, text

    @property
    def code(self):
        """The error code, in whichever protocol the answer is."""
        header = self.headers.get("x-amzn-query-error")
        return header.partition(";")[0] if header else (re.findall(r"<Code>(.*?)</Code>", self.text) or [None])[0]

    def __repr__(self):
        return f"{self.status} {self.headers} {self.text[:500]}"


def request(method, target, headers=None, body=b""):
    connection = http.client.HTTPConnection(*ADDRESS, timeout=30)
    try:
        connection.putrequest(method, target, skip_accept_encoding=True)
        for name, value in ({"Authorization": authorization(), "Content-Length": str(len(body))} | (headers or {})).items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders()
        try:
            connection.send(body)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it may answer before it has read everything
        answer = connection.getresponse()
        return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode())
    finally:
        connection.close()


def call(action, body, headers=None):
    """AWS JSON; `body` is what it says or the bytes themselves."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    target = {"X-Amz-Target": f"AmazonSQS.{action}", "Content-Type": "application/x-amz-json-1.0"}
    return request("POST", "/", target | (headers or {}), raw)


def form(body, target="/", headers=None):
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    return request("POST", target, kind | (headers or {}), body if isinstance(body, bytes) else body.encode())


def refused(answer, code, status=400):
    assert (answer.status, answer.code) == (status, code), answer
    return answer


def raw(data, within=15):
    """Sends bytes and reads until the other end closes; answers what came and how long it took."""
    began = time.monotonic()
    with socket.create_connection(ADDRESS, timeout=within) as connection:
        connection.sendall(data)
        got = b""
        try:
            while piece := connection.recv(65536):
                got += piece
        except ConnectionResetError:
            pass
    return got, time.monotonic() - began


@pytest.fixture
def queue():
    url = json.loads(call("CreateQueue", {"QueueName": f"q-{secrets.token_hex(8)}"}).text)["QueueUrl"]
    return url


def resident():
    if pid := os.environ.get("COMPAT_BROKER_PID"):
        status = pathlib.Path(f"/proc/{pid}/status")
        if status.exists():
            return int(re.search(r"VmRSS:\s+(\d+) kB", status.read_text())[1]) << 10
    return None


class Neighbour(threading.Thread):
    """Another tenant's client, who sends, receives and deletes all the while."""

    def __init__(self):
        super().__init__(daemon=True)
        self.ending, self.done, self.slowest, self.failure = threading.Event(), 0, 0.0, None

    def run(self):
        try:
            self.work()
        except Exception as failure:  # handed to the test's own thread
            self.failure = failure

    def work(self):
        headers = {"Authorization": authorization(os.environ["OTHER_ACCESS_KEY_ID"])}
        url = json.loads(self.timed("CreateQueue", {"QueueName": "neighbour"}, headers).text)["QueueUrl"]
        while not self.ending.wait(0.02):
            body = secrets.token_hex(8)
            self.timed("SendMessage", {"QueueUrl": url, "MessageBody": body}, headers)
            [message] = json.loads(self.timed("ReceiveMessage", {"QueueUrl": url, "WaitTimeSeconds": 1}, headers).text)["Messages"]
            assert message["Body"] == body
            self.timed("DeleteMessage", {"QueueUrl": url, "ReceiptHandle": message["ReceiptHandle"]}, headers)
            self.done += 1

    def timed(self, action, body, headers):
        began = time.monotonic()
        answer = call(action, body, headers)
        self.slowest = max(self.slowest, time.monotonic() - began)
        assert answer.status == 200, answer
        return answer


@pytest.fixture(scope="session", autouse=True)
def unharmed():
    """Around everything: the neighbour worked, memory is bounded, and nothing panicked."""
    call("ListQueues", {})
    before = resident()
    neighbour = Neighbour()
    neighbour.start()
    yield neighbour
    neighbour.ending.set()
    neighbour.join(30)
    assert neighbour.failure is None, neighbour.failure
    assert neighbour.done > 20 and neighbour.slowest < SLOWEST, (neighbour.done, neighbour.slowest)
    if before:
        assert resident() - before < GROWTH, f"{before} bytes became {resident()}"
    if log := os.environ.get("COMPAT_BROKER_LOG"):
        assert "panicked" not in pathlib.Path(log).read_text(errors="replace")


@pytest.fixture(autouse=True)
def neighbour_goes_on(unharmed):
    done = unharmed.done
    yield
    until = time.monotonic() + 10
    while unharmed.done == done and unharmed.is_alive() and time.monotonic() < until:
        time.sleep(0.01)
    assert unharmed.failure is None and unharmed.done > done, unharmed.failure

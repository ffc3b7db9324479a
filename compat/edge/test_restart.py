"""The broker restarts behind sockets that somebody else holds, and nobody who uses it is told."""

import os
import threading
import time

import pytest
from conftest import client_of, identifier
from edge import Edge
from held import Service

LIMITS = ["limits.requests_per_second=100000", "limits.requests_burst=100000", "limits.new_tenants_per_hour=10000", "limits.ban_refusals=1000000"]
FLAGS = ["--mode", "public"] + [part for limit in ["proxy.listeners=sqs,http", *LIMITS] for part in ("--set", limit)]
RESTARTS = 5
CLIENTS = 6


@pytest.fixture
def service(tmp_path):
    with Service(os.environ["COMPAT_BINARY"], tmp_path / "service", ["sqs", "http", "metrics"], FLAGS) as service:
        yield service


@pytest.fixture
def proxy(service, tmp_path):
    with Edge(tmp_path / "edge", f"127.0.0.1:{service.ports['http']}", f"127.0.0.1:{service.ports['sqs']}") as proxy:
        yield proxy


class Load(threading.Thread):
    """Sends, receives and deletes until told to stop; each call once."""

    def __init__(self, sqs, queue, name):
        super().__init__(name=name)
        self.sqs, self.queue = sqs, queue
        self.stopping = threading.Event()
        self.rounds = threading.Semaphore(0)
        self.sent, self.received, self.failures = set(), set(), []

    def run(self):
        number = 0
        while not self.stopping.is_set():
            number += 1
            body = f"{self.name}-{number}"
            if self.attempt(self.sqs.send_message, MessageBody=body):
                self.sent.add(body)
            self.take(WaitTimeSeconds=1)
            self.rounds.release()

    def take(self, **options):
        answer = self.attempt(self.sqs.receive_message, MaxNumberOfMessages=10, **options) or {}
        messages = answer.get("Messages", [])
        for message in messages:
            if self.attempt(self.sqs.delete_message, ReceiptHandle=message["ReceiptHandle"]):
                self.received.add(message["Body"])
        return messages

    def attempt(self, call, **arguments):
        began = time.monotonic()
        try:
            return call(QueueUrl=self.queue, **arguments)
        except Exception as failure:
            self.failures.append(f"{call.__name__} after {time.monotonic() - began:.2f} s: {failure!r}")
            return None

    def more_rounds(self, number):
        for _ in range(number):
            assert self.rounds.acquire(timeout=60), f"{self.name} stands still; {self.failures}"

    def forget_rounds(self):
        while self.rounds.acquire(blocking=False):
            pass


def test_a_restart_under_load_fails_no_request_and_loses_no_message(service, proxy):
    key = identifier()
    clients = [client_of(key, proxy.sqs, proxy.ca) for _ in range(CLIENTS)]
    load = []
    for number, sqs in enumerate(clients):
        queue = sqs.create_queue(QueueName=f"q{number}")["QueueUrl"]
        load.append(Load(sqs, queue, f"client-{number}"))
    for each in load:
        each.start()
    try:
        for _ in range(RESTARTS):
            for each in load:
                each.forget_rounds()
                each.more_rounds(10)
            service.restart()
            for each in load:
                each.forget_rounds()
                each.more_rounds(5)
    finally:
        for each in load:
            each.stopping.set()
        for each in load:
            each.join(60)
    assert [failure for each in load for failure in each.failures] == []
    for each in load:
        while each.sent - each.received:
            assert each.take(WaitTimeSeconds=5), f"lost: {each.sent - each.received}"
        assert each.received == each.sent


def test_a_long_poll_that_waits_at_a_restart_is_answered_not_cut(service, proxy):
    sqs = client_of(identifier(), proxy.sqs, proxy.ca)
    queue = sqs.create_queue(QueueName="q")["QueueUrl"]
    answers = []
    poll = threading.Thread(target=lambda: answers.append(sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20)))
    poll.start()
    until_somebody_waits(service)
    began = time.monotonic()
    service.restart()
    poll.join(30)
    assert [answer.get("Messages") for answer in answers] == [None]
    assert time.monotonic() - began < 15, "a drain ends long polls at once"


def until_somebody_waits(service):
    """The broker's own metrics say when a request is open."""
    import urllib.request
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with urllib.request.urlopen(f"http://127.0.0.1:{service.ports['metrics']}/metrics", timeout=5) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith("powerqueue_receivers") and float(line.rsplit(" ", 1)[1]) > 0:
                    return
        time.sleep(0.02)
    raise AssertionError("no long poll waits")


def test_the_watchdog_is_fed_and_the_end_announced(service):
    service.until("WATCHDOG=1")
    process = service.process
    process.terminate()
    service.until("STOPPING=1")
    assert process.wait(30) == 0

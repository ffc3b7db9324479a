"""Dramatiq's SQS broker with a worker in this process."""

import base64
import os
import secrets
import threading
import time

import dramatiq
import pytest
from dramatiq.middleware import Retries
from dramatiq_sqs import SQSBroker

WITHIN = 30


def broker_of(key, secret, namespace, **options):
    broker = SQSBroker(namespace=namespace, aws_access_key_id=os.environ[key], aws_secret_access_key=os.environ[secret],
                       endpoint_url=os.environ["AWS_ENDPOINT_URL_SQS"], middleware=[], **options)
    broker.add_middleware(Retries(min_backoff=100, max_backoff=500, max_retries=2))
    return broker


@pytest.fixture
def namespace():
    return f"ns{secrets.token_hex(5)}"


@pytest.fixture
def broker(namespace):
    return broker_of("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", namespace, dead_letter=True, tags={"team": "blue"})


@pytest.fixture
def working():
    """Starts workers and stops them at the end."""
    workers = []

    def start(broker):
        worker = dramatiq.Worker(broker, worker_threads=4, worker_timeout=1000)
        worker.start()
        workers.append(worker)
        return worker

    yield start
    for worker in workers:
        worker.stop(timeout=10_000)


class Box:
    """Collects what actors hand over."""

    def __init__(self):
        self.items, self.changed = [], threading.Condition()

    def put(self, item):
        with self.changed:
            self.items.append(item)
            self.changed.notify_all()

    def wait_for(self, number):
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.items) >= number, WITHIN), f"only {self.items} came"
            return list(self.items)


def test_actors_run_with_their_arguments_as_sent(broker, working):
    box = Box()
    actor = dramatiq.actor(box.put, actor_name="put", broker=broker)
    values = ["plain", "zażółć 🐇\r\n", {"nested": [1, 2.5, None]}, "x" * 50_000]
    for value in values:
        actor.send(value)
    working(broker)
    assert sorted(box.wait_for(4), key=str) == sorted(values, key=str)
    broker.join("default", timeout=WITHIN)


def test_a_worker_that_waits_gets_what_is_sent_later(broker, working):
    box = Box()
    actor = dramatiq.actor(box.put, actor_name="put", broker=broker)
    working(broker)
    time.sleep(2)
    for n in range(50):
        actor.send(n)
    assert sorted(box.wait_for(50)) == list(range(50))
    broker.join("default", timeout=WITHIN)


def test_a_delayed_message_runs_after_its_delay(broker, working):
    box = Box()
    actor = dramatiq.actor(box.put, actor_name="put", broker=broker)
    working(broker)
    began = time.monotonic()
    actor.send_with_options(args=("later",), delay=2000)
    assert box.wait_for(1) == ["later"]
    assert time.monotonic() - began >= 1.9


def test_a_failing_actor_is_tried_again_and_then_its_message_is_a_dead_letter(broker, working, namespace):
    box = Box()

    def fail(value):
        box.put(value)
        raise RuntimeError("as meant")

    actor = dramatiq.actor(fail, actor_name="fail", broker=broker)
    sent = actor.send("poison")
    working(broker)
    assert box.wait_for(3) == ["poison"] * 3
    dead = broker.sqs.get_queue_by_name(QueueName=f"{namespace}_default_dlq")
    until = time.monotonic() + WITHIN
    messages = []
    while not messages and time.monotonic() < until:
        messages = dead.receive_messages(WaitTimeSeconds=5)
    assert dramatiq.Message.decode(base64.b64decode(messages[0].body)).message_id == sent.message_id


def test_what_a_stopped_worker_had_prefetched_is_visible_at_once(broker, namespace):
    actor = dramatiq.actor(lambda value: value, actor_name="idle", broker=broker)
    for n in range(4):
        actor.send(n)
    consumer = broker.consume("default", prefetch=4, timeout=2000)
    taken = []
    while len(taken) < 4:
        message = next(consumer)
        assert message is not None
        taken.append(message)
    consumer.requeue(taken)
    consumer.close()
    again = broker.consume("default", prefetch=4, timeout=2000)
    got = [next(again) for _ in range(4)]
    assert sorted(message.args[0] for message in got) == [0, 1, 2, 3]
    for message in got:
        again.ack(message)


def test_queues_carry_the_brokers_tags(broker, namespace):
    actor = dramatiq.actor(lambda: None, actor_name="nothing", broker=broker)
    actor.send()
    client = broker.sqs.meta.client
    url = client.get_queue_url(QueueName=f"{namespace}_default")["QueueUrl"]
    # A queue made by use was there before the broker could create it with tags; it tags the second time it looks.
    broker.queues.clear()
    broker._ensure_queue("default")
    assert client.list_queue_tags(QueueUrl=url)["Tags"] == {"team": "blue"}


def test_a_worker_of_another_tenant_takes_nothing_away(broker, working, namespace):
    mine, theirs = Box(), Box()
    actor = dramatiq.actor(mine.put, actor_name="put", broker=broker)
    foreign = broker_of("OTHER_ACCESS_KEY_ID", "OTHER_SECRET_ACCESS_KEY", namespace)
    dramatiq.actor(theirs.put, actor_name="put", broker=foreign)
    working(foreign)
    actor.send("mine")
    time.sleep(3)
    assert theirs.items == []
    working(broker)
    assert mine.wait_for(1) == ["mine"]

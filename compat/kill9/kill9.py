"""Kills the broker with SIGKILL again and again while clients send, receive and delete; then settles accounts.

What must hold: every confirmed message whose deletion was never asked for comes back exactly as sent; no message whose deletion
was answered comes back; FIFO groups keep their order and deliver a message once per deduplication id, though its send is repeated
after a kill; nothing comes that was never sent.

Every message's content follows from its identifier, so a received message is judged without a lookup of what was sent.

Environment: COMPAT_BINARY, KILL9_CYCLES (10), KILL9_SEED, KILL9_SET (further --set values, space separated),
KILL9_KEEP (keep the data directory of a failing run).
"""

import hashlib
import itertools
import os
import pathlib
import random
import secrets
import shutil
import signal
import socket
import string
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter, defaultdict

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

BINARY = os.environ["COMPAT_BINARY"]
CYCLES = int(os.environ.get("KILL9_CYCLES", "10"))
SEED = int(os.environ.get("KILL9_SEED") or secrets.randbelow(2**32))
SETTINGS = os.environ.get("KILL9_SET", "").split()
DEADLINE = time.monotonic() + 120 + 9 * CYCLES

STANDARD_WRITERS, FIFO_GROUPS, STANDARD_READERS = 3, 4, 2
VISIBILITY = 3  # seconds; short, so that what a kill or a lazy reader leaves behind soon returns
UP_BETWEEN_KILLS = (0.05, 1.5)
READY_WITHIN = 30
SYNCS = ("1s", "always")  # by turns
HELD_BACK = 0.3  # share of received messages that a reader leaves to their timeout
PACE = 0.004


# --- content ---------------------------------------------------------------------------------------------------------

TEXTS = ["plain ", "\r\n", "ąę ", "🐇", "<&> ", "\"\\ ", "\t"]


def body_of(name):
    chance = random.Random(name)
    return name + "|" + "".join(chance.choice(TEXTS) for _ in range(chance.choice((0, 5, 60, 700))))


def attributes_of(name):
    return {
        "name": {"DataType": "String", "StringValue": name},
        "bytes": {"DataType": "Binary", "BinaryValue": random.Random(name + "!").randbytes(48)},
        "count": {"DataType": "Number.int", "StringValue": str(len(name))},
    }


def differs(message):
    """What of a received message is not as it was sent; None if all is."""
    name = message["Body"].split("|")[0]
    if message["Body"] != body_of(name):
        return "body"
    if message["MD5OfBody"] != hashlib.md5(message["Body"].encode()).hexdigest():
        return "MD5 of the body"
    if message.get("MessageAttributes") != attributes_of(name):
        return "attributes"
    return None


# --- the broker ------------------------------------------------------------------------------------------------------


class Broker:
    """The binary on one data directory and the same two ports, however often it is started."""

    def __init__(self, folder):
        self.folder = folder
        self.sqs, self.http = free_ports(2)
        self.starts = 0
        self.slowest_start = 0.0

    def start(self):
        command = [BINARY, "--data", str(self.folder / "data")]
        listen = [f"listen.sqs=127.0.0.1:{self.sqs}", f"listen.http=127.0.0.1:{self.http}", "listen.metrics="]
        # The death of a process loses nothing, whether answers wait for the disk or not.
        sync = [f"storage.sync={SYNCS[self.starts % len(SYNCS)]}"]
        for value in listen + sync + SETTINGS:
            command += ["--set", value]
        began = time.monotonic()
        with open(self.folder / f"broker-{self.starts}.log", "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.starts += 1
        while not self.ready():
            if self.process.poll() is not None or time.monotonic() - began > READY_WITHIN:
                state = f"ended with {self.process.returncode}" if self.process.poll() is not None else "is not ready"
                raise Unopenable(f"start {self.starts}: the broker {state}\n{self.log()}")
            time.sleep(0.01)
        self.slowest_start = max(self.slowest_start, time.monotonic() - began)

    def ready(self):
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{self.http}/healthz/ready", timeout=2).status == 200
        except OSError:
            return False

    def kill(self):
        if self.process.poll() is not None:
            raise Unopenable(f"the broker ended by itself with {self.process.returncode}\n{self.log()}")
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def log(self):
        return (self.folder / f"broker-{self.starts - 1}.log").read_text(errors="replace")[-4000:]


class Unopenable(Exception):
    """The broker did not start again, or ended without being killed."""


def free_ports(number):
    sockets = [socket.socket() for _ in range(number)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


# --- the ledger ------------------------------------------------------------------------------------------------------


class Ledger:
    """What was sent, confirmed, asked to be deleted and answered, and every breach of the rules."""

    def __init__(self):
        self.lock = threading.Lock()
        self.sent = set()
        self.confirmed = {}  # name: message id
        self.asked = set()
        self.answered = {}  # name: when the answer came
        self.message_ids = defaultdict(set)
        self.received = Counter()
        self.floor = Counter()  # per FIFO group, the first number that nobody asked to delete
        self.breaches = defaultdict(list)
        self.numbers = Counter()

    def sending(self, *names):
        with self.lock:
            self.sent.update(names)

    def confirm(self, name, message_id):
        with self.lock:
            self.confirmed[name] = message_id
            self.message_ids[name].add(message_id)

    def deleting(self, *names):
        with self.lock:
            self.asked.update(names)

    def deleted(self, name):
        with self.lock:
            self.answered[name] = time.monotonic()

    def receive(self, messages, asked_at):
        """Judges what one receive, begun at `asked_at`, brought."""
        with self.lock:
            for message in messages:
                name = message["Body"].split("|")[0]
                self.received[name] += 1
                self.message_ids[name].add(message["MessageId"])
                if name not in self.sent:
                    self.breaches["never sent"].append(message["Body"][:80])
                elif wrong := differs(message):
                    self.breaches["not as sent"].append(f"{name}: {wrong}")
                if name in self.answered and self.answered[name] < asked_at:
                    self.breaches["deleted and back"].append(name)

    def receive_in_order(self, messages):
        """Judges the order of one FIFO receive: each group from its first message that nobody asked to delete."""
        groups = defaultdict(list)
        for message in messages:
            group, number = split_name(message["Body"].split("|")[0])
            groups[group].append(number)
        with self.lock:
            for group, numbers in groups.items():
                while f"{group}-{self.floor[group]}" in self.asked:
                    self.floor[group] += 1
                passed_over = [n for n in range(self.floor[group], numbers[-1])
                               if n not in numbers and f"{group}-{n}" not in self.asked]
                if numbers != sorted(set(numbers)) or passed_over:
                    self.breaches["out of order"].append(f"{group}: {numbers} came, passed over {passed_over[:5]}")

    def close(self):
        """The last rules, once both queues are drained."""
        lost = self.confirmed.keys() - self.asked
        self.breaches["lost"] += sorted(lost)
        doubled = {name: ids for name, ids in self.message_ids.items() if len(ids) > 1}
        self.breaches["delivered as two messages"] += sorted(doubled)


def split_name(name):
    group, _, number = name.rpartition("-")
    return group, int(number)


# --- the load --------------------------------------------------------------------------------------------------------

FAILURES = (BotoCoreError, ClientError)


class Load:
    """Writers and readers that go on through every kill until they are told to stop."""

    def __init__(self, endpoint, ledger):
        letters = string.ascii_lowercase
        self.key = secrets.choice(letters) + "".join(secrets.choice(letters + string.digits) for _ in range(23))
        self.endpoint, self.ledger = endpoint, ledger
        self.stop_writing, self.stop_reading = threading.Event(), threading.Event()
        self.crashes = []
        sqs = self.client()
        self.standard = sqs.create_queue(QueueName="standard", Attributes={"VisibilityTimeout": str(VISIBILITY)})["QueueUrl"]
        self.fifo = sqs.create_queue(QueueName="ordered.fifo", Attributes={
            "FifoQueue": "true", "VisibilityTimeout": str(VISIBILITY)})["QueueUrl"]

    def client(self):
        once = Config(retries={"total_max_attempts": 1}, connect_timeout=3, read_timeout=15)
        return boto3.client("sqs", endpoint_url=self.endpoint, region_name="eu-central-1", aws_access_key_id=self.key,
                            aws_secret_access_key="any", config=once)

    def start(self):
        self.writers = [self.thread(self.write_standard, f"s{n}") for n in range(STANDARD_WRITERS)]
        self.writers += [self.thread(self.write_group, f"g{n}") for n in range(FIFO_GROUPS)]
        # One reader of the FIFO queue, so that the order it sees is the order it came in.
        self.readers = [self.thread(self.read, self.standard) for _ in range(STANDARD_READERS)]
        self.readers.append(self.thread(self.read, self.fifo))

    def thread(self, work, argument):
        def guarded():
            try:
                work(self.client(), argument)
            except Exception as crash:  # a bug of this test: reported as a failure of its own
                self.crashes.append(f"{work.__name__}({argument}): {crash!r}")

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        return thread

    def write_standard(self, sqs, writer):
        """Sends each message once; what is not confirmed may or may not come."""
        chance = random.Random(f"{SEED}-{writer}")
        numbers = itertools.count()
        while not self.stop_writing.is_set():
            names = [f"{writer}-{next(numbers)}" for _ in range(chance.choice((1, 1, 1, 5)))]
            self.ledger.sending(*names)
            try:
                if len(names) == 1:
                    answer = sqs.send_message(QueueUrl=self.standard, MessageBody=body_of(names[0]),
                                              MessageAttributes=attributes_of(names[0]))
                    self.confirmed_as_sent(names[0], answer)
                else:
                    entries = [{"Id": str(n), "MessageBody": body_of(name), "MessageAttributes": attributes_of(name)}
                               for n, name in enumerate(names)]
                    for entry in sqs.send_message_batch(QueueUrl=self.standard, Entries=entries).get("Successful", []):
                        self.confirmed_as_sent(names[int(entry["Id"])], entry)
            except FAILURES as failure:
                self.failed("send", failure)
            time.sleep(PACE)

    def write_group(self, sqs, group):
        """Sends one group's messages in order, each until it is confirmed, always under the same deduplication id."""
        for number in itertools.count():
            name = f"{group}-{number}"
            self.ledger.sending(name)
            while True:
                if self.stop_writing.is_set():
                    return
                try:
                    answer = sqs.send_message(QueueUrl=self.fifo, MessageBody=body_of(name), MessageAttributes=attributes_of(name),
                                              MessageGroupId=group, MessageDeduplicationId=name)
                    self.confirmed_as_sent(name, answer)
                    break
                except FAILURES as failure:
                    self.failed("send", failure)
            time.sleep(PACE)

    def confirmed_as_sent(self, name, answer):
        if answer["MD5OfMessageBody"] != hashlib.md5(body_of(name).encode()).hexdigest():
            self.ledger.breaches["not as sent"].append(f"{name}: MD5 in the confirmation")
        self.ledger.confirm(name, answer["MessageId"])

    def read(self, sqs, queue):
        """Receives and deletes most of it. Within a FIFO receive it deletes a leading part, as a consumer in order would."""
        chance = random.Random(f"{SEED}-{queue}")
        while not self.stop_reading.is_set():
            messages = self.receive(sqs, queue)
            if queue == self.fifo:
                keep = messages[: chance.randint(0, len(messages))] if chance.random() < HELD_BACK else messages
            else:
                keep = [message for message in messages if chance.random() >= HELD_BACK]
            self.delete(sqs, queue, keep, one_by_one=chance.random() < 0.5)

    def receive(self, sqs, queue, wait=1):
        asked_at = time.monotonic()
        try:
            messages = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=wait,
                                           MessageAttributeNames=["All"]).get("Messages", [])
        except FAILURES as failure:
            self.failed("receive", failure)
            return []
        self.ledger.receive(messages, asked_at)
        if queue == self.fifo:
            self.ledger.receive_in_order(messages)
        return messages

    def delete(self, sqs, queue, messages, one_by_one=False):
        if not messages:
            return
        named = [(message["Body"].split("|")[0], message["ReceiptHandle"]) for message in messages]
        try:
            if one_by_one:
                for name, handle in named:
                    self.ledger.deleting(name)
                    sqs.delete_message(QueueUrl=queue, ReceiptHandle=handle)
                    self.ledger.deleted(name)
            else:
                self.ledger.deleting(*(name for name, _ in named))
                entries = [{"Id": str(n), "ReceiptHandle": handle} for n, (_, handle) in enumerate(named)]
                for entry in sqs.delete_message_batch(QueueUrl=queue, Entries=entries).get("Successful", []):
                    self.ledger.deleted(named[int(entry["Id"])][0])
        except FAILURES as failure:
            self.failed("delete", failure)

    def failed(self, what, failure):
        """A refusal that the broker wrote is told apart from a connection that broke."""
        code = failure.response["Error"]["Code"] if isinstance(failure, ClientError) else "connection broken"
        with self.ledger.lock:
            self.ledger.numbers[f"{what}: {code}"] += 1
        if code == "connection broken":
            time.sleep(0.02)

    def drain(self):
        """Stops everyone, then receives and deletes until nothing came for longer than any lease lasts."""
        self.stop_writing.set()
        self.stop_reading.set()
        for thread in self.writers + self.readers:
            thread.join(30)
        sqs = self.client()
        for queue in (self.standard, self.fifo):
            quiet_since = time.monotonic()
            while time.monotonic() - quiet_since < VISIBILITY + 2:
                if time.monotonic() > DEADLINE:
                    raise TimeoutError("the queues were not drained in time")
                if messages := self.receive(sqs, queue):
                    self.delete(sqs, queue, messages)
                    quiet_since = time.monotonic()

    def counts_left(self):
        """The queues' own counts of what is still there, those that are not zero."""
        return {
            f"{name} of {queue}": value
            for queue in (self.standard, self.fifo)
            for name, value in self.client().get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"].items()
            if name.startswith("ApproximateNumber") and value != "0"
        }


# --- the run ---------------------------------------------------------------------------------------------------------

RULES = {
    "lost": "every confirmed message came back or was deleted by its reader",
    "not as sent": "every message came exactly as sent, attributes and digests included",
    "never sent": "no message came that was never sent",
    "deleted and back": "no message came back after its deletion was answered",
    "out of order": "every FIFO group came in order",
    "delivered as two messages": "no message was stored twice under two message ids",
}


def run(folder):
    chance = random.Random(SEED)
    broker, ledger = Broker(folder), Ledger()
    failures = []
    broker.start()
    try:
        load = Load(f"http://127.0.0.1:{broker.sqs}", ledger)
        load.start()
        cycles = 0
        try:
            for cycles in range(1, CYCLES + 1):
                if time.monotonic() > DEADLINE:
                    raise TimeoutError(f"only {cycles - 1} of {CYCLES} cycles were done in time")
                time.sleep(chance.uniform(*UP_BETWEEN_KILLS))
                broker.kill()
                broker.start()
            time.sleep(0.5)
            load.drain()
            ledger.close()
            if left := load.counts_left():
                failures.append(("the counts are zero once everything was deleted", [str(left)]))
        except (Unopenable, TimeoutError, *FAILURES) as failure:
            failures.append(("the broker starts again after every kill and goes on", [str(failure)]))
        failures += [("this test's own threads did not crash", [crash]) for crash in load.crashes]
    finally:
        broker.process.kill()
        broker.process.wait()
    print(f"seed {SEED}: {cycles} kills, slowest start {broker.slowest_start:.2f} s")
    print(f"{len(ledger.sent)} sent, {len(ledger.confirmed)} confirmed, {sum(ledger.received.values())} received "
          f"({sum(n > 1 for n in ledger.received.values())} more than once), {len(ledger.asked)} asked to be deleted, "
          f"{len(ledger.answered)} answered")
    for what, number in sorted(ledger.numbers.items()):
        print(f"    {number} × {what}")
    for breach, sentence in RULES.items():
        found = ledger.breaches[breach]
        print(f"{'ok  ' if not found else 'FAIL'} {sentence}")
        if found:
            failures.append((sentence, found))
    if not ledger.confirmed or not ledger.answered:
        failures.append(("the load did something", ["nothing was confirmed or nothing was deleted"]))
    return failures


def main():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="kill9-"))
    failures = run(folder)
    for sentence, found in failures:
        print(f"FAIL {sentence}: {len(found)}")
        for one in found[:10]:
            print(f"    {one}")
    passed = len(RULES) + 1 - len({sentence for sentence, _ in failures})
    if failures and os.environ.get("KILL9_KEEP"):
        print(f"the data directory is kept: {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{max(passed, 0)} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

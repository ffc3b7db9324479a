"""What is idle makes room, and a full disk refuses growth only."""

import os
import subprocess

import boto3
import pytest
from botocore.exceptions import ClientError
from conftest import client, identifier, until


def test_a_queue_made_by_use_goes_when_idle_and_a_created_one_stays(start):
    broker = start("limits.implicit_entity_idle=1s")
    sqs = client(broker)
    kept = sqs.create_queue(QueueName="created")["QueueUrl"]
    used = sqs.get_queue_url(QueueName="used")["QueueUrl"]
    held = sqs.get_queue_url(QueueName="held")["QueueUrl"]
    sqs.send_message(QueueUrl=held, MessageBody="m")
    until("the idle queue is gone", lambda: used not in sqs.list_queues()["QueueUrls"])
    assert sqs.list_queues()["QueueUrls"] == [kept, held]
    [message] = sqs.receive_message(QueueUrl=held)["Messages"]
    sqs.delete_message(QueueUrl=held, ReceiptHandle=message["ReceiptHandle"])
    until("it is empty and idle", lambda: sqs.list_queues()["QueueUrls"] == [kept])
    assert broker.metric("powerqueue_queues_reaped_total") == 2
    # No tombstone keeps the name from being used again at once.
    sqs.send_message(QueueUrl=used, MessageBody="m")


def test_a_tenant_that_nobody_uses_is_deleted_and_its_identifier_names_a_new_one(start):
    broker = start("limits.tenant_idle=2s")
    key = identifier()
    sqs = client(broker, key)
    sts = boto3.client("sts", endpoint_url=broker.sqs, aws_access_key_id=key, aws_secret_access_key="any")
    account = sts.get_caller_identity()["Account"]
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="m")
    until("it is reaped", lambda: broker.metric("powerqueue_tenants_reaped_idle_total") == 1)
    assert broker.metric("powerqueue_tenants") == 0 and broker.metric("powerqueue_messages") == 0
    assert sts.get_caller_identity()["Account"] != account
    assert "QueueUrls" not in sqs.list_queues()


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 40 MiB, where this machine lets us mount one."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "none", str(place)], capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_refuses_growth_keeps_deletes_working_and_recovers(start, small_disk):
    broker = start("storage.segment_bytes=1MiB", "storage.min_free_bytes=8MiB", data=small_disk / "data", mode="local")
    sqs = client(broker)
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    sent = 0
    with pytest.raises(ClientError) as caught:
        while sent < 1000:
            sqs.send_message(QueueUrl=url, MessageBody=str(sent).ljust(200_000, "x"))
            sent += 1
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
    assert sent > 20
    assert broker.readiness()["store"]["growth"] == "refused: the disk is short"
    assert broker.metric("powerqueue_storage_short") == 1
    got = 0
    while got < sent:
        for message in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=2).get("Messages", []):
            assert message["Body"].rstrip("x") == str(got)
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            got += 1

    def sends_again():
        try:
            return sqs.send_message(QueueUrl=url, MessageBody="again")
        except ClientError:
            return None

    until("the disk has room again", sends_again)
    assert broker.readiness()["store"]["growth"] == "accepted"
    assert os.listdir(small_disk)


def test_short_memory_refuses_growth_and_recovers(start):
    broker = start("storage.memory_bytes=256KiB", mode="local")
    sqs = client(broker)
    url = sqs.create_queue(QueueName="q")["QueueUrl"]

    def refused():
        try:
            sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": str(i), "MessageBody": "m"} for i in range(10)])
        except ClientError as error:
            return error.response["ResponseMetadata"]["HTTPStatusCode"] == 503
        return False

    until("memory is short", refused)
    assert broker.readiness()["store"]["growth"] == "refused: memory is short"
    while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        sqs.delete_message_batch(QueueUrl=url, Entries=[{"Id": m["MessageId"], "ReceiptHandle": m["ReceiptHandle"]} for m in messages])
    until("memory is there again", lambda: not refused())

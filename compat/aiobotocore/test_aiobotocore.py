"""The asynchronous client: everything at once on one event loop."""

import asyncio
import base64
import json
import os
import secrets

import pytest
from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from botocore.exceptions import ClientError

EXPECTED = json.load(open(os.environ["COMPAT_EXPECTATIONS"]))
PROMPTLY = 5  # seconds, of the 20 that a poll would wait


def client_of(key, secret):
    return get_session().create_client(
        "sqs", aws_access_key_id=os.environ[key], aws_secret_access_key=os.environ[secret],
        config=AioConfig(retries={"total_max_attempts": 1}, max_pool_connections=64))


@pytest.fixture
async def sqs():
    async with client_of("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY") as client:
        yield client


@pytest.fixture
async def other_tenant():
    async with client_of("OTHER_ACCESS_KEY_ID", "OTHER_SECRET_ACCESS_KEY") as client:
        yield client


async def create(sqs, **attributes):
    name = f"q-{secrets.token_hex(8)}" + (".fifo" if attributes.get("FifoQueue") else "")
    return (await sqs.create_queue(QueueName=name, Attributes=attributes))["QueueUrl"]


async def receive(sqs, url, **options):
    options = {"MaxNumberOfMessages": 10, "WaitTimeSeconds": 5} | options
    return (await sqs.receive_message(QueueUrl=url, **options)).get("Messages", [])


async def receive_all(sqs, url, number, **options):
    got = []
    while len(got) < number:
        more = await receive(sqs, url, **options)
        assert more, f"only {len(got)} of {number} came"
        got += more
    return got


@pytest.mark.parametrize("kind", EXPECTED["bodies"])
async def test_a_body_comes_back_exactly_as_sent(sqs, kind):
    body, url = EXPECTED["bodies"][kind], await create(sqs)
    sent = await sqs.send_message(QueueUrl=url, MessageBody=body["body"])
    assert sent["MD5OfMessageBody"] == body["md5"]
    [message] = await receive(sqs, url)
    assert (message["Body"], message["MD5OfBody"]) == (body["body"], body["md5"])


async def test_attributes_of_every_type_come_back_exactly_as_sent(sqs):
    url = await create(sqs)
    attributes = {
        name: {"DataType": value["DataType"], "BinaryValue": base64.b64decode(value["BinaryBase64"])}
        if "BinaryBase64" in value else value for name, value in EXPECTED["attributes"].items()}
    sent = await sqs.send_message(QueueUrl=url, MessageBody="m", MessageAttributes=attributes)
    assert sent["MD5OfMessageAttributes"] == EXPECTED["attributes_md5"]
    [message] = await receive(sqs, url, MessageAttributeNames=["All"])
    assert message["MessageAttributes"] == attributes


async def test_a_hundred_sends_at_once_are_a_hundred_messages(sqs):
    url = await create(sqs)
    await asyncio.gather(*(sqs.send_message(QueueUrl=url, MessageBody=str(n)) for n in range(100)))
    got = await receive_all(sqs, url, 100)
    assert sorted(int(message["Body"]) for message in got) == list(range(100))


async def test_a_batch_is_answered_by_id_and_deleted_by_batch(sqs):
    url = await create(sqs)
    entries = [{"Id": f"e{n}", "MessageBody": str(n)} for n in range(10)]
    answer = await sqs.send_message_batch(QueueUrl=url, Entries=entries)
    assert [entry["Id"] for entry in answer["Successful"]] == [entry["Id"] for entry in entries]
    got = await receive_all(sqs, url, 10, VisibilityTimeout=2)
    await sqs.delete_message_batch(QueueUrl=url, Entries=[
        {"Id": str(n), "ReceiptHandle": message["ReceiptHandle"]} for n, message in enumerate(got)])
    assert await receive(sqs, url, WaitTimeSeconds=4) == []


async def test_forty_waiting_receives_are_each_woken_by_their_own_queue(sqs):
    urls = await asyncio.gather(*(create(sqs) for _ in range(40)))
    polls = [asyncio.create_task(receive(sqs, url, WaitTimeSeconds=20)) for url in urls]
    await asyncio.sleep(1)
    assert not any(poll.done() for poll in polls)
    async with client_of("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY") as sender:
        await asyncio.gather(*(sender.send_message(QueueUrl=url, MessageBody=url) for url in urls))
    got = await asyncio.wait_for(asyncio.gather(*polls), PROMPTLY)
    assert [messages[0]["Body"] for messages in got] == urls


async def test_a_poll_that_its_client_gave_up_takes_no_message_away(sqs):
    url = await create(sqs)
    poll = asyncio.create_task(receive(sqs, url, WaitTimeSeconds=20))
    await asyncio.sleep(0.5)
    poll.cancel()
    with pytest.raises(asyncio.CancelledError):
        await poll
    await asyncio.sleep(0.5)
    await sqs.send_message(QueueUrl=url, MessageBody="for the next")
    assert [message["Body"] for message in await receive(sqs, url)] == ["for the next"]


async def test_visibility_can_be_given_back(sqs):
    url = await create(sqs)
    await sqs.send_message(QueueUrl=url, MessageBody="m")
    [taken] = await receive(sqs, url, VisibilityTimeout=600)
    assert await receive(sqs, url, WaitTimeSeconds=0) == []
    poll = asyncio.create_task(receive(sqs, url, WaitTimeSeconds=20))
    await asyncio.sleep(0.3)
    await sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=taken["ReceiptHandle"], VisibilityTimeout=0)
    assert [message["Body"] for message in await asyncio.wait_for(poll, PROMPTLY)] == ["m"]


async def test_fifo_groups_keep_their_order_under_concurrent_senders(sqs):
    url = await create(sqs, FifoQueue="true", ContentBasedDeduplication="true")

    async def send_group(group):
        for n in range(6):
            await sqs.send_message(QueueUrl=url, MessageBody=f"{group}-{n}", MessageGroupId=group)

    await asyncio.gather(*(send_group(f"g{n}") for n in range(5)))
    order = {}
    for _ in range(30):
        messages = await receive(sqs, url, AttributeNames=["MessageGroupId"])
        for message in messages:
            order.setdefault(message["Attributes"]["MessageGroupId"], []).append(message["Body"])
            await sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        if sum(map(len, order.values())) == 30:
            break
    assert order == {f"g{n}": [f"g{n}-{m}" for m in range(6)] for n in range(5)}


async def test_redrive_and_tags(sqs):
    dead = await create(sqs)
    arn = (await sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"]))["Attributes"]["QueueArn"]
    url = await create(sqs, RedrivePolicy=json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1}))
    await sqs.send_message(QueueUrl=url, MessageBody="poison")
    assert len(await receive(sqs, url, VisibilityTimeout=0)) == 1
    assert await receive(sqs, url, WaitTimeSeconds=1) == []
    assert [message["Body"] for message in await receive(sqs, dead)] == ["poison"]
    await sqs.tag_queue(QueueUrl=url, Tags={"team": "blue"})
    assert (await sqs.list_queue_tags(QueueUrl=url))["Tags"] == {"team": "blue"}


async def test_purge_and_delete_and_the_error_classes(sqs):
    url = await create(sqs)
    await sqs.send_message(QueueUrl=url, MessageBody="m")
    await sqs.purge_queue(QueueUrl=url)
    assert await receive(sqs, url, WaitTimeSeconds=1) == []
    with pytest.raises(sqs.exceptions.PurgeQueueInProgress):
        await sqs.purge_queue(QueueUrl=url)
    await sqs.delete_queue(QueueUrl=url)
    with pytest.raises(sqs.exceptions.QueueDoesNotExist):
        await sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
    with pytest.raises(sqs.exceptions.ReceiptHandleIsInvalid):
        await sqs.delete_message(QueueUrl=await create(sqs), ReceiptHandle="garbage")


async def test_tenants_do_not_see_each_other(sqs, other_tenant):
    url = await create(sqs)
    await sqs.send_message(QueueUrl=url, MessageBody="secret")
    assert url not in (await other_tenant.list_queues()).get("QueueUrls", [])
    with pytest.raises(ClientError) as caught:
        await receive(other_tenant, url)
    assert caught.value.response["Error"]["Code"] == EXPECTED["errors"]["missing queue"]["code"]
    assert [message["Body"] for message in await receive(sqs, url)] == ["secret"]

"""How many requests, and how many new tenants, one address may ask for."""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from conftest import Raw, client, coming_from, identifier

SMALL = ("limits.requests_per_second=20", "limits.requests_burst=40", "limits.ban_refusals=off")


def test_above_the_budget_boto3_raises_its_throttling_class(start, address):
    broker = start(*SMALL)
    sqs = client(broker)
    with coming_from(address):
        url = sqs.create_queue(QueueName="q")["QueueUrl"]
        with pytest.raises(sqs.exceptions.RequestThrottled) as caught:
            for _ in range(200):
                sqs.get_queue_attributes(QueueUrl=url)
    answer = caught.value.response
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 403
    assert answer["Error"]["Code"] == "RequestThrottled"
    assert "slow down" in answer["Error"]["Message"]
    assert broker.metric('powerqueue_admission_refused_total{reason="requests"}') >= 1


@pytest.mark.parametrize("mode", ["legacy", "standard"])
def test_boto3_backs_off_and_every_call_succeeds(start, address, mode):
    broker = start(*SMALL)
    attempts = {"legacy": {"max_attempts": 12}, "standard": {"total_max_attempts": 12}}[mode]
    sqs = client(broker, retries={"mode": mode} | attempts)

    def send(url):
        with coming_from(address):
            return sqs.send_message(QueueUrl=url, MessageBody="m")["ResponseMetadata"]["RetryAttempts"]

    with coming_from(address):
        url = sqs.create_queue(QueueName="q")["QueueUrl"]
    with ThreadPoolExecutor(4) as pool:
        retries = list(pool.map(send, [url] * 70))
    assert sum(retries) > 0, "the budget was never exceeded"
    with coming_from(address):
        held = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert held["ApproximateNumberOfMessages"] == "70"


def test_client_sqs_v3_backs_off_and_raises_its_own_classes(start, address):
    broker = start(*SMALL, "limits.messages_per_queue=80")
    script = Path(__file__).parent / "js" / "throttled.mjs"
    done = subprocess.run(["node", str(script), broker.sqs, address, identifier()], capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_budget_is_a_burst_and_then_a_rate(start, address):
    broker = start("limits.requests_per_second=1", "limits.requests_burst=15", "limits.ban_refusals=off")
    statuses = Raw(broker, address).statuses(30)
    assert statuses[:15] == [200] * 15
    assert set(statuses[17:]) == {403}


def test_a_refusal_is_in_the_clients_protocol_whatever_it_sent(start, address):
    broker = start("limits.requests_per_second=1", "limits.requests_burst=1", "limits.ban_refusals=off")
    raw = Raw(broker, address)
    raw.call()
    status, headers, body = raw.call()
    assert (status, headers["x-amzn-query-error"]) == (403, "RequestThrottled;Sender") and b"RequestThrottled" in body
    raw.connection.request("POST", "/", "Action=ListQueues&Version=2012-11-05",
                           {"Content-Type": "application/x-www-form-urlencoded"})
    answer = raw.connection.getresponse()
    assert answer.status == 403 and b"<Code>RequestThrottled</Code>" in answer.read()


def test_two_addresses_are_judged_apart_and_forged_headers_ignored(start, address, another_address):
    broker = start("limits.requests_per_second=1", "limits.requests_burst=10", "limits.ban_refusals=off")
    forged = {name: another_address for name in ("X-PQ-Client-IP", "X-Forwarded-For", "X-Real-IP")}
    forged["Forwarded"] = f"for={another_address}"
    raw = Raw(broker, address)
    assert raw.statuses(10, headers=forged) == [200] * 10
    assert 403 in raw.statuses(4, headers=forged), "the header did not help"
    assert Raw(broker, another_address).statuses(10) == [200] * 10, "nor did it harm the other"


def test_twenty_new_tenants_an_hour(start, address, another_address):
    broker = start()
    known = identifier()
    with coming_from(address):
        client(broker, known).list_queues()
        for _ in range(19):
            client(broker).list_queues()
        sqs = client(broker)
        with pytest.raises(sqs.exceptions.RequestThrottled, match="too many new tenants; try again later or reuse your identifier"):
            sqs.list_queues()
        client(broker, known).list_queues()
    with coming_from(another_address):
        client(broker).list_queues()


def test_requests_in_progress_are_limited_long_polls_included(start, address, another_address):
    broker = start("limits.requests_in_flight=8")
    key = identifier()
    with coming_from(address):
        url = client(broker, key).create_queue(QueueName="q")["QueueUrl"]

    def poll(_):
        with coming_from(address):
            try:
                return client(broker, key).receive_message(QueueUrl=url, WaitTimeSeconds=4).get("Messages", [])
            except ClientError as error:
                return error.response["Error"]["Code"]

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(poll, range(16)))
    assert answers.count([]) >= 8 and answers.count("RequestThrottled") >= 1
    assert answers.count([]) + answers.count("RequestThrottled") == 16
    with coming_from(address):
        client(broker, key).list_queues()



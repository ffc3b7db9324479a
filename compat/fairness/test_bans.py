"""Who does not heed refusals is banned, longer each time; nothing else gets anybody banned."""

import time

import pytest
from botocore.exceptions import ClientError
from conftest import Raw, client, coming_from, identifier, until

STRICT = ("limits.requests_per_second=1", "limits.requests_burst=5", "limits.ban_refusals=20")


def get_banned(raw):
    statuses = raw.statuses(30)
    assert statuses[0] in (200, 403) and statuses[-1] == 429, statuses


def test_a_hundred_refusals_bring_a_ban_by_the_defaults(start, address):
    broker = start()
    raw = Raw(broker, address)
    statuses = raw.statuses(100_000 // 200)
    refused = statuses.count(403)
    assert refused in (0, 100), "the ban comes with the hundredth refusal"
    if refused == 0:
        pytest.skip("this machine is too slow for a hundred requests a second on one connection")
    assert statuses[-1] == 429


def test_the_banned_get_429_with_the_time_left_and_are_let_in_again(start, address, another_address):
    broker = start(*STRICT, "limits.ban_lengths=2s,5s")
    raw = Raw(broker, address)
    get_banned(raw)
    status, headers, body = raw.call()
    assert status == 429 and headers["Retry-After"] in ("1", "2") and b"RequestThrottled" in body
    assert broker.metric('powerqueue_bans_active{level="1"}') == 1
    with coming_from(address), pytest.raises(ClientError) as caught:
        client(broker).list_queues()
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 429
    assert Raw(broker, another_address).call()[0] == 200, "nobody else is"
    until("the ban ends", lambda: raw.call()[0] != 429, within=10)
    get_banned(raw)
    _, headers, _ = raw.call()
    assert int(headers["Retry-After"]) > 2, "the second ban is longer"
    assert broker.metric('powerqueue_bans_active{level="2"}') == 1
    assert broker.metric("powerqueue_bans_total") == 2


def test_a_long_ban_asks_to_come_back_within_the_hour(start, address):
    broker = start(*STRICT, "limits.ban_lengths=24h")
    raw = Raw(broker, address)
    get_banned(raw)
    assert raw.call()[1]["Retry-After"] == "3600"


def test_a_connection_from_before_the_ban_survives_it(start, address):
    broker = start(*STRICT, "limits.ban_lengths=1s")
    before, raw = Raw(broker, address), Raw(broker, address)
    assert before.call()[0] == 200
    socket = before.connection.sock
    get_banned(raw)
    assert before.call()[0] == 429
    until("the ban ends", lambda: before.call()[0] != 429, within=10)
    assert before.connection.sock is socket, "it is the same connection"


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_bans_outlast_a_restart(start, address, end):
    broker = start(*STRICT, "limits.ban_lengths=1h")
    get_banned(Raw(broker, address))
    if end == "kill":
        # Bans are saved within five seconds.
        time.sleep(6)
    getattr(broker, end)()
    broker.start()
    assert Raw(broker, address).call()[0] == 429


def test_a_strangers_page_cannot_get_a_visitor_banned(start, address):
    broker = start(*STRICT)
    raw = Raw(broker, address)
    statuses = raw.statuses(200, headers={"Sec-Fetch-Site": "cross-site"})
    assert 403 in statuses and 429 not in statuses
    get_banned(raw)


def test_full_queues_and_malformed_requests_ban_nobody(start, address):
    broker = start("limits.requests_per_second=off", "limits.ban_refusals=20", "limits.messages_per_queue=1")
    raw = Raw(broker, address, identifier())
    url = raw.call("CreateQueue", {"QueueName": "q"})[2].split(b'"')[3].decode()
    raw.call("SendMessage", {"QueueUrl": url, "MessageBody": "m"})
    full = raw.statuses(100, action="SendMessage", body={"QueueUrl": url, "MessageBody": "m"})
    malformed = raw.statuses(100, action="SendMessage", body={"QueueUrl": 7})
    nameless = Raw(broker, address, "test").statuses(100)
    assert {*full} == {403} and {*malformed} == {400} and {*nameless} == {403}
    assert raw.call()[0] == 200

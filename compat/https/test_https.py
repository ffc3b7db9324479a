"""SQS over HTTPS straight from the broker."""

import hashlib
import json
import secrets
import socket
import ssl
import subprocess
import threading
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.exceptions import SSLError
from conftest import BINARY

SELF_SIGNED = "tls.source=self-signed"


def fresh_name():
    return f"q-{secrets.token_hex(8)}"


def exchange(sqs):
    """Makes a queue and passes one message through it; answers the queue's URL."""
    url = sqs.create_queue(QueueName=fresh_name())["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="over TLS")
    [message] = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)["Messages"]
    assert message["Body"] == "over TLS"
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return url


def test_boto3_works_over_https_with_nothing_but_the_authority_to_trust(start):
    broker = start(SELF_SIGNED)
    assert broker.sqs.startswith("https://")
    assert exchange(broker.client(broker.authority)).startswith(broker.sqs + "/")


def test_signed_requests_work_over_https_in_private_mode(start):
    broker = start(SELF_SIGNED, "auth.keys.AKIAEXAMPLE=the-secret")
    client = broker.client(broker.authority)
    with pytest.raises(client.exceptions.ClientError):
        client.list_queues()
    signed = boto3.client("sqs", endpoint_url=broker.sqs, verify=broker.authority,
                          aws_access_key_id="AKIAEXAMPLE", aws_secret_access_key="the-secret")
    assert exchange(signed).startswith("https://")


def test_boto3_refuses_a_broker_whose_authority_it_does_not_know(start):
    broker = start(SELF_SIGNED)
    stranger = boto3.client("sqs", endpoint_url=broker.sqs)
    with pytest.raises(SSLError):
        stranger.list_queues()


def test_the_printed_fingerprint_is_the_authoritys(start):
    broker = start(SELF_SIGNED)
    der = ssl.PEM_cert_to_DER_cert(open(broker.authority).read())
    digest = hashlib.sha256(der).hexdigest().upper()
    pairs = ":".join(digest[at:at + 2] for at in range(0, len(digest), 2))
    assert broker.line["certificate_authority"]["sha256"] == pairs


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_1_2_and_1_3_are_spoken(start, version):
    broker = start(SELF_SIGNED)
    with broker.handshake(broker.authority, version) as stream:
        assert stream.version() == version.name.replace("_", ".")
        assert stream.selected_alpn_protocol() == "h2"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_older_versions_are_refused_by_an_alert_and_counted(start, version):
    broker = start(SELF_SIGNED)
    with pytest.raises(ssl.SSLError) as refused:
        broker.handshake(broker.authority, version)
    assert "ALERT" in refused.value.reason, "it was answered, not just cut off"
    assert broker.metric("powerqueue_tls_handshake_failures_total") == 1


def test_plain_text_is_not_spoken_where_tls_is(start):
    broker = start(SELF_SIGNED)
    address = urlsplit(broker.sqs)
    with socket.create_connection((address.hostname, address.port), timeout=10) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert not plain.recv(4096).startswith(b"HTTP/")


def test_files_are_replaced_while_boto3_keeps_its_connection(start, files):
    old, new = files.issue("old"), files.issue("new")
    files.put("old")
    broker = start(*files.settings, "tls.poll=50ms")
    client = broker.client(old)
    exchange(client)
    shown = broker.handshake(old).getpeercert(True)

    files.put("new")
    while True:
        try:
            with broker.handshake(new) as stream:
                assert stream.getpeercert(True) != shown
                break
        except ssl.SSLCertVerificationError:
            pass
    # The same pool, whose one connection was made before: a new one would not trust what is served now.
    exchange(client)
    with pytest.raises(SSLError):
        broker.client(old).list_queues()
    exchange(broker.client(new))


def test_no_request_fails_while_files_are_replaced_again_and_again(start, files):
    trusted = files.folder / "all.pem"
    names = [f"pair-{number}" for number in range(4)]
    trusted.write_bytes(b"".join(files.issue(name).read_bytes() for name in names))
    files.put(names[0])
    broker = start(*files.settings, "tls.poll=1h")
    stop, failures, answers = threading.Event(), [], []

    def work():
        while not stop.is_set():
            try:
                # A client of its own each time, so that every turn shakes hands.
                broker.client(trusted).list_queues()
                answers.append(1)
            except Exception as failure:  # noqa: BLE001  whatever it is, it is the finding
                failures.append(failure)
                return

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    for name in names[1:]:
        before, until = len(answers), broker.tls()["not_after"]
        files.put(name)
        broker.reload()
        while len(answers) < before + 4 and not failures:
            stop.wait(0.01)
        assert until <= broker.tls()["not_after"]
    stop.set()
    for worker in workers:
        worker.join()
    assert not failures


def test_a_key_of_another_certificate_is_not_taken_and_counted(start, files):
    old = files.issue("old")
    files.issue("new")
    files.put("old")
    broker = start(*files.settings, "tls.poll=50ms")
    files.put("new", key_of="old")
    broker.until(lambda tls: tls["failures"] >= 1)
    assert broker.tls()["certificate"] == "installed"
    exchange(broker.client(old))


def test_without_files_a_temporary_certificate_stands_in_until_they_come(start, files):
    broker = start(*files.settings, "tls.poll=1h")
    assert broker.tls()["certificate"] == "temporary"
    assert broker.metric("powerqueue_tls_certificate_temporary") == 1
    chain = files.issue("real")
    with pytest.raises(SSLError):
        broker.client(chain).list_queues()
    files.put("real")
    broker.reload()
    broker.until(lambda tls: tls["certificate"] == "installed")
    exchange(broker.client(chain))
    not_after = broker.metric("powerqueue_tls_certificate_not_after_timestamp_seconds")
    with broker.handshake(chain) as stream:
        assert not_after == ssl.cert_time_to_seconds(stream.getpeercert()["notAfter"])


def test_the_readiness_report_says_where_certificates_come_from(start):
    tls = start(SELF_SIGNED).tls()
    assert tls["source"] == "self-signed" and tls["listeners"] == ["sqs"]
    assert json.dumps(tls).count("/") == 0, "a path is nobody's business"


@pytest.mark.parametrize("keys", [(), ("auth.keys.AKIAEXAMPLE=the-secret",)])
def test_the_self_test_speaks_tls_where_the_listener_does(start, keys):
    settings = (SELF_SIGNED, *keys)
    broker = start(*settings)
    where = [f"listen.sqs={urlsplit(broker.sqs).netloc}", "listen.http=", "listen.metrics="]
    command = [BINARY] + [part for pair in (*settings, *where) for part in ("--set", pair)] + ["selftest"]
    tested = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert tested.returncode == 0 and tested.stdout.startswith("sqs: ok"), tested.stdout + tested.stderr

"""What Caddy writes down is no credential."""

import json
import os
import pathlib
import urllib.error
import urllib.request

import pytest
from conftest import client_of, identifier
from edge import Edge, free_ports

SECRETS = {"Authorization": "AWS4-HMAC-SHA256 Credential={id}/20260101/eu-central-1/sqs/aws4_request", "X-Amz-Security-Token": "token-{id}"}
QUERY = "X-Amz-Credential={id}%2F20260101&X-Amz-Signature=signature-{id}"


def ask(url, key, account):
    request = urllib.request.Request(f"{url}/{account}/queue-{key}?{QUERY.format(id=key)}", headers={name: value.format(id=key) for name, value in SECRETS.items()})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=20)
    return refused.value


def entries(log, logger):
    lines = [json.loads(line) for line in pathlib.Path(log).read_text().splitlines() if line.startswith("{")]
    return [line for line in lines if line.get("logger", "").startswith(logger)]


def test_access_logs_name_neither_identifier_nor_account_nor_address():
    key = identifier()
    sqs = client_of(key, os.environ["COMPAT_SQS"], os.environ["COMPAT_CA"])
    url = sqs.create_queue(QueueName=f"queue-{key}")["QueueUrl"]
    account = url.split("/")[3]
    for host in ("COMPAT_SITE", "COMPAT_SQS"):
        ask(os.environ[host], key, account)
    log = os.environ["COMPAT_EDGE_LOG"]
    assert len(entries(log, "http.log.access")) >= 3
    nothing_of(log, key, account)


@pytest.fixture
def alone(tmp_path):
    """A proxy whose broker is away."""
    site, sqs = free_ports(2)
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "away.html").write_text("<!doctype html><title>away</title>")
    with Edge(tmp_path / "edge", f"127.0.0.1:{site}", f"127.0.0.1:{sqs}", web=pages) as proxy:
        yield proxy


def test_nor_do_the_logs_of_failures_and_visitors_see_a_page(alone, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(alone.ca))
    key, account = identifier(), "123456789012"
    page = ask(alone.site, key, account)
    assert (page.code, page.headers["Retry-After"], page.read()) == (502, "5", b"<!doctype html><title>away</title>")
    assert page.headers["Content-Type"].startswith("text/html")
    answer = ask(alone.sqs, key, account)
    assert (answer.code, answer.headers["Retry-After"]) == (503, "1")
    assert [entry["status"] for entry in entries(alone.log, "http.log.access")] == [502, 503]
    nothing_of(alone.log, key, account)


def nothing_of(log, *words):
    text = pathlib.Path(log).read_text()
    assert [word for word in (*words, "127.0.0.1\",\"proto") if word in text] == []

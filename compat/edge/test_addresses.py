"""Nobody but Caddy says who the client is."""

import http.client
import http.server
import os
import re
import socket
import ssl
import threading
import urllib.error
import urllib.request

import pytest
from edge import Edge

FORGED = {
    "X-PQ-Client-IP": ["203.0.113.1", "203.0.113.2"],
    "x-pq-client-ip": ["203.0.113.3"],
    "X-Forwarded-For": ["203.0.113.4, 203.0.113.5"],
    "X-Forwarded-Proto": ["http"],
    "X-Forwarded-Host": ["forged.example"],
    "X-Real-IP": ["203.0.113.6"],
    "Forwarded": ["for=203.0.113.7;proto=http"],
}


class Echo(http.server.BaseHTTPRequestHandler):
    """Keeps the header fields that reached it."""

    seen = None

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        type(self).seen = self.headers.items()
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def echo(tmp_path_factory):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo) as upstream:
        threading.Thread(target=upstream.serve_forever, daemon=True).start()
        at = f"127.0.0.1:{upstream.server_address[1]}"
        with Edge(tmp_path_factory.mktemp("echo") / "edge", at, at) as proxy:
            yield proxy
        upstream.shutdown()


def what_arrives(proxy, port, fields):
    connection = http.client.HTTPSConnection("localhost", port, timeout=10)
    connection.sock = trusted(proxy.ca, port)
    connection.putrequest("POST", "/")
    for name, values in fields.items():
        for value in values:
            connection.putheader(name, value)
    connection.putheader("Content-Length", "0")
    connection.endheaders()
    assert connection.getresponse().status == 200
    connection.close()
    return Echo.seen


def trusted(ca, port):
    plain = socket.create_connection(("127.0.0.1", port), timeout=10)
    return ssl.create_default_context(cafile=ca).wrap_socket(plain, server_hostname="localhost")


@pytest.mark.parametrize("host", ["site", "sqs"])
def test_forged_addresses_do_not_reach_the_broker(echo, host):
    port = getattr(echo, f"{host}_port")
    arrived = what_arrives(echo, port, FORGED)

    def values(name):
        return [value for key, value in arrived if key.lower() == name]

    assert values("x-pq-client-ip") == ["127.0.0.1"]
    assert values("x-real-ip") == ["127.0.0.1"]
    assert values("x-forwarded-for") == ["127.0.0.1"]
    assert values("x-forwarded-proto") == ["https"]
    assert values("forwarded") == []
    assert not [pair for pair in arrived if "203.0.113." in pair[1] or "forged.example" in pair[1]]


@pytest.mark.parametrize("host", ["site", "sqs"])
def test_the_client_cannot_have_its_address_left_out(echo, host):
    """`Connection` names fields that a proxy must not pass on; the address is put in after that."""
    port = getattr(echo, f"{host}_port")
    arrived = what_arrives(echo, port, {"Connection": ["close, X-PQ-Client-IP, X-Real-IP"], "X-PQ-Client-IP": ["203.0.113.1"]})
    assert [value for key, value in arrived if key.lower() == "x-pq-client-ip"] == ["127.0.0.1"]


def test_a_host_name_that_is_nobodys_is_misdirected():
    for host in ("COMPAT_SITE", "COMPAT_SQS"):
        assert answer_to(os.environ[host], {"Host": "elsewhere.example"})[0] == 421


@pytest.mark.parametrize("host", ["COMPAT_SITE", "COMPAT_SQS"])
def test_forged_addresses_change_no_answer_of_the_broker(host):
    """A listener behind the proxy refuses a doubled or missing address: an answer shows that there was exactly one."""
    url = os.environ[host] + ("/version" if host == "COMPAT_SITE" else "/?Action=GetCallerIdentity")
    plain, forged = (answer_to(url, fields) for fields in ({}, {name: values[0] for name, values in FORGED.items()}))
    assert plain == forged
    assert "X-PQ-Client-IP" not in plain[1], "the broker complains about the proxy"


def test_without_the_proxys_word_the_broker_refuses():
    status, text = answer_to(f"http://{os.environ['COMPAT_BROKER_SQS']}/", {})
    assert status == 400 and "X-PQ-Client-IP" in text


def answer_to(url, fields):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=fields), timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, re.sub(r"<RequestId>[^<]*", "", refused.read().decode())

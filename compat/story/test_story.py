"""What a visitor lives through, in one go: the shipped Caddyfile, a real browser, official SDKs, one address for all of them.

The broker runs on sockets that outlive it, in public mode, with a budget and a ban that are soon over.
"""

import os
import pathlib
import re
import subprocess
import sys
import threading

import boto3
import pytest
import urllib3.util.connection
from botocore.config import Config
from botocore.exceptions import ClientError
from playwright.sync_api import expect, sync_playwright

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "edge")]

from edge import Edge  # noqa: E402
from held import Service  # noqa: E402

LIMITS = {
    "proxy.listeners": "sqs,http", "limits.requests_per_second": "20", "limits.requests_burst": "60",
    "limits.ban_refusals": "40", "limits.ban_lengths": "9s,20s",
}
FLAGS = ["--mode", "public"] + [part for key, value in LIMITS.items() for part in ("--set", f"{key}={value}")]
BROWSER = {
    "executable_path": "/usr/bin/chromium",
    "args": ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync",
             # The browser and the SDKs must come from one address; localhost has two.
             "--host-resolver-rules=MAP localhost 127.0.0.1"],
}
urllib3.util.connection.HAS_IPV6 = False
SOON = 20_000


@pytest.fixture
def service(tmp_path):
    with Service(os.environ["COMPAT_BINARY"], tmp_path / "service", ["sqs", "http", "metrics"], FLAGS) as service:
        yield service


@pytest.fixture
def edge(service, tmp_path):
    with Edge(tmp_path / "edge", f"127.0.0.1:{service.ports['http']}", f"127.0.0.1:{service.ports['sqs']}") as edge:
        yield edge


@pytest.fixture
def page(edge):
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**BROWSER)
        # The authority is the test's own; that certificates verify is what the SDKs show.
        page = browser.new_context(ignore_https_errors=True).new_page()
        yield page
        browser.close()


def python_client(edge, identifier):
    return boto3.client("sqs", endpoint_url=edge.sqs, verify=str(edge.ca), region_name="us-east-1", aws_access_key_id=identifier,
                        aws_secret_access_key="any", config=Config(retries={"total_max_attempts": 1}))


def figure(page, name):
    """A figure of the statistics as a number."""
    text = page.locator(f'[data-figure="{name}"]').first.text_content()
    return int(re.sub(r"\D", "", text) or -1)


class Slowly(threading.Thread):
    """Sends well below the budget until told to stop; each call once."""

    def __init__(self, sqs, queue):
        super().__init__()
        self.sqs, self.queue = sqs, queue
        self.confirmed, self.failures = [], []
        self.stopping, self.some = threading.Event(), threading.Semaphore(0)

    def run(self):
        while not self.stopping.wait(0.1):
            body = f"number {len(self.confirmed)}"
            try:
                self.sqs.send_message(QueueUrl=self.queue, MessageBody=body)
                self.confirmed.append(body)
            except Exception as failure:
                self.failures.append(repr(failure))
            self.some.release()


def test_a_visitor_gets_an_identifier_uses_it_watches_is_banned_and_let_in_again(service, edge, page):
    # An identifier, made by the page.
    page.goto(edge.site)
    shown = page.locator("[data-identifier]")
    expect(shown).to_have_text(re.compile(r"^[a-z][a-z0-9]{23}$"))
    identifier = shown.text_content()
    expect(page.locator("[data-statistics] [data-state-text]")).to_have_text("Live", timeout=SOON)

    # Official SDKs with it.
    sqs = python_client(edge, identifier)
    orders = sqs.create_queue(QueueName="orders")["QueueUrl"]
    for number in range(5):
        sqs.send_message(QueueUrl=orders, MessageBody=f"order {number}")
    subprocess.run(["node", str(HERE / "js" / "visitor.mjs"), identifier, "javascript"], check=True, timeout=60,
                   env=os.environ | edge.variables())

    # The page shows it.
    page.wait_for_function("""() => Number(document.querySelector('[data-figure="totals.in"]').textContent) >= 6""", timeout=SOON)
    page.wait_for_function("""() => Number(document.querySelector('[data-figure="now.messages"]').textContent) >= 5""", timeout=SOON)
    assert figure(page, "now.tenants") == 1
    before = figure(page, "totals.in")

    # A message from the page itself.
    page.get_by_role("button", name="Receive").click()
    expect(page.locator("[data-happened]")).to_contain_text("order 0", timeout=SOON)

    # The broker restarts under load; nobody is told.
    slowly = Slowly(sqs, sqs.create_queue(QueueName="load")["QueueUrl"])
    slowly.start()
    for _ in range(10):
        slowly.some.acquire(timeout=20)
    service.restart()
    while slowly.some.acquire(blocking=False):
        pass
    for _ in range(10):
        slowly.some.acquire(timeout=20)
    slowly.stopping.set()
    slowly.join(30)
    assert not slowly.failures
    received = set()
    while set(slowly.confirmed) - received:
        messages = sqs.receive_message(QueueUrl=slowly.queue, MaxNumberOfMessages=10, WaitTimeSeconds=3).get("Messages")
        assert messages, f"lost: {set(slowly.confirmed) - received}"
        received |= {message["Body"] for message in messages}
    expect(page.locator("[data-statistics] [data-state-text]")).to_have_text("Live", timeout=SOON)
    page.wait_for_function(
        f"""() => Number(document.querySelector('[data-figure="totals.in"]').textContent) >= {before + len(slowly.confirmed)}""",
        timeout=SOON)

    # Too much, and then far too much.
    with pytest.raises(sqs.exceptions.RequestThrottled):
        for _ in range(500):
            sqs.get_queue_url(QueueName="orders")
    banned = None
    for _ in range(2000):
        try:
            sqs.get_queue_url(QueueName="orders")
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] == 429:
                banned = error
                break
    assert banned, "never banned"
    headers = banned.response["ResponseMetadata"]["HTTPHeaders"]
    assert 1 <= int(headers["retry-after"]) <= 9
    expect(page.locator("#ban")).to_contain_text("Your address is banned until", timeout=SOON)

    # In again by itself.
    expect(page.locator("#ban")).to_be_hidden(timeout=SOON)
    assert sqs.get_queue_url(QueueName="orders")["QueueUrl"] == orders

    # The second ban is longer, and the page about the address says when it ends.
    for _ in range(2000):
        try:
            sqs.get_queue_url(QueueName="orders")
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] == 429:
                break
    page.goto(f"{edge.site}/")
    expect(page.locator("h1")).to_have_text("Your address is banned for a while")
    expect(page.locator("[data-verdict]")).to_contain_text("Banned until", timeout=SOON)

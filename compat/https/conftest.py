"""Starts the binary itself, since each test wants its certificates from elsewhere."""

import json
import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import time
import urllib.request
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.config import Config

BINARY = os.environ["COMPAT_BINARY"]
PATIENCE = 20


class Broker:
    """The binary with these settings, on ports of the system's choice. Its first line says where everything is."""

    def __init__(self, data, *settings):
        command = [BINARY, "--data", str(data)]
        for listener in ("http", "sqs", "metrics"):
            command += ["--set", f"listen.{listener}=127.0.0.1:0"]
        for pair in settings:
            command += ["--set", pair]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line, f"the broker ended with {self.process.wait()}"
        self.line = json.loads(line)

    @property
    def sqs(self):
        return self.line["endpoints"]["sqs"][0]

    @property
    def authority(self):
        return self.line["certificate_authority"]["path"]

    def page(self, listener, path):
        with urllib.request.urlopen(self.line["endpoints"][listener][0] + path, timeout=5) as answer:
            return answer.read().decode()

    def tls(self):
        return json.loads(self.page("http", "/healthz/ready"))["tls"]

    def metric(self, name):
        text = self.page("metrics", "/metrics")
        return float(re.search(rf'^{name}\{{listener="sqs"\}} (\S+)$', text, re.MULTILINE)[1])

    def reload(self):
        self.process.send_signal(signal.SIGHUP)

    def until(self, says):
        deadline = time.monotonic() + PATIENCE
        while not says(self.tls()):
            assert time.monotonic() < deadline, self.tls()

    def client(self, trusted, **options):
        return boto3.client("sqs", endpoint_url=self.sqs, verify=str(trusted), config=Config(retries={"total_max_attempts": 1}, **options))

    def handshake(self, trusted, version=None):
        """A connection of exactly that version of TLS; of the best one without."""
        context = ssl.create_default_context(cafile=str(trusted))
        context.set_alpn_protocols(["h2", "http/1.1"])
        if version:
            # This system's own policy may rule old versions out; here the broker's is tested.
            context.set_ciphers("DEFAULT@SECLEVEL=0")
            context.minimum_version = context.maximum_version = version
        address = urlsplit(self.sqs)
        plain = socket.create_connection((address.hostname, address.port), timeout=10)
        return context.wrap_socket(plain, server_hostname="localhost")

    def end(self):
        self.process.terminate()
        self.process.wait(30)
        self.process.stdout.close()


@pytest.fixture
def start(tmp_path):
    brokers = []

    def one(*settings):
        brokers.append(Broker(tmp_path / "data", *settings))
        return brokers[-1]

    yield one
    for broker in brokers:
        broker.end()


class Files:
    """A chain and a key as an administrator puts them somewhere; each certificate is trusted by itself."""

    def __init__(self, folder):
        self.folder = folder
        self.chain, self.key = folder / "chain.pem", folder / "key.pem"
        self.settings = ("tls.source=files", f"tls.certificate={self.chain}", f"tls.key={self.key}")

    def issue(self, name):
        """Makes a pair under that name without putting it where the broker looks; answers the chain's path."""
        chain, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                        "-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                        "-out", chain, "-keyout", key], check=True, capture_output=True)
        return chain

    def put(self, name, *, key_of=None):
        for source, target in ((f"{name}.pem", self.chain), (f"{key_of or name}.key", self.key)):
            # Whole or not at all, as anybody should replace a file that somebody else reads.
            beside = target.with_suffix(".new")
            beside.write_bytes((self.folder / source).read_bytes())
            beside.replace(target)


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    return Files(pathlib.Path(folder))

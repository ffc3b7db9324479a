"""Caddy in front of a broker, as on a public machine: the repository's Caddyfile, with a certificate authority of its own.

`compat/run` starts one for each suite that says `"edge": true`; tests that look after a broker themselves start their own.
Only the standard library is used here.
"""

import contextlib
import os
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import time

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
CADDYFILE = REPOSITORY / "caddy" / "Caddyfile"
READY_WITHIN = 30

# What differs from a public machine: no public authority, no fixed port, no administration, loopback alone. Java names no
# server whose name has no dot, so that such a handshake needs a certificate all the same.
OPTIONS = """
default_sni localhost
admin off
local_certs
skip_install_trust
auto_https disable_redirects
http_port {port}
default_bind {addresses}
"""


class NotStarted(Exception):
    """Caddy does not serve; the text says why."""


class Edge:
    """Caddy on free ports: `site` and `sqs` are the URLs, `ca` the certificate to trust, `log` what it wrote.

    `home` is a folder of its own. `start` and `end` start and end a process; `compat/run` gives its own, so that nothing
    outlives it. `sites` are further blocks for the Caddyfile.
    """

    def __init__(self, home, site_upstream, sqs_upstream, start=subprocess.Popen, end=None, sites="", web=None):
        caddy = shutil.which("caddy")
        if not caddy:
            raise NotStarted("caddy is missing, and this suite needs it: on Debian, `apt-get install caddy`")
        self.home = pathlib.Path(home)
        self.sites = sites
        self.log = self.home / "caddy.log"
        self.ca = self.home / "data" / "caddy" / "pki" / "authorities" / "local" / "root.crt"
        self.site_port, self.sqs_port, self.http_port = free_ports(3)
        self.site, self.sqs = (f"https://localhost:{port}" for port in (self.site_port, self.sqs_port))
        self.end_process = end or end_group
        extra = self.home / "extra"
        extra.mkdir(parents=True)
        (extra / "test.global").write_text(OPTIONS.format(port=self.http_port, addresses=" ".join(loopback_addresses())))
        if sites:
            (extra / "test.site").write_text(sites)
        environment = os.environ | {
            "HOME": str(self.home),
            "XDG_DATA_HOME": str(self.home / "data"),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "POWERQUEUE_CADDY": str(extra),
            "POWERQUEUE_SITE": f"localhost:{self.site_port}",
            "POWERQUEUE_SQS": f"localhost:{self.sqs_port}",
            "POWERQUEUE_OTHERS": f"https://:{self.site_port}, https://:{self.sqs_port}",
            "POWERQUEUE_SITE_UPSTREAM": site_upstream,
            "POWERQUEUE_SQS_UPSTREAM": sqs_upstream,
            "POWERQUEUE_WEB": str(web or REPOSITORY / "web" / "pages"),
        }
        # Caddy says when it serves in the way of every systemd service.
        notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        with notices, open(self.log, "wb") as out:
            notices.bind(str(self.home / "notify"))
            environment["NOTIFY_SOCKET"] = str(self.home / "notify")
            self.process = start([caddy, "run", "--config", str(CADDYFILE), "--adapter", "caddyfile"],
                                 env=environment, stdout=out, stderr=out, **({} if end else {"start_new_session": True}))
            try:
                self.wait_until_ready(notices)
            except BaseException:
                self.end()
                raise

    def wait_until_ready(self, notices):
        until = time.monotonic() + READY_WITHIN
        notices.settimeout(0.2)
        notice = b""
        while b"READY=1" not in notice:
            self.must_go_on(until)
            with contextlib.suppress(TimeoutError):
                notice = notices.recv(4096)
        # Certificates are made after that. A handshake that verifies is the proof.
        for port in [self.site_port, self.sqs_port, *map(int, re.findall(r"^localhost:(\d+)", self.sites, re.MULTILINE))]:
            while not self.handshakes(port):
                self.must_go_on(until)
                time.sleep(0.02)

    def handshakes(self, port):
        try:
            context = ssl.create_default_context(cafile=self.ca)
            with socket.create_connection(("localhost", port), timeout=5) as plain:
                with context.wrap_socket(plain, server_hostname="localhost"):
                    return True
        except OSError:
            return False

    def must_go_on(self, until):
        if self.process.poll() is not None:
            raise NotStarted(f"caddy ended with {self.process.returncode} before it was ready:\n{self.log_tail()}")
        if time.monotonic() > until:
            raise NotStarted(f"caddy was not ready within {READY_WITHIN} s:\n{self.log_tail()}")

    def variables(self):
        """What a suite needs to reach it."""
        ca = str(self.ca)
        return {
            "COMPAT_SITE": self.site, "COMPAT_SQS": self.sqs, "COMPAT_CA": ca, "COMPAT_EDGE_LOG": str(self.log),
            "AWS_ENDPOINT_URL_SQS": self.sqs, "AWS_ENDPOINT_URL_STS": self.sqs,
            "AWS_CA_BUNDLE": ca, "SSL_CERT_FILE": ca, "REQUESTS_CA_BUNDLE": ca, "NODE_EXTRA_CA_CERTS": ca,
        }

    def log_tail(self, lines=60):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def end(self):
        self.end_process(self.process)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


def end_group(process):
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def loopback_addresses():
    """Both families where the machine has both: clients differ in which one they try for `localhost`."""
    addresses = ["127.0.0.1"]
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as six:
        six.bind(("::1", 0))
        addresses.append("[::1]")
    return addresses


def free_ports(number):
    """Ports that were free a moment ago, all different."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]

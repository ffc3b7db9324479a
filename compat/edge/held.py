"""The service manager's part, without one: sockets that outlive the broker, and the notices it sends.

As systemd does it (sd_listen_fds(3), sd_notify(3)): descriptors from 3 on, LISTEN_FDS, LISTEN_PID, LISTEN_FDNAMES, NOTIFY_SOCKET.
"""

import contextlib
import fcntl
import os
import queue
import signal
import socket
import subprocess
import threading
import time

FIRST = 3
PATIENCE = 30


class Service:
    """The broker on sockets held here; `restart` replaces the process while they stay open."""

    def __init__(self, binary, home, names, flags):
        home.mkdir(parents=True)
        self.sockets = {name: listening() for name in names}
        self.ports = {name: held.getsockname()[1] for name, held in self.sockets.items()}
        self.notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notices.bind(str(home / "notify"))
        # Read at once, as systemd does: a full socket would hold up whoever writes to it.
        self.heard = queue.SimpleQueue()
        threading.Thread(target=self.listen, daemon=True).start()
        self.environment = os.environ | {"NOTIFY_SOCKET": str(home / "notify"), "WATCHDOG_USEC": "3000000"}
        # Without a port of its own: what it serves on, it was given.
        self.command = [str(binary), "--data", str(home / "data"), *flags]
        for name in ("sqs", "http", "metrics"):
            self.command += ["--set", f"listen.{name}="]
        self.output = open(home / "broker.log", "ab")
        self.log = home / "broker.log"
        self.process = None
        self.start()

    def start(self):
        held = [each.fileno() for each in self.sockets.values()]
        # The process that reads LISTEN_PID must be the one it names, so the shell gives its own and becomes the broker.
        moves = " ".join(f"{FIRST + index}<&{descriptor}" for index, descriptor in enumerate(held))
        closes = " ".join(f"{descriptor}<&-" for descriptor in held)
        script = f'exec {moves} {closes}; export LISTEN_PID=$$ WATCHDOG_PID=$$; exec "$@"'
        environment = self.environment | {"LISTEN_FDS": str(len(held)), "LISTEN_FDNAMES": ":".join(self.sockets)}
        self.process = subprocess.Popen(["bash", "-c", script, "bash", *self.command], env=environment, pass_fds=held,
                                        stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.output)
        self.until("READY=1")

    def until(self, wanted):
        """Waits for a notice; answers all that came until then."""
        deadline = time.monotonic() + PATIENCE
        seen = []
        while wanted not in seen:
            if self.process.poll() is not None:
                raise AssertionError(f"the broker ended with {self.process.returncode}:\n{self.log.read_text()}")
            try:
                seen += self.heard.get(timeout=0.5)
            except queue.Empty:
                assert time.monotonic() < deadline, f"no {wanted} within {PATIENCE} s, only {seen}"
        return seen

    def listen(self):
        with contextlib.suppress(OSError):
            while notice := self.notices.recv(4096):
                self.heard.put(notice.decode().split("\n"))

    def restart(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0, self.log.read_text()
        self.start()

    def end(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(60)
        for each in (*self.sockets.values(), self.notices, self.output):
            each.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


def listening():
    """A listening socket whose descriptor is out of the way of those that are handed over."""
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as first:
        return socket.socket(fileno=fcntl.fcntl(first.fileno(), fcntl.F_DUPFD_CLOEXEC, 64))

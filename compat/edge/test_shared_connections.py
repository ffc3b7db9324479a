"""Over h2c, Caddy carries the streams of many clients in one connection. What one of them does must not end another's."""

import json
import pathlib
import subprocess

import pytest
from edge import Edge, free_ports

PROGRAM = pathlib.Path(__file__).resolve().parent / "js" / "shared.mjs"

# As the Pub/Sub block of the Caddyfile has it.
SITE = """
localhost:{port} {{
	import site
	reverse_proxy h2c://127.0.0.1:{upstream} {{
		import client
		transport http {{
			dial_timeout 2s
			versions h2c
		}}
	}}
}}
"""


@pytest.mark.parametrize("misuse", ["resets", "unread"])
def test_one_clients_misuse_ends_no_other_clients_stream(misuse, tmp_path):
    with subprocess.Popen(["node", PROGRAM, "upstream"], stdout=subprocess.PIPE, text=True) as upstream:
        try:
            at = upstream.stdout.readline().strip()
            [port] = free_ports(1)
            site = SITE.format(port=port, upstream=at)
            with Edge(tmp_path / "edge", f"127.0.0.1:{at}", f"127.0.0.1:{at}", sites=site) as proxy:
                program = subprocess.run(["node", PROGRAM, misuse, str(port), proxy.ca], capture_output=True, text=True, timeout=90)
        finally:
            upstream.kill()
    assert program.returncode == 0, program.stdout + program.stderr
    assert json.loads(program.stdout)["upstreamConnections"] < 5, "the streams did not share a connection: this shows nothing"

"""What the dashboard and the alerts must be like, beyond what promtool sees. Run by `check`.

form FILE             checks powerqueue.json and that every alert is tested and explained; writes the panels' expressions
                      to FILE as recording rules, for promtool
live LINE FILE        LINE is the broker's JSON line; writes a scrape to FILE; checks metric names and the series count
"""

import http.client
import json
import re
import sys
import threading
import urllib.parse
from pathlib import Path

HERE = Path(__file__).parent
TENANTS = 10_000
CLIENTS = 8
SERIES_A_METRIC = 300
SERIES_IN_ALL = 3_000
# Grafana's own variables, as Prometheus could get them.
VARIABLES = {"$__rate_interval": "5m", "$__interval": "1m", "$instance": ".*"}
# What Prometheus itself makes for each target.
OF_PROMETHEUS = {"up"}


def panels():
    dashboard = json.loads((HERE / "powerqueue.json").read_text())
    return dashboard, [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def expressions():
    """Every expression of panels and alerts, with where it stands."""
    for panel in panels()[1]:
        for target in panel["targets"]:
            text = target["expr"]
            for variable, value in VARIABLES.items():
                text = text.replace(variable, value)
            yield f"panel {panel['id']} ({panel['title']})", text
    # The rule file is plain enough: an expression is on its line, or folded below it.
    rules = (HERE / "alerts.yml").read_text()
    for name, body in re.findall(r"- alert: (\w+)\n(.*?)(?=\n\s*- alert:|\Z)", rules, re.S):
        expression = re.search(r"expr: (?:>\n)?(.*?)\n\s+(?:for|labels):", body, re.S)
        yield f"alert {name}", expression.group(1)


def form(rules_file):
    dashboard, graphs = panels()
    assert dashboard["uid"] == "powerqueue" and "id" not in dashboard, "a uid, and no id of some Grafana"
    assert dashboard["schemaVersion"] >= 36
    source = [v for v in dashboard["templating"]["list"] if v["name"] == "datasource"]
    assert source and source[0]["type"] == "datasource" and source[0]["query"] == "prometheus"
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids)), "panel ids are not unique"
    taken = {}
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24, panel["title"]
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                other = taken.setdefault((x, y), panel["title"])
                assert other == panel["title"], f"{other} and {panel['title']} overlap"
    for panel in graphs:
        title = panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}", title
        assert panel["fieldConfig"]["defaults"].get("unit"), f"{title} has no unit"
        assert panel.get("description"), f"{title} has no description"
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == "${datasource}", title
    lines = ["groups:", "  - name: panels", "    rules:"]
    for number, (where, text) in enumerate(expressions()):
        lines += [f"      # {where}", f"      - record: panel:{number}", f"        expr: {json.dumps(text)}"]
    Path(rules_file).write_text("\n".join(lines) + "\n")
    alerts_are_tested_and_explained()
    print(f"{len(graphs)} panels")


def alerts_are_tested_and_explained():
    rules = (HERE / "alerts.yml").read_text()
    tests = (HERE / "alerts_test.yml").read_text()
    guide = (HERE.parent / "ops/README.md").read_text()
    for name in re.findall(r"- alert: (\w+)", rules):
        assert f"name: {name}\n" in tests, f"{name} has no unit test"
        assert f"runbook: ops/README.md#{name.lower()}\n" in rules, f"{name} has no runbook"
        assert f"### {name}\n" in guide, f"{name} has no section in ops/README.md"


def metric_names(text):
    """The metrics that an expression names."""
    bare = re.sub(r'"[^"]*"|\{[^}]*\}|\[[^\]]*\]', " ", text)
    return {name for name in re.findall(r"[a-z][a-z0-9_]*", bare) if re.match(r"(powerqueue|process)_|up\b", name)}


def scrape(line):
    url = urllib.parse.urlsplit(line["endpoints"]["metrics"][0])
    connection = http.client.HTTPConnection(url.netloc, timeout=10)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    series = [row.rsplit(" ", 1)[0] for row in text.splitlines() if row and not row.startswith("#")]
    return text, series


def make_tenants(line):
    url = urllib.parse.urlsplit(line["endpoints"]["sqs"][0])
    failed = []

    def some(first):
        connection = http.client.HTTPConnection(url.netloc, timeout=30)
        for number in range(first, TENANTS, CLIENTS):
            credential = f"t{number:023d}/20260101/us-east-1/sqs/aws4_request"
            headers = {
                "Content-Type": "application/x-amz-json-1.0",
                "X-Amz-Target": "AmazonSQS.CreateQueue",
                "Authorization": f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host, Signature=none",
            }
            connection.request("POST", "/", json.dumps({"QueueName": "q"}), headers)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != 200:
                failed.append(body)
                return

    threads = [threading.Thread(target=some, args=(first,)) for first in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed[0]


def live(line, scrape_file):
    line = json.loads(line)
    text, before = scrape(line)
    Path(scrape_file).write_text(text)
    there = {series.split("{")[0] for series in before} | OF_PROMETHEUS
    rows = (HERE / "to-come.txt").read_text().splitlines()
    to_come = {row for row in rows if row and not row.startswith("#")}
    assert not to_come & there, f"to-come.txt names what is there: {sorted(to_come & there)}"
    used = set()
    for where, expression in expressions():
        names = metric_names(expression)
        assert names, f"{where} names no metric"
        missing = names - there - to_come
        assert not missing, f"{where}: the broker has no {sorted(missing)}"
        used |= names
    assert to_come <= used, f"nothing uses {sorted(to_come - used)} of to-come.txt"
    print(f"{len(used)} metrics used, {len(used & to_come)} of them to come")

    make_tenants(line)
    text, after = scrape(line)
    tenants = int(re.search(r"^powerqueue_tenants (\d+)$", text, re.M).group(1))
    assert tenants >= TENANTS, f"only {tenants} tenants"
    assert sorted(after) == sorted(before), sorted(set(after) ^ set(before))[:10]
    of = {}
    for series in after:
        name = series.split("{")[0]
        of[name] = of.get(name, 0) + 1
    assert max(of.values()) <= SERIES_A_METRIC and len(after) <= SERIES_IN_ALL
    print(f"{len(after)} series with no tenant, and with {tenants}")


if __name__ == "__main__":
    {"form": form, "live": live}[sys.argv[1]](*sys.argv[2:])

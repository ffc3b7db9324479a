"""A pytest plugin that points LocalStack's `tests/aws` at any server, without a LocalStack process.

Loaded with `-p aim_at_endpoint`. It changes three things and no assertion:

* addresses: whatever the tests derive from LocalStack's configuration (its host, its port, its service
  URLs) becomes the endpoint in TEST_AWS_ENDPOINT_URL; accounts come from the environment, not from STS;
* selection: tests that need LocalStack's own process or another AWS service are deselected, and so are those that
  `inapplicable.tsv` names, unless AIM_ALL is set; with AIM_UNSKIP, tests recorded on AWS that LocalStack itself skips because it
  answers otherwise do run;
* results: one JSON line per test goes to AIM_RESULTS.
"""

import json
import os
import pathlib
import re
from urllib.parse import urlsplit

import pytest

ENDPOINT = os.environ["TEST_AWS_ENDPOINT_URL"]
RESULTS = os.environ.get("AIM_RESULTS")
NOT_OURS = pathlib.Path(__file__).with_name("inapplicable.tsv")

# Markers of tests that look into LocalStack's process or assert what only LocalStack does.
LOCALSTACK_ONLY = {"requires_in_process", "aws_only_localstack"}

# Skipped tests that stay so: one takes five minutes, the others have nothing recorded to compare with.
STAY_SKIPPED = (
    "test_deduplication_interval",
    "test_fifo_delete_message_with_expired_receipt_handle",
    "test_invalid_dead_letter_arn_rejected_before_lookup",
)

# Fixtures that create things in services which are not a queue service.
OTHER_SERVICES = {
    "account_id_scoped",
    "create_iam_role_with_policy",
    "create_lambda_function",
    "create_sns_http_endpoint_and_queue",
    "create_user",
    "deploy_cfn_template",
    "firehose_create_delivery_stream",
    "infrastructure_setup",
    "platform_credentials",
    "s3_create_bucket",
    "sns_create_platform_application",
}


def aim():
    """Rewrites LocalStack's notion of where it listens. Its own conftest does so too, hence more than once."""
    from localstack import config
    from localstack.testing.pytest import fixtures

    parts = urlsplit(ENDPOINT)
    here = config.HostAndPort(host=parts.hostname, port=parts.port or 80)
    config.GATEWAY_LISTEN = config.UniqueHostAndPortList([here])
    config.LOCALSTACK_HOST = here
    config.internal_service_url = lambda *_args, **_named: ENDPOINT
    config.external_service_url = lambda *_args, **_named: ENDPOINT
    fixtures.is_api_enabled = lambda _service: False


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    aim()


def reasons_not_to_run():
    """Pairs of a compiled pattern over test ids and the reason, from the list beside this file."""
    if os.environ.get("AIM_ALL") or not NOT_OURS.exists():
        return []
    rows = (line.split("\t") for line in NOT_OURS.read_text().splitlines() if line and not line.startswith("#"))
    return [(re.compile(pattern), reason) for pattern, reason in rows]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    aim()
    listed = reasons_not_to_run()
    keep, drop = [], []
    for item in items:
        markers = {marker.name for marker in item.iter_markers()}
        foreign = markers & LOCALSTACK_ONLY or OTHER_SERVICES & set(item.fixturenames)
        named = any(pattern.search(item.nodeid) for pattern, _ in listed)
        (drop if foreign or named else keep).append(item)
        if os.environ.get("AIM_UNSKIP") and "aws_validated" in markers and not any(name in item.nodeid for name in STAY_SKIPPED):
            item.own_markers = [marker for marker in item.own_markers if marker.name != "skip"]
    items[:] = keep
    if drop:
        config.hook.pytest_deselected(items=drop)


outcomes = {}


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    seen = outcomes.setdefault(item.nodeid, {"id": item.nodeid, "outcome": "passed", "error": "", "seconds": 0})
    seen["seconds"] = round(seen["seconds"] + call.duration, 2)
    if report.failed:
        seen["outcome"] = "failed" if report.when == "call" else f"{report.when} failed"
        crash = getattr(report.longrepr, "reprcrash", None)
        seen["error"] = (crash.message if crash else str(report.longrepr))[:1500]
    elif report.skipped and seen["outcome"] == "passed":
        seen["outcome"] = "xfailed" if hasattr(report, "wasxfail") else "skipped"
        if isinstance(report.longrepr, tuple):
            seen["error"] = report.longrepr[2]
    if report.when == "teardown" and RESULTS:
        # One short write in append mode, so that parallel workers do not tear each other's lines.
        with open(RESULTS, "a", buffering=1 << 16) as out:
            out.write(json.dumps(seen) + "\n")

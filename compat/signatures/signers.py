"""Four SDKs behind one interface: each exchanges, lists and presigns with the credentials of its environment."""

import datetime
import json
import os
import pathlib
import subprocess
import sys

import boto3
import botocore.auth
from botocore import UNSIGNED
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.exceptions import ClientError

HERE = pathlib.Path(__file__).parent
ENDPOINT = os.environ["AWS_ENDPOINT_URL_SQS"]
BODY = "signed ąę <&>"


class Refusal(Exception):
    """An error as an SDK raised it."""

    def __init__(self, code, status, text):
        super().__init__(f"{code} ({status}): {text}")
        self.code, self.status = code, status


def environment(keys):
    """The process environment with these keys; without any, if there are none."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_ACCESS", "AWS_SECRET"))}
    return kept | ({"AWS_ACCESS_KEY_ID": keys[0], "AWS_SECRET_ACCESS_KEY": keys[1]} if keys else {})


class Clock:
    """Lets botocore sign as if it were a while ago."""

    def __init__(self, ago):
        self.ago = ago

    def __enter__(self):
        self.real = botocore.auth.get_current_datetime
        botocore.auth.get_current_datetime = lambda *a, **k: self.real(*a, **k) - datetime.timedelta(seconds=self.ago)

    def __exit__(self, *_):
        botocore.auth.get_current_datetime = self.real


class Boto3:
    def client(self, keys):
        once = Config(retries={"total_max_attempts": 1}, **({} if keys else {"signature_version": UNSIGNED}))
        named = {"aws_access_key_id": keys[0], "aws_secret_access_key": keys[1]} if keys else {}
        return boto3.client("sqs", config=once, **named)

    def ask(self, keys, ask, name="", ago=0):
        with Clock(ago):
            try:
                return getattr(self, ask)(keys, name)
            except ClientError as error:
                raise Refusal(error.response["Error"]["Code"], error.response["ResponseMetadata"]["HTTPStatusCode"], str(error)) from error

    def exchange(self, keys, name):
        sqs = self.client(keys)
        url = sqs.create_queue(QueueName=name)["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody=BODY)
        [message] = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)["Messages"]
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return message["Body"]

    def list(self, keys, _):
        return self.client(keys).list_queues().get("QueueUrls", [])

    def presign(self, keys, name):
        request = AWSRequest("GET", f"{ENDPOINT}/", params={"Action": "ListQueues", "Version": "2012-11-05", "QueueNamePrefix": name})
        credentials = boto3.Session(aws_access_key_id=keys[0], aws_secret_access_key=keys[1]).get_credentials()
        botocore.auth.SigV4QueryAuth(credentials, "sqs", os.environ["AWS_REGION"], expires=60).add_auth(request)
        return request.prepare().url


# The command's own program, with the clock that it signs by set back.
CLI = """
import datetime, sys
import botocore.auth
real, ago = botocore.auth.get_current_datetime, datetime.timedelta(seconds=int(sys.argv.pop(1)))
botocore.auth.get_current_datetime = lambda *a, **k: real(*a, **k) - ago
import awscli.clidriver
sys.exit(awscli.clidriver.main())
"""


class Cli:
    def run(self, keys, ago, *words):
        command = [sys.executable, "-c", CLI, str(ago), "sqs", *words, "--output", "json", "--endpoint-url", ENDPOINT]
        command += [] if keys else ["--no-sign-request"]
        done = subprocess.run(command, env=environment(keys) | {"AWS_MAX_ATTEMPTS": "1"}, capture_output=True, text=True, timeout=60)
        if done.returncode:
            code = done.stderr.partition("An error occurred (")[2].partition(")")[0]
            raise Refusal(code, None, done.stderr)
        return json.loads(done.stdout or "{}")

    def ask(self, keys, ask, name="", ago=0):
        if ask == "list":
            return self.run(keys, ago, "list-queues").get("QueueUrls", [])
        url = self.run(keys, ago, "create-queue", "--queue-name", name)["QueueUrl"]
        self.run(keys, ago, "send-message", "--queue-url", url, "--message-body", BODY)
        [message] = self.run(keys, ago, "receive-message", "--queue-url", url, "--wait-time-seconds", "5")["Messages"]
        self.run(keys, ago, "delete-message", "--queue-url", url, "--receipt-handle", message["ReceiptHandle"])
        return message["Body"]


class Program:
    """A client in another language, asked by one line of JSON."""

    def __init__(self, *command):
        self.command = command

    def ask(self, keys, ask, name="", ago=0):
        question = json.dumps({"ask": ask, "name": name, "ago": ago})
        done = subprocess.run([*self.command, question], env=environment(keys), capture_output=True, text=True, timeout=90)
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout)
        if "error" in said:
            raise Refusal(said["error"].get("name"), said["error"].get("status"), said["error"].get("text"))
        return said["answer"] or []


def built_go(folder):
    program = folder / "client"
    subprocess.run(["go", "build", "-o", str(program), "."], cwd=HERE / "go", check=True, timeout=300)
    return Program(str(program))


def all_signers(folder):
    return {"boto3": Boto3(), "aws-cli": Cli(), "js-v3": Program("node", str(HERE / "js" / "client.mjs")), "go-v2": built_go(folder)}

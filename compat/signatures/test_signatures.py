"""Who signs right gets in, who does not is told which way it went wrong, in every SDK's own words."""

import http.client
import os
import secrets
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import boto3
import botocore.auth
import pytest
from botocore.awsrequest import AWSRequest
from botocore.exceptions import ClientError
from signers import BODY, ENDPOINT, Refusal, all_signers

OURS = (os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"])
THEIRS = (os.environ["OTHER_ACCESS_KEY_ID"], os.environ["OTHER_SECRET_ACCESS_KEY"])
SIGNERS = ["boto3", "aws-cli", "js-v3", "go-v2"]
PRESIGNERS = ["boto3", "js-v3", "go-v2"]
LATE = 16 * 60


@pytest.fixture(scope="session")
def signers(tmp_path_factory):
    return all_signers(tmp_path_factory.mktemp("go"))


def fresh_name():
    return f"q-{secrets.token_hex(8)}"


def refused(signer, keys, code, status, ago=0):
    with pytest.raises(Refusal) as caught:
        signer.ask(keys, "list", ago=ago)
    assert caught.value.code == code, caught.value
    assert caught.value.status in (status, None)


@pytest.mark.parametrize("name", SIGNERS)
def test_the_right_secret_sends_and_receives(signers, name):
    assert signers[name].ask(OURS, "exchange", fresh_name()) == BODY


@pytest.mark.parametrize("name", SIGNERS)
def test_the_other_key_works_too_and_neither_sees_the_others_queues(signers, name):
    queue = fresh_name()
    assert signers[name].ask(THEIRS, "exchange", queue) == BODY
    ends = [url.rpartition("/")[2] for url in signers[name].ask(THEIRS, "list")]
    assert queue in ends
    assert queue not in [url.rpartition("/")[2] for url in signers[name].ask(OURS, "list")]


@pytest.mark.parametrize("name", SIGNERS)
def test_a_wrong_secret_is_a_signature_that_does_not_match(signers, name):
    refused(signers[name], (OURS[0], "not the secret"), "SignatureDoesNotMatch", 403)
    refused(signers[name], (OURS[0], THEIRS[1]), "SignatureDoesNotMatch", 403)


@pytest.mark.parametrize("name", SIGNERS)
def test_an_unknown_key_is_an_invalid_token(signers, name):
    refused(signers[name], ("AKIAUNKNOWN", OURS[1]), "InvalidClientTokenId", 403)


@pytest.mark.parametrize("name", SIGNERS)
def test_no_credentials_are_a_missing_token(signers, name):
    refused(signers[name], None, "MissingAuthenticationToken", 403)


@pytest.mark.parametrize("name", SIGNERS)
def test_a_date_more_than_fifteen_minutes_off_is_expired(signers, name):
    for ago in (LATE, -LATE):
        refused(signers[name], OURS, "RequestExpired", 400, ago=ago)


@pytest.mark.parametrize("name", SIGNERS)
def test_a_clock_ten_minutes_off_is_good_enough(signers, name):
    for ago in (600, -600):
        assert isinstance(signers[name].ask(OURS, "list", ago=ago), list)


def fetch(url):
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.fixture
def queue():
    name = fresh_name()
    boto3.client("sqs").create_queue(QueueName=name)
    return name


@pytest.mark.parametrize("name", PRESIGNERS)
def test_a_presigned_url_works_for_whoever_has_it(signers, name, queue):
    status, text = fetch(signers[name].ask(OURS, "presign", queue))
    assert status == 200 and f"/{queue}</QueueUrl>" in text, text


@pytest.mark.parametrize("name", PRESIGNERS)
def test_a_presigned_url_that_was_tampered_with_does_not(signers, name, queue):
    url = signers[name].ask(OURS, "presign", queue)
    last = "0" if url.partition("X-Amz-Signature=")[2][0] != "0" else "1"
    start, _, rest = url.partition("X-Amz-Signature=")
    for changed in (url.replace(queue, "q-"), url.replace("Action=ListQueues", "Action=DeleteQueue"), url + "&MaxResults=1",
                    url.replace("X-Amz-Expires=60", "X-Amz-Expires=600"), f"{start}X-Amz-Signature={last}{rest[1:]}"):
        assert changed != url
        status, text = fetch(changed)
        assert (status, "<Code>SignatureDoesNotMatch</Code>" in text) == (403, True), text


@pytest.mark.parametrize("name", PRESIGNERS)
def test_a_presigned_url_ends_when_it_says(signers, name, queue):
    status, text = fetch(signers[name].ask(OURS, "presign", queue, ago=61))
    assert (status, "<Code>RequestExpired</Code>" in text) == (400, True), text


def signed(signer, body=b"{}", headers=None):
    request = AWSRequest("POST", f"{ENDPOINT}/", data=body, headers={
        "X-Amz-Target": "AmazonSQS.ListQueues", "Content-Type": "application/x-amz-json-1.0"} | (headers or {}))
    credentials = boto3.Session(aws_access_key_id=OURS[0], aws_secret_access_key=OURS[1]).get_credentials()
    signer(credentials, "sqs", os.environ["AWS_REGION"]).add_auth(request)
    return request.prepare()


def exchange(prepared, body=None):
    connection = http.client.HTTPConnection(urlsplit(ENDPOINT).netloc, timeout=20)
    try:
        connection.request(prepared.method, "/", prepared.body if body is None else body, dict(prepared.headers))
        answer = connection.getresponse()
        return answer.status, answer.getheader("x-amzn-query-error"), answer.read().decode()
    finally:
        connection.close()


class Unhashed(botocore.auth.SigV4Auth):
    def payload(self, request):
        return "UNSIGNED-PAYLOAD"

    def _should_sha256_sign_payload(self, request):
        return False


@pytest.mark.parametrize("claim", [
    "UNSIGNED-PAYLOAD", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"])
def test_a_body_that_is_not_signed_as_a_whole_is_refused_by_name(claim):
    class Claims(botocore.auth.SigV4Auth):
        def payload(self, request):
            return claim

    status, code, text = exchange(signed(Claims, headers={"X-Amz-Content-SHA256": claim}))
    assert (status, code) == (400, "IncompleteSignature;Sender"), text
    assert "body is not signed as a whole" in text


def test_an_unhashed_body_that_does_not_say_so_does_not_match():
    assert exchange(signed(Unhashed))[:2] == (403, "SignatureDoesNotMatch;Sender")


def test_another_body_than_the_signed_one_is_refused():
    prepared = signed(botocore.auth.SigV4Auth)
    assert exchange(prepared)[0] == 200
    assert exchange(prepared, b'{"MaxResults":1}')[0] in (400, 403)
    prepared.headers["Content-Length"] = "2"
    assert exchange(prepared, b"[]")[:2] == (403, "SignatureDoesNotMatch;Sender")


def test_a_signature_for_another_service_is_refused():
    sns = boto3.client("sns", endpoint_url=ENDPOINT)
    with pytest.raises(ClientError) as caught:
        sns.list_topics()
    assert caught.value.response["Error"]["Code"] in ("SignatureDoesNotMatch", "InvalidAction")


def test_half_a_signature_is_incomplete():
    for header in ("AWS4-HMAC-SHA256", "AWS4-HMAC-SHA256 Credential=x", "Bearer token", "AWS4-HMAC-SHA256 Credential=a/b/c/d/e, SignedHeaders=host"):
        prepared = signed(botocore.auth.SigV4Auth)
        prepared.headers["Authorization"] = header
        assert exchange(prepared)[:2] == (400, "IncompleteSignature;Sender"), header


def test_a_key_in_capitals_is_another_key():
    with pytest.raises(ClientError) as caught:
        boto3.client("sqs", aws_access_key_id=OURS[0].upper(), aws_secret_access_key=OURS[1]).list_queues()
    assert caught.value.response["Error"]["Code"] == "InvalidClientTokenId"


def test_another_accounts_queue_url_is_a_queue_that_does_not_exist(queue):
    url = boto3.client("sqs").get_queue_url(QueueName=queue)["QueueUrl"]
    them = boto3.client("sqs", aws_access_key_id=THEIRS[0], aws_secret_access_key=THEIRS[1])
    for call, more in ((them.receive_message, {}), (them.send_message, {"MessageBody": "m"}), (them.delete_queue, {})):
        with pytest.raises(them.exceptions.QueueDoesNotExist):
            call(QueueUrl=url, **more)


def test_sts_says_whose_key_it_is():
    ours, theirs = (boto3.client("sts", aws_access_key_id=k, aws_secret_access_key=s).get_caller_identity()["Account"] for k, s in (OURS, THEIRS))
    assert len(ours) == len(theirs) == 12 and ours != theirs

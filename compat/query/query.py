"""A Query client of the standard library alone: signs with SigV4 in the header or in the URL and reads XML."""

import datetime
import hashlib
import hmac
import http.client
import os
import re
import xml.etree.ElementTree as ElementTree
from urllib.parse import quote, urlsplit

ENDPOINT = os.environ["AWS_ENDPOINT_URL_SQS"]
REGION = os.environ["AWS_REGION"]


class Answer:
    """Status, headers and text of an answer, with its XML read on demand and namespaces dropped."""

    def __init__(self, response):
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.text = response.read().decode()

    @property
    def root(self):
        return ElementTree.fromstring(re.sub(r'\sxmlns="[^"]*"', "", self.text, count=1))

    def all(self, path):
        return [element.text or "" for element in self.root.findall(".//" + path)]

    def one(self, path):
        [text] = self.all(path)
        return text

    @property
    def error(self):
        """Status, type, code and message of an error answer."""
        assert self.root.tag == "ErrorResponse", self.text
        return self.status, self.one("Error/Type"), self.one("Error/Code"), self.one("Error/Message")


class Client:
    """One access key. `call` signs in the header, `presigned` makes a URL anybody may fetch."""

    def __init__(self, key=None, secret=None, service="sqs"):
        self.service = service
        self.key = key or os.environ["AWS_ACCESS_KEY_ID"]
        self.secret = secret or os.environ["AWS_SECRET_ACCESS_KEY"]

    def call(self, action, url=ENDPOINT, method="POST", headers=None, version="2012-11-05", **parameters):
        """An action with its parameters, dots in names written as double underscores."""
        fields = fields_of(action, version, parameters)
        body = encoded(fields) if method == "POST" else ""
        query = "" if method == "POST" else encoded(fields)
        parts = urlsplit(url)
        signed = {"host": parts.netloc, "x-amz-date": now()}
        if method == "POST":
            signed["content-type"] = "application/x-www-form-urlencoded; charset=utf-8"
        signature, scope = self.signature(method, parts.path or "/", query, signed, body)
        authorization = f"AWS4-HMAC-SHA256 Credential={self.key}/{scope}, SignedHeaders={';'.join(sorted(signed))}, Signature={signature}"
        return send(method, url, query, body, signed | {"authorization": authorization} | (headers or {}))

    def presigned(self, action, url=ENDPOINT, expires=60, **parameters):
        parts, date = urlsplit(url), now()
        fields = fields_of(action, "2012-11-05", parameters) | {
            "X-Amz-Algorithm": "AWS4-HMAC-SHA256", "X-Amz-Credential": f"{self.key}/{date[:8]}/{REGION}/{self.service}/aws4_request",
            "X-Amz-Date": date, "X-Amz-Expires": str(expires), "X-Amz-SignedHeaders": "host"}
        query = encoded(fields)
        signature, _ = self.signature("GET", parts.path or "/", query, {"host": parts.netloc}, "", date)
        return f"{url}?{query}&X-Amz-Signature={signature}"

    def signature(self, method, path, query, headers, body, date=None):
        date = date or headers["x-amz-date"]
        names = sorted(headers)
        canonical = "\n".join([method, quote(path), query, *(f"{name}:{headers[name]}" for name in names), "", ";".join(names),
                               hashlib.sha256(body.encode()).hexdigest()])
        scope = f"{date[:8]}/{REGION}/{self.service}/aws4_request"
        to_sign = "\n".join(["AWS4-HMAC-SHA256", date, scope, hashlib.sha256(canonical.encode()).hexdigest()])
        key = ("AWS4" + self.secret).encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        return hmac.new(key, to_sign.encode(), "sha256").hexdigest(), scope


def fields_of(action, version, parameters):
    named = {name.replace("__", "."): str(value) for name, value in parameters.items()}
    return ({"Action": action, "Version": version} if action else {}) | named


def encoded(fields):
    """Percent-encoded and sorted, as the signature wants it."""
    return "&".join(f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}" for name, value in sorted(fields.items()))


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")


def send(method, url, query="", body="", headers=None):
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    target = (parts.path or "/") + (f"?{query or parts.query}" if query or parts.query else "")
    try:
        connection.request(method, target, body.encode(), headers or {})
        return Answer(connection.getresponse())
    finally:
        connection.close()

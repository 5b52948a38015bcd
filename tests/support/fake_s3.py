"""A server with the part of the S3 API that tony uses; it verifies signatures and digests."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, quote, unquote

from tony.storage.s3.request_signature import S3Credentials, sign_request

CREDENTIALS = S3Credentials(access_key="ANN", secret_key="secret", session_token="temporary", region="eu-west-1")


@dataclass(slots=True, kw_only=True)
class FakeS3Object:
    """An object, written some seconds ago."""

    content: bytes
    age: float = 0.0
    metadata: dict[str, str] = field(default_factory=dict)


class FakeS3:
    """The server.

    Attributes:
        objects: by path, `/bucket/key`.
        requests: method and path of those that arrived.
        refusals: method -> status, code and message of an answer without reading the body, and how often.
        cuts: lengths after which the next answers with content break.
        lost: methods of requests that are carried out once, but not answered.
        ignores_conditions: `If-None-Match` has no effect, as in servers that do not know it.
        page: objects of a list in one answer.
        received_bytes: of all bodies.
    """

    def __init__(self) -> None:
        self.objects: dict[str, FakeS3Object] = {}
        self.requests: list[tuple[str, str]] = []
        self.refusals: dict[str, tuple[int, str, str, int]] = {}
        self.cuts: list[int] = []
        self.lost: list[str] = []
        self.ignores_conditions = False
        self.page = 1000
        self.lock = threading.Lock()
        self.received_bytes = 0
        self.variables: dict[str, str] = {}

    @contextmanager
    def serve(self, address: str = "127.0.0.1") -> Iterator[FakeS3]:
        """Serve; `variables` are those of its user."""
        outer = self

        class Handler(_Handler):
            fake = outer

        server = ThreadingHTTPServer((address, 0), Handler)
        self.variables = {
            "AWS_ENDPOINT_URL_S3": f"http://{address}:{server.server_port}",
            "AWS_ACCESS_KEY_ID": CREDENTIALS.access_key,
            "AWS_SECRET_ACCESS_KEY": CREDENTIALS.secret_key,
            "AWS_SESSION_TOKEN": CREDENTIALS.session_token,
            "AWS_REGION": CREDENTIALS.region,
        }
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    fake: FakeS3

    def log_message(self, *_: object) -> None: ...

    def do_HEAD(self) -> None:
        self._answer_content()

    def do_GET(self) -> None:
        self._answer_content()

    def do_PUT(self) -> None:
        if not self._accept():
            return
        if source := self.headers.get("x-amz-copy-source"):
            found = self.fake.objects[unquote(source)]
            assert self.headers["x-amz-metadata-directive"] == "REPLACE"  # else S3 refuses a copy onto itself
            self.fake.objects[self.path] = FakeS3Object(content=found.content)
            self._answer(200, b"<CopyObjectResult/>")
            return
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.fake.received_bytes += len(body)
        if hashlib.sha256(body).hexdigest() != self.headers["x-amz-content-sha256"]:
            self._refuse(400, "XAmzContentSHA256Mismatch", "The provided digest does not match what was computed.")
            return
        names = {name.lower(): value for name, value in self.headers.items()}
        metadata = {name: value for name, value in names.items() if name.startswith("x-amz-meta-")}
        with self.fake.lock:
            if (
                self.headers.get("If-None-Match")
                and self.path in self.fake.objects
                and not self.fake.ignores_conditions
            ):
                self._refuse(412, "PreconditionFailed", "At least one of the pre-conditions did not hold")
                return
            self.fake.objects[self.path] = FakeS3Object(content=body, metadata=metadata)
        self._answer(200)

    def do_DELETE(self) -> None:
        if self._accept():
            self.fake.objects.pop(self.path, None)
            self._answer(204)

    def _answer_list(self) -> None:
        path, _, query = self.path.partition("?")
        fields = dict(parse_qsl(query))
        assert (fields["list-type"], fields["encoding-type"]) == ("2", "url")
        keys = sorted(key for key in self.fake.objects if key.startswith(path + quote(fields["prefix"])))
        keys = [key for key in keys if key > fields.get("continuation-token", "")]
        page = keys[: min(self.fake.page, int(fields["max-keys"]))]
        text = "".join(
            f"<Contents><Key>{key.removeprefix(path)}</Key><LastModified>"
            f"{datetime.fromtimestamp(time.time() - found.age, UTC):%Y-%m-%dT%H:%M:%S}.000Z</LastModified>"
            f"<Size>{len(found.content)}</Size></Contents>"
            for key, found in ((key, self.fake.objects[key]) for key in page)
        )
        if len(page) < len(keys):
            text += f"<NextContinuationToken>{page[-1]}</NextContinuationToken>"
        space = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
        self._answer(200, f'<?xml version="1.0"?><ListBucketResult {space}>{text}</ListBucketResult>'.encode())

    def _answer_content(self) -> None:
        if not self._accept():
            return
        if "?" in self.path:
            self._answer_list()
            return
        found = self.fake.objects.get(self.path)
        if found is None:
            self._refuse(404, "NoSuchKey", "The specified key does not exist.")
            return
        first, _, last = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
        start, end = int(first), int(last) + 1 if last else len(found.content)
        if start and start >= len(found.content):
            self._refuse(416, "InvalidRange", "The requested range is not satisfiable")
            return
        content, written = found.content[start:end], time.time() - found.age
        self.send_response(206 if start else 200)
        for name, value in found.metadata.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Last-Modified", formatdate(written, usegmt=True))
        self.end_headers()
        if self.command == "GET":
            with contextlib.suppress(ConnectionError):  # the client wants no more
                self.wfile.write(content[: self.fake.cuts.pop(0) if self.fake.cuts else None])

    def _accept(self) -> bool:
        """Answer a request that is not to be carried out; return False for it."""
        self.fake.requests.append((self.command, self.path))
        status, code, message, count = self.fake.refusals.pop(self.command, (0, "", "", 0))
        if count > 1:
            self.fake.refusals[self.command] = (status, code, message, count - 1)
        if count:
            self._refuse(status, code, message)
            return False
        given = self.headers["Authorization"]
        names = given.partition("SignedHeaders=")[2].partition(",")[0].split(";")
        expected = sign_request(
            CREDENTIALS,
            self.command,
            f"http://{self.headers['Host']}{self.path}",
            headers={name: self.headers[name] for name in names},
            payload_digest=self.headers["x-amz-content-sha256"],
            now=datetime.strptime(self.headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC),
        )["authorization"]
        if given != expected:
            self._refuse(403, "SignatureDoesNotMatch", "The signature does not match.")
        return given == expected

    def _refuse(self, status: int, code: str, message: str) -> None:
        self._answer(status, f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode())

    def _answer(self, status: int, body: bytes = b"") -> None:
        if self.command in self.fake.lost:
            self.fake.lost.remove(self.command)
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def main(address: str) -> None:
    """Serve until the standard input ends; print the variables of a user first, and the requests at the end."""
    with FakeS3().serve(address) as s3:
        print(json.dumps(s3.variables), flush=True)
        sys.stdin.read()
        print(json.dumps(s3.requests))


if __name__ == "__main__":
    main(sys.argv[1])

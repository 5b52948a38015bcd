"""A bucket in S3, or in a server with its API (MinIO, Ceph). Blocking; the errors have the server's words."""

from __future__ import annotations

import http.client
import itertools
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar
from urllib.parse import quote, urlsplit

from tony.control_characters import escape
from tony.errors import StorageError
from tony.retry import Backoff
from tony.storage.s3.request_signature import EMPTY_DIGEST, S3Credentials, sign_request

#: "Uploading objects" of the Amazon S3 User Guide: what one request may store.
MAX_OBJECT_BYTES = 5 << 30
#: Seconds without a byte from the server.
_TIMEOUT_SECONDS = 60.0
_MAX_TRIES = 6
_PAUSES = Backoff(first=0.5, most=16.0, jitter=0.5)
_PASSING_STATUS = frozenset({408, 429, 500, 502, 503, 504})
_MAX_ERROR_BYTES = 64 << 10
#: Characters of the server's words in a message.
_MAX_WORDS = 300
_CHUNK_BYTES = 1 << 20

T = TypeVar("T")


class S3RefusedError(StorageError):
    """The server refused.

    Attributes:
        status: the HTTP status.
    """

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class S3UnavailableError(StorageError):
    """The server cannot be reached, or is overloaded; it has been tried several times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class S3ObjectStatus:
    """What is known of an object.

    Attributes:
        size: bytes.
        age: seconds since it was written, by the server's clock.
    """

    size: int
    age: float


class S3Bucket:
    """A bucket. Not thread-safe.

    Args:
        variables: the environment, see `S3Credentials`; `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL` names a server that
            is not Amazon's.
        on_wait: called before another try; may raise.

    Raises:
        StorageError: the environment has no credentials, or its endpoint is not valid.
    """

    def __init__(self, name: str, variables: Mapping[str, str], on_wait: Callable[[], None]) -> None:
        self._name, self._on_wait = name, on_wait
        try:
            self._credentials = S3Credentials.from_variables(variables)
        except ValueError as error:
            raise StorageError(f"there are no credentials for s3://{name}: {error}") from None
        self._base = self._find_url(variables.get("AWS_ENDPOINT_URL_S3") or variables.get("AWS_ENDPOINT_URL") or "")
        self._opener = urllib.request.build_opener(_RefuseRedirects, _HttpHandler, _HttpsHandler)

    def find_object(self, key: str) -> S3ObjectStatus | None:
        """Return what is known of an object; None if there is none.

        Raises:
            StorageError: the server refuses, or cannot be reached.
        """
        try:
            with self._retry(lambda: self._request("HEAD", key)) as answer:
                headers = answer.headers
        except S3RefusedError as error:
            if error.status == 404:
                return None
            raise
        try:
            written = parsedate_to_datetime(headers["Last-Modified"])
            age = (parsedate_to_datetime(headers["Date"]) - written).total_seconds()
            return S3ObjectStatus(size=int(headers["Content-Length"]), age=age)
        except (TypeError, ValueError):
            raise StorageError(f"{self._describe(key)}: the answer of the server makes no sense") from None

    def store_object(self, key: str, digest: str, size: int, read: Callable[[], Iterable[bytes]]) -> None:
        """Store an object; the server compares it with its SHA-256 digest.

        Raises:
            StorageError: it is too large, or the server refuses or cannot be reached.
        """
        if size > MAX_OBJECT_BYTES:
            raise StorageError(f"{self._describe(key)}: an object of {size} bytes; at most {MAX_OBJECT_BYTES} fit")
        headers = {"Content-Length": str(size), "Content-Type": "application/octet-stream"}
        self._retry(lambda: self._request("PUT", key, headers, digest, read)).close()

    def renew_object(self, key: str) -> None:
        """Make an object as young as a new one: the server copies it onto itself.

        Raises:
            StorageError: the server refuses, or cannot be reached.
        """
        headers = {"x-amz-copy-source": quote(f"/{self._name}/{key}"), "x-amz-metadata-directive": "REPLACE"}
        headers |= {"Content-Length": "0", "Content-Type": "application/octet-stream"}
        with self._retry(lambda: self._request("PUT", key, headers)) as answer:
            body = answer.read(_MAX_ERROR_BYTES)
        if b"<Error>" in body:  # "CopyObject": it may fail after the head of the answer was sent
            raise StorageError(f"{self._describe(key)}: {_find_words(body)}")

    def read_object(self, key: str, size: int) -> Iterator[bytes]:
        """Yield the content of an object, continued where a connection broke; nothing if it has another size.

        Raises:
            StorageError: the server refuses, or cannot be reached.
        """
        done, pauses = 0, itertools.islice(_PAUSES, _MAX_TRIES - 1)
        while done < size:
            ranges = {"Range": f"bytes={done}-"} if done else {}
            with self._retry(lambda ranges=ranges: self._request("GET", key, ranges)) as answer:  # type: ignore[misc]
                if int(answer.headers.get("Content-Length") or -1) != size - done:
                    return
                broken: Exception = EOFError("the connection ended early")
                try:
                    while data := answer.read(min(_CHUNK_BYTES, size - done)):
                        done += len(data)
                        yield data
                except (OSError, http.client.HTTPException) as error:
                    broken = error
            if done == size:
                return
            if (pause := next(pauses, None)) is None:
                raise self._build_lost_error(key, broken)
            self._wait(pause)

    def _find_url(self, endpoint: str) -> str:
        """Return the URL of the bucket."""
        if not endpoint:
            # A name with a dot is not below Amazon's certificate.
            host = f"s3.{self._credentials.region}.amazonaws.com"
            return f"https://{host}/{self._name}" if "." in self._name else f"https://{self._name}.{host}"
        parts = urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or "@" in parts.netloc:
            raise StorageError(f'AWS_ENDPOINT_URL "{endpoint}" is not an http or https URL of a server')
        return f"{endpoint.rstrip('/')}/{self._name}"

    def _retry(self, action: Callable[[], T]) -> T:
        for pause in itertools.islice(_PAUSES, _MAX_TRIES - 1):
            try:
                return action()
            except S3UnavailableError:
                self._wait(pause)
        return action()

    def _wait(self, pause: float) -> None:
        self._on_wait()
        time.sleep(pause)

    def _request(
        self,
        method: str,
        key: str,
        headers: Mapping[str, str] | None = None,
        digest: str = EMPTY_DIGEST,
        read: Callable[[], Iterable[bytes]] | None = None,
    ) -> http.client.HTTPResponse:
        """Send a request once; return its answer, to be closed."""
        url = f"{self._base}/{quote(key)}"
        signed = sign_request(
            self._credentials, method, url, headers=headers or {}, payload_digest=digest, now=datetime.now(UTC)
        )
        request = urllib.request.Request(url, read() if read else None, signed, method=method)
        try:
            answer: http.client.HTTPResponse = self._opener.open(request, timeout=_TIMEOUT_SECONDS)
            return answer
        except urllib.error.HTTPError as error:
            with error:
                raise self._build_error(key, error) from None
        except urllib.error.URLError as error:
            raise self._build_lost_error(key, error.reason) from None
        except (OSError, http.client.HTTPException) as error:
            raise self._build_lost_error(key, error) from None

    def _build_error(self, key: str, error: urllib.error.HTTPError) -> StorageError:
        try:
            words = _find_words(error.read(_MAX_ERROR_BYTES))
        except (OSError, http.client.HTTPException):
            words = ""
        text = f"{self._describe(key)}: {words or error.reason} (HTTP {error.code})"
        if (region := error.headers.get("x-amz-bucket-region", self._credentials.region)) != self._credentials.region:
            text += f". The bucket is in {region}: set AWS_REGION."
        if error.code in _PASSING_STATUS:
            return S3UnavailableError(text)
        return S3RefusedError(text, error.code)

    def _build_lost_error(self, key: str, reason: BaseException | str) -> S3UnavailableError:
        text = str(reason) or type(reason).__name__
        return S3UnavailableError(f"{self._describe(key)}: {urlsplit(self._base).netloc} cannot be reached: {text}")

    def _describe(self, key: str) -> str:
        return f"s3://{self._name}/{key}"


def _find_words(body: bytes) -> str:
    """Return code and message of an error document; empty if there is none, as after HEAD."""
    found = [re.search(rf"<{name}>([^<]*)</{name}>", body.decode(errors="replace")) for name in ("Code", "Message")]
    return escape(": ".join(match[1] for match in found if match))[:_MAX_WORDS]


class _RefuseRedirects(urllib.request.HTTPRedirectHandler):
    """Treats redirects as errors: a request is signed for one host."""

    def redirect_request(self, *_: object) -> None:
        return


class _EarlyAnswers(http.client.HTTPConnection):
    """Reads the answer of a server that closes the connection before it has all of the body: it has a reason."""

    def endheaders(self, message_body: object = None, *, encode_chunked: bool = False) -> None:
        super().endheaders()  # a connection that breaks here has no answer
        try:
            for chunk in message_body if isinstance(message_body, Iterable) else ():
                self.send(chunk)
        except (BrokenPipeError, ConnectionResetError):
            pass


class _EarlyAnswersTls(_EarlyAnswers, http.client.HTTPSConnection):
    pass


class _HttpHandler(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_EarlyAnswers, req)


class _HttpsHandler(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_EarlyAnswersTls, req)

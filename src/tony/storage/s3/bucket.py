"""A bucket in S3, or in a server with its API (MinIO, Ceph). Blocking; the errors have the server's words."""

from __future__ import annotations

import http.client
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from hashlib import sha256
from typing import TypeVar
from urllib.parse import quote, urlsplit

from tony.control_characters import escape
from tony.errors import ConnectionFailedError, InfraError, StorageError
from tony.http_requests import PASSING_STATUS, HttpClient, read_answer
from tony.storage.s3.object_list import MAX_LIST_BYTES, ListedObject, build_list_query, parse_list
from tony.storage.s3.request_signature import EMPTY_DIGEST, S3Credentials, sign_request

#: "Uploading objects" of the Amazon S3 User Guide: what one request may store.
MAX_OBJECT_BYTES = 5 << 30
#: Seconds without a byte from the server.
TIMEOUT_SECONDS = 60.0
MAX_TRIES = 6
#: 409: another request for the same object is under way.
_PASSING_STATUS = PASSING_STATUS | {409}
_MAX_ERROR_BYTES = 64 << 10
#: Characters of the server's words in a message.
_MAX_WORDS = 300
_CHUNK_BYTES = 1 << 20
#: Objects of a list, for memory and time: others may be able to write them.
MAX_LISTED_OBJECTS = 1_000_000
_METADATA_PREFIX = "x-amz-meta-"

T = TypeVar("T")


class S3RefusedError(StorageError):
    """The server refused.

    Attributes:
        status: the HTTP status.
        code: the server's name of the error, such as `NoSuchKey`; empty after HEAD.
    """

    def __init__(self, text: str, status: int, code: str = "") -> None:
        super().__init__(text)
        self.status, self.code = status, code


class S3UnavailableError(InfraError):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Content:
    """A part of an object.

    Attributes:
        metadata: text that was stored with it, by names in lower case.
    """

    data: bytes
    metadata: Mapping[str, str]


class S3Bucket:
    """A bucket. Thread-safe if `on_wait` is.

    Args:
        variables: the environment, see `S3Credentials`; `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL` names a server that
            is not Amazon's.
        on_wait: called before another try; may raise.
        max_tries: of each request.
        timeout: seconds without a byte from the server.

    Attributes:
        host: of the server, for messages.

    Raises:
        StorageError: the environment has no credentials, or its endpoint is not valid.
    """

    def __init__(
        self,
        name: str,
        variables: Mapping[str, str],
        on_wait: Callable[[], None] = lambda: None,
        *,
        max_tries: int = MAX_TRIES,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        self._name = name
        try:
            self._credentials = S3Credentials.from_variables(variables)
        except ValueError as error:
            raise StorageError(f"there are no credentials for s3://{name}: {error}. Set these variables.") from None
        self._base = self._find_url(variables.get("AWS_ENDPOINT_URL_S3") or variables.get("AWS_ENDPOINT_URL") or "")
        self.host = urlsplit(self._base).netloc
        self._client = HttpClient(timeout, max_tries, on_wait)

    def find_object(self, key: str) -> S3ObjectStatus | None:
        """Return what is known of an object; None if there is none.

        Raises:
            StorageError, S3UnavailableError: the server refuses, or cannot be reached.
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
            StorageError, S3UnavailableError: it is too large, or the server refuses or cannot be reached.
        """
        if size > MAX_OBJECT_BYTES:
            raise StorageError(f"{self._describe(key)}: an object of {size} bytes; at most {MAX_OBJECT_BYTES} fit")
        headers = {"Content-Length": str(size), "Content-Type": "application/octet-stream"}
        self._retry(lambda: self._request("PUT", key, headers, digest, read)).close()

    def create_object(self, key: str, content: bytes, metadata: Mapping[str, str]) -> bool:
        """Store an object unless there is one; return False if there is one.

        That may be the object of this call: an answer was lost.

        Raises:
            StorageError, S3UnavailableError: the server refuses, or cannot be reached.
        """
        headers = {"Content-Length": str(len(content)), "Content-Type": "application/octet-stream"}
        headers |= {"If-None-Match": "*", **{f"{_METADATA_PREFIX}{name}": value for name, value in metadata.items()}}
        try:
            self._retry(
                lambda: self._request("PUT", key, headers, sha256(content).hexdigest(), lambda: [content])
            ).close()
        except S3RefusedError as error:
            if error.status != 412:
                raise
            return False
        return True

    def renew_object(self, key: str) -> None:
        """Make an object as young as a new one: the server copies it onto itself.

        Raises:
            StorageError, S3UnavailableError: the server refuses, or cannot be reached.
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
            StorageError, S3UnavailableError: the server refuses, or cannot be reached.
        """
        done, pauses = 0, self._client.list_pauses()
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
            self._client.wait(pause)

    def fetch_part(self, key: str, offset: int, most: int) -> S3Content | None:
        """Return at most `most` bytes of an object; None if there is none.

        Raises:
            StorageError, S3UnavailableError: the server refuses, or cannot be reached.
        """
        try:
            return self._retry(lambda: self._fetch_part(key, offset, most))
        except S3RefusedError as error:
            if error.code == "NoSuchKey":
                return None
            if error.status == 416:  # it has no more bytes
                return S3Content(data=b"", metadata={})
            raise

    def _fetch_part(self, key: str, offset: int, most: int) -> S3Content:
        headers = {"Range": f"bytes={offset}-{offset + most - 1}"} if offset else {}  # an empty object has no range
        with self._request("GET", key, headers) as answer:
            if offset and answer.status != 206:
                raise StorageError(f"{self._describe(key)}: {self.host} ignores Range")
            data = self._read_answer(key, answer, most)
            names = {name.lower(): value for name, value in answer.headers.items()}
        found = {
            name.removeprefix(_METADATA_PREFIX): value
            for name, value in names.items()
            if name.startswith(_METADATA_PREFIX)
        }
        return S3Content(data=data, metadata=found)

    def list_objects(self, prefix: str, most: int = 0) -> Iterator[ListedObject]:
        """Yield objects whose keys begin with `prefix`, in the order of their keys.

        Args:
            most: yield only the first ones; 0: all.

        Raises:
            StorageError, S3UnavailableError: there are very many; or the server refuses, or cannot be reached.
        """
        limit = most or MAX_LISTED_OBJECTS
        token, count = "", 0
        while count < limit:
            query = build_list_query(prefix, token, limit - count)
            body = self._retry(lambda query=query: self._fetch_list(prefix, query))  # type: ignore[misc]
            try:
                found, token = parse_list(body)
            except ValueError as error:
                raise StorageError(f"{self._describe(prefix)}: the answer of {self.host} is no list: {error}") from None
            yield from found
            count += len(found)
            if not token:
                return
        if not most:
            raise StorageError(f"{self._describe(prefix)}: more than {limit} objects")

    def _fetch_list(self, prefix: str, query: str) -> bytes:
        with self._request("GET", prefix, query=query) as answer:
            return self._read_answer(prefix, answer, MAX_LIST_BYTES)

    def delete_object(self, key: str) -> None:
        """Delete an object, if there is one.

        Raises:
            StorageError, S3UnavailableError: the server refuses, or cannot be reached.
        """
        try:
            self._retry(lambda: self._request("DELETE", key)).close()
        except S3RefusedError as error:
            if error.code != "NoSuchKey":
                raise

    def _read_answer(self, key: str, answer: http.client.HTTPResponse, most: int) -> bytes:
        try:
            return read_answer(answer, most)
        except ConnectionFailedError as error:
            raise self._build_lost_error(key, error) from None

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
        return self._client.retry(action, S3UnavailableError)

    def _request(
        self,
        method: str,
        key: str,
        headers: Mapping[str, str] | None = None,
        digest: str = EMPTY_DIGEST,
        read: Callable[[], Iterable[bytes]] | None = None,
        query: str = "",
    ) -> http.client.HTTPResponse:
        """Send a request once; return its answer, to be closed.

        Args:
            key: of an object; with a query, the prefix that it has.
        """
        url = f"{self._base}/?{query}" if query else f"{self._base}/{quote(key)}"
        signed = sign_request(
            self._credentials, method, url, headers=headers or {}, payload_digest=digest, now=datetime.now(UTC)
        )
        try:
            answer = self._client.open(method, url, signed, read() if read else None)
        except ConnectionFailedError as error:
            raise S3UnavailableError(f"{self._describe(key)}: {error}") from None
        if answer.status // 100 == 2:
            return answer
        with answer:
            raise self._build_error(key, answer)

    def _build_error(self, key: str, answer: http.client.HTTPResponse) -> InfraError:
        try:
            body = read_answer(answer, _MAX_ERROR_BYTES)
        except ConnectionFailedError:
            body = b""
        text = f"{self._describe(key)}: {_find_words(body) or answer.reason} (HTTP {answer.status})"
        region = answer.headers.get("x-amz-bucket-region", self._credentials.region)
        if region != self._credentials.region:
            text += f". The bucket is in {region}: set AWS_REGION."
        if answer.status in _PASSING_STATUS:
            return S3UnavailableError(text)
        code = re.search(rb"<Code>([A-Za-z]+)</Code>", body)
        return S3RefusedError(text, answer.status, code[1].decode() if code else "")

    def _build_lost_error(self, key: str, reason: BaseException | str) -> S3UnavailableError:
        text = str(reason) or type(reason).__name__
        return S3UnavailableError(f"{self._describe(key)}: {self.host} cannot be reached: {text}")

    def _describe(self, key: str) -> str:
        return f"s3://{self._name}/{key}"


def _find_words(body: bytes) -> str:
    """Return code and message of an error document; empty if there is none, as after HEAD."""
    found = [re.search(rf"<{name}>([^<]*)</{name}>", body.decode(errors="replace")) for name in ("Code", "Message")]
    return escape(": ".join(match[1] for match in found if match))[:_MAX_WORDS]

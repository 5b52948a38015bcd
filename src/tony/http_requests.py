"""HTTP requests of one client to one service, such as an object store. Blocking; with the standard library alone.

Every status is an answer, a redirect as well: requests have credentials, which are meant for one host. What breaks a
connection is one error, and failures that may pass are tried again.
"""

from __future__ import annotations

import http.client
import itertools
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TypeVar
from urllib.parse import urlsplit

from tony.errors import ConnectionFailedError, InfraError
from tony.retry import Backoff

#: Statuses of failures that may pass.
PASSING_STATUS = frozenset({408, 429, 500, 502, 503, 504})
_PAUSES = Backoff(first=0.5, most=16.0, jitter=0.5)

T = TypeVar("T")


class HttpClient:
    """Thread-safe if `on_wait` is.

    Args:
        timeout: seconds without a byte from the server.
        max_tries: of each request.
        on_wait: called before another try; may raise.
        uses_proxies: those that the environment names.
    """

    def __init__(
        self, timeout: float, max_tries: int, on_wait: Callable[[], None], *, uses_proxies: bool = True
    ) -> None:
        self._timeout, self._max_tries, self._on_wait = timeout, max_tries, on_wait
        proxies = urllib.request.ProxyHandler(None if uses_proxies else {})
        self._opener = urllib.request.build_opener(_AllAnswers, _HttpHandler, _HttpsHandler, proxies)

    def open(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | Iterable[bytes] | None = None
    ) -> http.client.HTTPResponse:
        """Send a request once; return its answer, to be closed.

        Args:
            headers: with `Content-Length` if the body is not bytes.

        Raises:
            ConnectionFailedError: there is no answer; the text begins with the host.
        """
        request = urllib.request.Request(url, body, dict(headers), method=method)
        try:
            answer: http.client.HTTPResponse = self._opener.open(request, timeout=self._timeout)
            return answer
        except urllib.error.URLError as error:
            reason = error.reason
        except (OSError, http.client.HTTPException) as error:
            reason = error
        raise ConnectionFailedError(f"{urlsplit(url).netloc} cannot be reached: {str(reason) or type(reason).__name__}")

    def retry(self, action: Callable[[], T], passing: type[InfraError]) -> T:
        """Call a function until it does not raise `passing`, or was tried often enough."""
        for pause in self.list_pauses():
            try:
                return action()
            except passing:
                self.wait(pause)
        return action()

    def list_pauses(self) -> Iterator[float]:
        """Return the seconds to wait before each further try."""
        return itertools.islice(_PAUSES, self._max_tries - 1)

    def wait(self, seconds: float) -> None:
        """Wait before another try."""
        self._on_wait()
        time.sleep(seconds)


def read_answer(answer: http.client.HTTPResponse, most: int) -> bytes:
    """Return at most `most` bytes of an answer.

    Raises:
        ConnectionFailedError: the connection broke.
    """
    try:
        data = answer.read(most)
    except (OSError, http.client.HTTPException) as error:
        raise ConnectionFailedError(f"the connection broke: {error}") from None
    if answer.length and len(data) < most:
        raise ConnectionFailedError("the connection ended early")
    return data


class _AllAnswers(urllib.request.HTTPErrorProcessor):
    """Makes no error of any status."""

    def http_response(
        self, request: urllib.request.Request, response: http.client.HTTPResponse
    ) -> http.client.HTTPResponse:
        return response

    https_response = http_response


class _EarlyAnswers(http.client.HTTPConnection):
    """Reads the answer of a server that closes the connection before it has all of the body: it has a reason."""

    def endheaders(self, message_body: object = None, *, encode_chunked: bool = False) -> None:
        super().endheaders()  # a connection that breaks here has no answer
        parts = [message_body] if isinstance(message_body, bytes) else message_body
        try:
            for part in parts if isinstance(parts, Iterable) else ():
                self.send(part)
        except (BrokenPipeError, ConnectionResetError):
            pass


class _EarlyAnswersTls(_EarlyAnswers, http.client.HTTPSConnection):
    pass


class _HttpHandler(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_EarlyAnswers, req)


class _HttpsHandler(urllib.request.HTTPSHandler):
    @cached_property
    def _certificates(self) -> ssl.SSLContext:
        return ssl.create_default_context()  # once: it reads all of them

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_EarlyAnswersTls, req, context=self._certificates)

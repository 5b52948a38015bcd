"""Minimal asyncio HTTP/1.1 POST client for webhooks, with or without TLS; standard library only.

A request can be cancelled at any time, and none of its threads outlives the process: name lookup and loading of
certificates block, so they run in a daemon thread. Responses are read up to the status line. Redirects are not
followed: the body may be signed, and is meant for that one server.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from tony.address import format_host
from tony.linux.thread_pools import start_in_thread

if TYPE_CHECKING:
    import ssl

T = TypeVar("T")

#: Maximum bytes of a status line, and of all interim responses.
MAX_STATUS_LINE_BYTES = 4096
_MAX_HEAD_BYTES = 64 << 10
#: Status codes below 500 that may be retried.
_RETRYABLE = frozenset({408, 425, 429})


class WebhookRejectedError(Exception):
    """The request was not accepted.

    Attributes:
        is_retryable: it may be accepted later.
    """

    def __init__(self, text: str, *, is_retryable: bool) -> None:
        super().__init__(text)
        self.is_retryable = is_retryable


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookTarget:
    """The address of a webhook.

    Attributes:
        path: with the query; it may be a secret, so it appears in no message.
    """

    secure: bool
    host: str
    port: int
    path: str

    @classmethod
    def from_address(cls, address: str) -> WebhookTarget:
        """Parse an address that was checked when the job was submitted."""
        parts = urlsplit(address)
        secure = parts.scheme == "https"
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return cls(secure=secure, host=parts.hostname or "", port=parts.port or (443 if secure else 80), path=path)

    def __str__(self) -> str:
        name = format_host(self.host)
        usual = 443 if self.secure else 80
        return f"{'https' if self.secure else 'http'}://{name}{'' if self.port == usual else f':{self.port}'}"


async def post(target: WebhookTarget, body: bytes, headers: Mapping[str, str], timeout: float) -> None:
    """Send a request once.

    Args:
        timeout: seconds for the whole exchange.

    Raises:
        WebhookRejectedError: for whatever reason.
    """
    try:
        async with asyncio.timeout(timeout):
            status = await _exchange(target, body, headers)
    except TimeoutError:
        raise WebhookRejectedError(f"no answer within {timeout:.3g} s", is_retryable=True) from None
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, EOFError):
        raise WebhookRejectedError("the connection was closed without an answer", is_retryable=True) from None
    except OSError as error:
        raise _build_refusal(error) from None
    if not 200 <= status < 300:
        if 300 <= status < 400:
            raise WebhookRejectedError(f"it redirects ({status}), which is not followed", is_retryable=False)
        raise WebhookRejectedError(
            f"it answered with status {status}", is_retryable=status in _RETRYABLE or status >= 500
        )


async def _exchange(target: WebhookTarget, body: bytes, headers: Mapping[str, str]) -> int:
    context = await _run_in_daemon_thread(_create_ssl_context) if target.secure else None
    reader, writer = await _connect(target, context)
    try:
        writer.write(_format_head(target, len(body), headers) + body)
        await writer.drain()
        return await read_status(reader)
    finally:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _connect(
    target: WebhookTarget, context: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the first of the host's addresses that can be reached."""
    places = await _run_in_daemon_thread(lambda: socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM))
    last: OSError = OSError("its name has no address")
    for _, _, _, _, place in places:
        try:
            return await asyncio.open_connection(
                str(place[0]),
                int(place[1]),
                limit=MAX_STATUS_LINE_BYTES,
                ssl=context,
                server_hostname=target.host if context else None,
            )
        except OSError as error:
            last = error
            if context and _is_of_tls(error):
                raise
    raise last


def _format_head(target: WebhookTarget, length: int, headers: Mapping[str, str]) -> bytes:
    name = str(target).partition("://")[2]
    lines = [
        f"POST {target.path} HTTP/1.1",
        f"Host: {name}",
        *(f"{field}: {value}" for field, value in headers.items()),
        f"Content-Length: {length}",
        "Connection: close",
    ]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode("ascii")


async def read_status(reader: asyncio.StreamReader) -> int:
    """Read the status code of a response, skipping interim ones (1xx).

    Raises:
        WebhookRejectedError: it is not HTTP, or its headers do not end.
        IncompleteReadError, LimitOverrunError: it ends within a line, or a line is too long.
    """
    taken = 0
    while taken < _MAX_HEAD_BYTES:
        line = await reader.readuntil(b"\n")
        taken += len(line)
        words = line.split(None, 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or len(words[1]) != 3 or not words[1].isdigit():
            raise WebhookRejectedError("its answer is not HTTP", is_retryable=False)
        status = int(words[1])
        if status >= 200:
            return status
        while (line := await reader.readuntil(b"\n")).strip() and taken < _MAX_HEAD_BYTES:
            taken += len(line)
    raise WebhookRejectedError("its answer does not end", is_retryable=False)


def _build_refusal(error: OSError) -> WebhookRejectedError:
    if _is_of_tls(error):
        detail = getattr(error, "verify_message", "") or getattr(error, "reason", "") or type(error).__name__
        trust = "its certificate is not trusted" if getattr(error, "verify_message", "") else "the TLS handshake failed"
        return WebhookRejectedError(f"{trust}: {str(detail).replace('_', ' ').lower()}", is_retryable=False)
    return WebhookRejectedError(error.strerror or str(error) or type(error).__name__, is_retryable=True)


def _is_of_tls(error: OSError) -> bool:
    """Return True if a retry would fail the same way."""
    import ssl

    return isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)


def _create_ssl_context() -> ssl.SSLContext:
    import ssl  # importing it takes about 30 ms, and most jobs have no webhook

    return ssl.create_default_context()


async def _run_in_daemon_thread(work: Callable[[], T]) -> T:
    """Run blocking work in a thread that the process does not wait for at its exit."""
    try:
        done = start_in_thread(work, daemon=True)
    except RuntimeError as error:
        raise OSError(str(error)) from error
    return await done

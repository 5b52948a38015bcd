"""Sends one thing to one address of the web: a POST over HTTP/1.1, with or without TLS. Standard library only.

It can be broken off at any time, and no thread of it outlives the process: the resolver and the reading of certificates
block, so they have one that nobody waits for at the end. Answers are read as far as their first line. An address that
sends us elsewhere is not followed: what is sent may be signed, and is meant for that one place.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from tony.dataclass import dataclass

if TYPE_CHECKING:
    import ssl

T = TypeVar("T")

#: Bytes of a first line, and of all headers before an answer that counts.
LONGEST_LINE, _HEAD = 4096, 64 << 10
#: Answers that mean that it may be taken another time.
_AGAIN = frozenset({408, 425, 429})


class WebhookRejectedError(Exception):
    """It was not taken.

    Attributes:
        again: it may be taken another time.
    """

    def __init__(self, text: str, *, again: bool) -> None:
        super().__init__(text)
        self.again = again


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookTarget:
    """Where things are sent.

    Attributes:
        path: with the query; it may be a secret, so it stands in no message.
    """

    secure: bool
    host: str
    port: int
    path: str

    @classmethod
    def of(cls, address: str) -> WebhookTarget:
        """Of an address that was checked when the job was submitted."""
        parts = urlsplit(address)
        secure = parts.scheme == "https"
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return cls(secure=secure, host=parts.hostname or "", port=parts.port or (443 if secure else 80), path=path)

    def __str__(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        usual = 443 if self.secure else 80
        return f"{'https' if self.secure else 'http'}://{name}{'' if self.port == usual else f':{self.port}'}"


async def post(target: WebhookTarget, body: bytes, headers: Mapping[str, str], patience: float) -> None:
    """Sends it once.

    Args:
        patience: seconds for all of it.

    Raises:
        NotTakenError: for whatever reason.
    """
    try:
        async with asyncio.timeout(patience):
            status = await _exchange(target, body, headers)
    except TimeoutError:
        raise WebhookRejectedError(f"no answer within {patience:.3g} s", again=True) from None
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, EOFError):
        raise WebhookRejectedError("the connection was closed without an answer", again=True) from None
    except OSError as error:
        raise _refused(error) from None
    if not 200 <= status < 300:
        if 300 <= status < 400:
            raise WebhookRejectedError(f"it sends us elsewhere ({status}), which is not followed", again=False)
        raise WebhookRejectedError(f"it answers {status}", again=status in _AGAIN or status >= 500)


async def _exchange(target: WebhookTarget, body: bytes, headers: Mapping[str, str]) -> int:
    context = await _aside(_context) if target.secure else None
    reader, writer = await _connected(target, context)
    try:
        writer.write(_head(target, len(body), headers) + body)
        await writer.drain()
        return await status_of(reader)
    finally:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _connected(
    target: WebhookTarget, context: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """To the first of the host's addresses that can be reached."""
    places = await _aside(lambda: socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM))
    last: OSError = OSError("it has no address")
    for _, _, _, _, place in places:
        try:
            return await asyncio.open_connection(
                str(place[0]),
                int(place[1]),
                limit=LONGEST_LINE,
                ssl=context,
                server_hostname=target.host if context else None,
            )
        except OSError as error:
            last = error
            if context and _is_of_tls(error):
                raise
    raise last


def _head(target: WebhookTarget, length: int, headers: Mapping[str, str]) -> bytes:
    name = str(target).partition("://")[2]
    lines = [
        f"POST {target.path} HTTP/1.1",
        f"Host: {name}",
        *(f"{field}: {value}" for field, value in headers.items()),
        f"Content-Length: {length}",
        "Connection: close",
    ]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode("ascii")


async def status_of(reader: asyncio.StreamReader) -> int:
    """An answer's number, past those that only say that there will be one.

    Raises:
        NotTakenError: this is no HTTP, or has no end.
        IncompleteReadError, LimitOverrunError: it ends in the midst of a line, or a line has no end.
    """
    taken = 0
    while taken < _HEAD:
        line = await reader.readuntil(b"\n")
        taken += len(line)
        words = line.split(None, 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or len(words[1]) != 3 or not words[1].isdigit():
            raise WebhookRejectedError("its answer is no HTTP", again=False)
        status = int(words[1])
        if status >= 200:
            return status
        while (line := await reader.readuntil(b"\n")).strip() and taken < _HEAD:
            taken += len(line)
    raise WebhookRejectedError("its answer has no end", again=False)


def _refused(error: OSError) -> WebhookRejectedError:
    if _is_of_tls(error):
        said = getattr(error, "verify_message", "") or getattr(error, "reason", "") or type(error).__name__
        trust = "its certificate is not trusted" if getattr(error, "verify_message", "") else "no TLS with it"
        return WebhookRejectedError(f"{trust}: {str(said).replace('_', ' ').lower()}", again=False)
    return WebhookRejectedError(error.strerror or str(error) or type(error).__name__, again=True)


def _is_of_tls(error: OSError) -> bool:
    """Whether trying again would lead to the same."""
    import ssl

    return isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)


def _context() -> ssl.SSLContext:
    import ssl  # late: it takes some 30 ms, and most jobs tell nobody

    return ssl.create_default_context()


async def _aside(work: Callable[[], T]) -> T:
    """Blocking work, in a thread that the process does not wait for at its end."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except Exception as caught:  # it is raised where the work was asked for
            error = caught
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, result, error)

    try:
        threading.Thread(target=run, name="notices", daemon=True).start()
    except RuntimeError as error:  # no thread to be had
        raise OSError(str(error)) from error
    return await done

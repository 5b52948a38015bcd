"""An HTTP client for WebHDFS: connection reuse, bounded responses, tony's errors. Blocking and thread-safe.

The error tells whether a request may be repeated: after `ConnectError` nothing was sent; after `ConnectionLostError`
and `CallTimeoutError` it may have been executed.
"""

from __future__ import annotations

import http.client
import io
import os
import select
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import urlsplit

from tony.address import format_host
from tony.errors import StorageError
from tony.hadoop.ipc.errors import CallTimeoutError, ConnectError, ConnectFailure, ConnectionLostError, IpcProtocolError
from tony.hadoop.remote_text import escape_line

if TYPE_CHECKING:
    import ssl

#: Jetty ends an idle connection after 10 s (Hadoop 2) or 60 s.
_MAX_IDLE_SECONDS = 5.0
#: Kept for each address; more threads than that open connections of their own.
_MAX_IDLE_CONNECTIONS = 4
#: Of an answer that is not a file's content. A listing of 1,000 names is some 300 KB.
MAX_RESPONSE_BYTES = 8 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """Timeouts and TLS trust.

    Attributes:
        connect_timeout: seconds to establish the connection.
        timeout: seconds to wait for data.
        tls: for https; None for the system's certificates and checks.
    """

    connect_timeout: float = 10.0
    timeout: float = 60.0
    tls: ssl.SSLContext | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOrigin:
    """The server of a URL.

    Attributes:
        scheme: `http` or `https`.
        host: name or number, without brackets.
        port: TCP port.
    """

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.scheme}://{format_host(self.host)}:{self.port}"


def split_url(url: str) -> tuple[HttpOrigin, str]:
    """Split a URL into its origin, and the path with query.

    Raises:
        ValueError: no URL of http or https with a host.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise ValueError("is not an http or https URL with a host")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    return HttpOrigin(scheme=parts.scheme, host=parts.hostname, port=port), target


class HttpResponse:
    """An answer whose head has come; its body is read once, by `body` or by `read` and `close`."""

    def __init__(self, pool: HttpPool, origin: HttpOrigin, link: http.client.HTTPConnection) -> None:
        self._pool = pool
        self._origin = origin
        self._link = link
        response = link.getresponse()
        self._response = response
        self.status: int = response.status
        self._closed = False

    def find_header(self, name: str) -> str | None:
        """Return the first header of that name."""
        return self._response.getheader(name)

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes; empty at the end.

        Raises:
            ConnectionLostError: it ended before its promised length.
            CallTimeoutError: nothing came.
        """
        if size <= 0 or self._response.length == 0:
            return b""
        try:
            data = self._response.read1(size)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise _build_lost_error(self._origin, error) from error
        if not data and self._response.length:
            missing = self._response.length
            self.close()
            raise ConnectionLostError(
                f"{self._origin} ended the connection {missing} bytes before the end of its answer"
            )
        return data

    def read_body(self) -> bytes:
        """Return all of it; the connection is kept if the other side keeps it.

        Raises:
            ProtocolError: too long to be what it should be.
            ConnectionLostError, CallTimeoutError: as above.
        """
        parts = []
        left = MAX_RESPONSE_BYTES
        while part := self.read(min(left + 1, 64 * 2**10)):
            parts.append(part)
            left -= len(part)
            if left < 0:
                self.close()
                raise IpcProtocolError(f"{self._origin} answers with more than {MAX_RESPONSE_BYTES} bytes")
        self.close()
        return b"".join(parts)

    def close(self) -> None:
        """Keep the connection if all was read, ends it otherwise. Harmless when called again."""
        if self._closed:
            return
        self._closed = True
        complete = self._response.isclosed() or self._response.length == 0
        self._response.close()
        if complete and self._link.sock is not None:
            self._pool.give_back(self._origin, self._link)
        else:
            self._link.close()


class HttpPool:
    """Connections by address, kept while they are young."""

    def __init__(self, options: HttpOptions) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._kept: dict[HttpOrigin, list[tuple[float, http.client.HTTPConnection]]] = {}
        self._tls = options.tls

    def request(
        self,
        method: str,
        origin: HttpOrigin,
        target: str,
        *,
        body: Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> HttpResponse:
        """Send a request once; return the response whatever its status.

        Args:
            method: GET, PUT, POST or DELETE.
            target: path and query, quoted.
            body: pieces; with Content-Length among the headers, or sent chunked.
            headers: more of them.
            timeout: seconds until the response must have begun; by default that of the options.

        Raises:
            ConnectError: no connection; nothing was sent.
            ConnectionLostError: the connection broke; the request may have been carried out.
            CallTimeoutError: no answer in time; likewise.
        """
        link = self._take_kept(origin) or self._open_new(origin)
        try:
            link.sock.settimeout(self._options.timeout if timeout is None else timeout)
            self._send(link, method, target, body, dict(headers or {}))
            return HttpResponse(self, origin, link)
        except (OSError, http.client.HTTPException) as error:
            link.close()
            raise _build_lost_error(origin, error) from error
        except BaseException:
            link.close()
            raise

    def _send(
        self,
        link: http.client.HTTPConnection,
        method: str,
        target: str,
        body: Iterable[bytes] | None,
        headers: dict[str, str],
    ) -> None:
        if body is None:
            # The servers require the header even without a body.
            length = {"Content-Length": "0"} if method in ("PUT", "POST") else {}
            link.request(method, target, headers={**headers, **length})
            return
        try:
            chunked = "Content-Length" not in headers
            if chunked:
                headers["Transfer-Encoding"] = "chunked"
            link.request(method, target, body=body, headers=headers, encode_chunked=chunked)
        except (BrokenPipeError, ConnectionResetError):
            # A server that refuses often responds and closes before all was sent: there may be a response.
            if link.sock is None:
                raise

    def give_back(self, origin: HttpOrigin, link: http.client.HTTPConnection) -> None:
        """Return a connection to the pool."""
        with self._lock:
            kept = self._kept.setdefault(origin, [])
            if len(kept) < _MAX_IDLE_CONNECTIONS:
                kept.append((time.monotonic(), link))
                return
        link.close()

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            kept, self._kept = self._kept, {}
        for links in kept.values():
            for _, link in links:
                link.close()

    def _take_kept(self, origin: HttpOrigin) -> http.client.HTTPConnection | None:
        while True:
            with self._lock:
                kept = self._kept.get(origin)
                if not kept:
                    return None
                since, link = kept.pop()
            if time.monotonic() - since < _MAX_IDLE_SECONDS and _is_quiet(link):
                return link
            link.close()

    def _open_new(self, origin: HttpOrigin) -> http.client.HTTPConnection:
        timeout = self._options.connect_timeout
        link: http.client.HTTPConnection
        if origin.scheme == "https":
            link = http.client.HTTPSConnection(
                origin.host, origin.port, timeout=timeout, context=self._create_tls_context()
            )
        else:
            link = http.client.HTTPConnection(origin.host, origin.port, timeout=timeout)
        try:
            link.connect()
        except OSError as error:
            link.close()
            raise _build_connect_error(origin, error) from error
        return link

    def _create_tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            import ssl  # 10 ms that a cluster without https does not pay for

            self._tls = ssl.create_default_context()
        return self._tls


def _is_quiet(link: http.client.HTTPConnection) -> bool:
    """Return True if an idle connection is still usable: readable data means that the server closed it."""
    if link.sock is None:
        return False
    poll = select.poll()
    poll.register(link.sock, select.POLLIN)
    return not poll.poll(0)


def _build_connect_error(origin: HttpOrigin, error: OSError) -> ConnectError:
    if isinstance(error, ConnectionRefusedError):
        return ConnectError(f"{origin} refuses connections: no process listens on that port", ConnectFailure.REFUSED)
    if isinstance(error, socket.gaierror):
        return ConnectError(f"{origin}: no such host ({error.strerror})", ConnectFailure.UNKNOWN_HOST)
    if isinstance(error, TimeoutError):
        return ConnectError(f"{origin} does not respond", ConnectFailure.TIMED_OUT)
    if type(error).__name__ == "SSLCertVerificationError":  # by name: without https that module is not loaded
        reason = escape_line(getattr(error, "verify_message", "") or str(error))
        return ConnectError(
            f"{origin}: its certificate is not trusted here: {reason}. SSL_CERT_FILE names a file with certificates of "
            "authorities to trust.",
            ConnectFailure.UNREACHABLE,
        )
    return ConnectError(f"{origin} cannot be reached: {escape_line(str(error))}", ConnectFailure.UNREACHABLE)


def _build_lost_error(origin: HttpOrigin, error: Exception) -> CallTimeoutError | ConnectionLostError:
    if isinstance(error, TimeoutError):
        return CallTimeoutError(f"{origin} did not respond in time")
    return ConnectionLostError(f"{origin} closed the connection ({escape_line(str(error)) or type(error).__name__})")


#: What `create` and `append` take. A stream is read from its position to its end, and can be sent only once.
Content = bytes | bytearray | memoryview | Path | BinaryIO

_PIECE = 128 * 2**10


class Pieces:
    """Content to send; repeatable unless it is a stream that cannot seek.

    Attributes:
        length: bytes; None if unknown before the end.
    """

    def __init__(self, content: Content) -> None:
        self._content = content
        self._start = 0
        self._sent = False
        self.length: int | None = None
        if isinstance(content, bytes | bytearray | memoryview):
            self.length = len(content) if not isinstance(content, memoryview) else content.nbytes
        elif isinstance(content, Path):
            self.length = content.stat().st_size
        elif content.seekable():
            self._start = content.tell()
            self.length = content.seek(0, os.SEEK_END) - self._start
            content.seek(self._start)

    @property
    def repeatable(self) -> bool:
        """Return True if `read` may be called (again)."""
        return not self._sent or self.length is not None

    def read(self) -> Iterator[bytes]:
        """Yield the pieces, from the start.

        Raises:
            StorageError: a file became shorter meanwhile.
        """
        self._sent = True
        content = self._content
        if isinstance(content, bytes | bytearray | memoryview):
            yield from _cut(io.BytesIO(content), self.length)
        elif isinstance(content, Path):
            with content.open("rb") as file:
                yield from _cut(file, self.length)
        else:
            if self.length is not None:
                content.seek(self._start)
            yield from _cut(content, self.length)


def _cut(stream: BinaryIO, length: int | None) -> Iterator[bytes]:
    """Yield exactly `length` bytes, ignoring what a file has grown meanwhile."""
    left = length
    while left is None or left > 0:
        piece = stream.read(_PIECE if left is None else min(_PIECE, left))
        if not piece:
            break
        if left is not None:
            left -= len(piece)
        yield piece
    if left:
        name = getattr(stream, "name", "what was to be sent")
        raise StorageError(f"{name} became {left} bytes shorter while it was being sent to HDFS")

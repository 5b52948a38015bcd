"""An HTTP client for WebHDFS: connection reuse, bounded responses, tony's errors. Blocking and thread-safe.

The error tells whether a request may be repeated: after `ConnectError` nothing was sent; after `ConnectionLostError`
and `CallTimeoutError` it may have been executed.
"""

from __future__ import annotations

import http.client
import io
import select
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tony.address import format_host
from tony.control_characters import escape_line
from tony.errors import StorageError
from tony.hadoop.errors import CallTimeoutError, ConnectError, ConnectFailure, ConnectionLostError, IpcProtocolError

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
    """Timeouts of a connection.

    Attributes:
        connect_timeout: seconds to establish the connection.
        timeout: seconds to wait for data.
    """

    connect_timeout: float = 10.0
    timeout: float = 60.0


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
    """A response whose head was received; its body is read once, by `read_body` or by `read` and `close`."""

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
            ConnectionLostError: it ended before its announced length.
            CallTimeoutError: no data arrived in time.
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
        """Return the whole body; the connection is kept if the server keeps it.

        Raises:
            IpcProtocolError: more than `MAX_RESPONSE_BYTES`.
            ConnectionLostError, CallTimeoutError: see `read`.
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
        """Keep the connection for further requests if the body was read, else close it. May be called twice."""
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
        self._tls: ssl.SSLContext | None = None

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
            body: pieces; the headers must have their Content-Length.
            timeout: seconds until the response must have begun; by default that of the options.

        Raises:
            ConnectError: no connection; nothing was sent.
            ConnectionLostError: the connection broke; the request may have been carried out.
            CallTimeoutError: no answer in time; likewise.
        """
        link = self._take_kept(origin) or self._open_new(origin)
        try:
            link.sock.settimeout(self._options.timeout if timeout is None else timeout)
            try:
                link.request(method, target, body, headers or {})
            except (BrokenPipeError, ConnectionResetError):
                # A server that refuses often responds and closes before all was sent: there may be a response.
                if body is None or link.sock is None:
                    raise
            return HttpResponse(self, origin, link)
        except (OSError, http.client.HTTPException) as error:
            link.close()
            raise _build_lost_error(origin, error) from error
        except BaseException:
            link.close()
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
            import ssl  # late: 10 ms that a cluster without https does not pay for

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


#: What `create` and `append` take.
Content = bytes | memoryview | Path

_PIECE = 128 * 2**10


def measure_content(content: Content) -> int:
    """Return the number of bytes to send."""
    return content.stat().st_size if isinstance(content, Path) else memoryview(content).nbytes


def read_pieces(content: Content, length: int, on_piece: Callable[[], object] = lambda: None) -> Iterator[bytes]:
    """Yield exactly `length` bytes in pieces, ignoring what a file has grown meanwhile.

    Args:
        on_piece: called before each piece; may raise an error.

    Raises:
        StorageError: a file became shorter meanwhile.
    """
    with content.open("rb") if isinstance(content, Path) else io.BytesIO(content) as stream:
        while length and (piece := stream.read(min(_PIECE, length))):
            length -= len(piece)
            on_piece()
            yield piece
    if length:
        name = content if isinstance(content, Path) else "the content"
        raise StorageError(f"{name} became {length} bytes shorter while it was being sent to HDFS")

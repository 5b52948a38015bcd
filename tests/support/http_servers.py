"""HTTP servers of tests, each in a thread of its own."""

from __future__ import annotations

import ssl
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import ClassVar, Self


class QuietHandler:
    """For handlers that log nothing, and answer at once, before `BaseHTTPRequestHandler`."""

    disable_nagle_algorithm: ClassVar[bool] = True  # or each answer waits 40 ms for a delayed acknowledgement

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class LocalServer(ThreadingHTTPServer):
    """A server at a free port of 127.0.0.1. A context manager: it serves meanwhile."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)

    @property
    def host_and_port(self) -> str:
        """Where it listens, `host:port`."""
        return f"127.0.0.1:{self.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore disconnected clients; report any other error."""
        if not isinstance(sys.exception(), ConnectionError | ssl.SSLError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


@contextmanager
def webhook(*statuses: int) -> Iterator[tuple[str, Sequence[tuple[Mapping[str, str], bytes]]]]:
    """Yield the URL of a server that takes notices, and headers and body of each so far.

    Args:
        statuses: of the first answers; later ones are 200.
    """
    notices: list[tuple[Mapping[str, str], bytes]] = []

    class Handler(QuietHandler, BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            notices.append((dict(self.headers), self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(statuses[len(notices) - 1] if len(notices) <= len(statuses) else 200)
            self.end_headers()

    with LocalServer(Handler) as server:
        yield f"http://{server.host_and_port}", notices

"""An HTTP server whose answers a test writes down, and that keeps what it was asked."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.http_servers import QuietHandler


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request that arrived."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer.

    Attributes:
        lines: of a stream, instead of the body: objects, or bytes that are sent unchanged.
        is_lost: the connection ends instead.
        is_cut: the connection ends in the middle of the body.
    """

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    lines: Iterable[Any] | None = None
    is_lost: bool = False
    is_cut: bool = False


class ScriptedServer:
    """Gives one answer after the other; the last one again and again.

    Attributes:
        requests: those that arrived.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.answers: list[Answer] = []
        self.answer: Callable[[Request], Answer] = lambda _: (
            self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        )
        outer = self

        class Handler(QuietHandler, BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                request = Request(method=self.command, target=self.path, headers=dict(self.headers), body=body)
                outer.requests.append(request)
                answer = outer.answer(request)
                if answer.is_lost:
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                if answer.lines is None:
                    data = json.dumps(answer.body).encode()
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data[: len(data) // 2] if answer.is_cut else data)
                    self.close_connection |= answer.is_cut
                    return
                self.send_header("Connection", "close")
                self.close_connection = True
                self.end_headers()
                with contextlib.suppress(OSError):  # the client has gone
                    for line in answer.lines:
                        self.wfile.write(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")

            do_GET = do_POST = do_PATCH = do_DELETE = handle_any  # noqa: N815

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    @contextmanager
    def serve(self) -> Iterator[ScriptedServer]:
        """Serve until the block ends."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

"""A fake of a NodeManager's web interface for logs, with files in memory that may grow while they are read.

The responses were recorded from Hadoop 3.4.2.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.http_servers import LocalServer, QuietHandler

_UNKNOWN = (
    "java.lang.Exception: Unknown container. Container either has not started or has already completed or doesn't"
    " belong to this node at all."
)
_NO_FILE = "java.lang.Exception: Cannot find this log on the local disk."
_PIECE = 16 * 2**10


class FakeNodeWeb:
    """The web interface of one NodeManager.

    Attributes:
        containers: container -> log file -> content.
        answer: called with each path; returns status, headers and body to respond with instead, or None.
        before: called before each response with a log's content, so that files can grow between two requests.
        queries: the query of each request.
        cut: bytes of a log response after which the connection is closed; None for never.
    """

    def __init__(self) -> None:
        self.containers: dict[str, dict[str, bytes]] = {}
        self.answer: Callable[[str], tuple[int, dict[str, str], bytes] | None] = lambda path: None
        self.before: Callable[[], None] = lambda: None
        self.queries: list[dict[str, list[str]]] = []
        self.cut: int | None = None
        self._server = _Server(_Handler)
        self._server.node = self

    @property
    def url(self) -> str:
        """The URL of the web interface."""
        return f"http://{self._server.host_and_port}"

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.__exit__(None, None, None)


class _Server(LocalServer):
    node: FakeNodeWeb


class _Handler(QuietHandler, BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server
    timeout = 30
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        node = self.server.node
        parts = urlsplit(self.path)
        query = parse_qs(parts.query)
        node.queries.append(query)
        other = node.answer(parts.path)
        if other is not None:
            self._reply(*other)
            return
        names = [unquote(name) for name in parts.path.split("/")[5:]]  # /ws/v1/node/containers/{id}/logs[/{file}]
        files = node.containers.get(names[0])
        if files is None:
            self._unknown(len(names) == 2)
        elif len(names) == 2:
            self._list(names[0], files)
        elif names[2] not in files:
            self._reply(404, {}, _NO_FILE.encode())
        else:
            self._log(names[0], names[2], query)

    def _unknown(self, listing: bool) -> None:
        if not listing:
            self._reply(404, {}, _UNKNOWN.encode())
            return
        told = {"exception": "WebApplicationException", "message": f"org.apache.hadoop...NotFoundException: {_UNKNOWN}"}
        self._reply(503, {}, json.dumps({"RemoteException": told}).encode())

    def _list(self, container: str, files: dict[str, bytes]) -> None:
        infos: Any = [{"fileName": name, "fileSize": str(len(data))} for name, data in files.items()]
        info = {"containerLogInfo": infos, "logAggregationType": "LOCAL", "containerId": container}
        self._reply(200, {}, json.dumps({"containerLogsInfo": info}).encode())

    def _log(self, container: str, name: str, query: dict[str, list[str]]) -> None:
        self.server.node.before()
        data = self.server.node.containers[container][name]
        size = int(query["size"][0]) if "size" in query else len(data)
        part = data[len(data) + size if len(data) + size > 0 else 0 :] if size < 0 else data[:size]
        part = b"" if size == 0 else part
        head = (
            f"Container: {container} on localhost:1\nLogAggregationType: LOCAL\n{'=' * 68}\n"
            f"LogType:{name}\nLogLastModifiedTime:Sat Nov 21 15:08:54 +0000 2026\nLogLength:{len(data)}\nLogContents:\n"
        )
        foot = f"End of LogType:{name}.This log file belongs to a running container.\n{'*' * 70}\n\n"
        self._reply_in_chunks(head.encode() + part + foot.encode(), self.server.node.cut)

    def _reply_in_chunks(self, body: bytes, cut: int | None) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for at in range(0, len(body), _PIECE):
            if cut is not None and at >= cut:
                self.close_connection = True
                return
            piece = body[at : at + _PIECE]
            try:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            except OSError:  # the client has closed the connection
                self.close_connection = True
                return
        self.wfile.write(b"0\r\n\r\n")

    def _reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

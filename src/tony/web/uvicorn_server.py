"""Run an ASGI application in uvicorn as a library, with tony's own signals, logging, sockets and limits."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from tony.linux.resource_limits import allow_open_files

#: Time in which a complete request must arrive.
_REQUEST_TIMEOUT_SECONDS = 15.0
#: Time after which a client that reads nothing of a response is disconnected.
_WRITE_TIMEOUT_SECONDS = 60.0
#: Maximum bytes of the request line and headers together, and maximum number of headers.
_MAX_HEAD_BYTES = 32 << 10
_MAX_HEADERS = 200
#: Maximum concurrent connections, if the limit of open files allows, and open files reserved for other uses.
_MAX_CONNECTIONS = 4000
_OTHER_FILES = 500
_REFUSED = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
#: Key in `scope` of the result of `identify_peer`.
PEER = "tony.peer"

#: Called for each accepted connection; its result is kept with the connection.
IdentifyPeer = Callable[[socket.socket], object]


def listen(host: str, port: int, backlog: int = 512) -> socket.socket:
    """Return a listening socket.

    Raises:
        OSError: the port is in use, or needs privileges.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol must be explicit: otherwise asyncio leaves Nagle's algorithm on, and each response takes 40 ms.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind((host, port))
        made.listen(backlog)
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made


class UvicornServer(uvicorn.Server):
    """A uvicorn server that leaves signal handling to its caller."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def end(self) -> None:
        """Make `serve` return once pending responses are sent, or after a second."""
        self.should_exit = True


def create_server(
    app: ASGIApp, identify_peer: IdentifyPeer | None = None, tls: ssl.SSLContext | None = None
) -> UvicornServer:
    """Return a server of an application, to run with `await server.serve(sockets=[...])`.

    Args:
        identify_peer: called for each accepted connection; its result becomes `scope[PEER]`.
        tls: TLS context, for HTTPS.
    """
    connections = Connections(allow_open_files(_MAX_CONNECTIONS + _OTHER_FILES))
    config = uvicorn.Config(
        app,
        http=_create_protocol(identify_peer, connections),
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=1,
        h11_max_incomplete_event_size=_MAX_HEAD_BYTES,
    )
    config.load()
    config.ssl = tls
    return UvicornServer(config)


async def serve(
    app: ASGIApp,
    sockets: Sequence[socket.socket],
    identify_peer: IdentifyPeer | None = None,
    tls: ssl.SSLContext | None = None,
) -> None:
    """Serve an application until cancelled."""
    made = create_server(app, identify_peer, tls)
    task = asyncio.ensure_future(made.serve(sockets=list(sockets)))
    try:
        await asyncio.shield(task)
    finally:
        made.end()
        with contextlib.suppress(asyncio.CancelledError):
            await task


class Connections:
    """The connections of a server. At a limit, the connection is dropped that has been silent for the longest time.

    A silent connection has not sent a complete request yet. A peer is a user of this machine, or an IP address.

    Args:
        open_files: maximum number of open files of this process.

    Attributes:
        most: maximum number of connections.
        most_of_one: maximum per peer.
        most_silent: maximum number of silent connections.
        most_silent_of_one: maximum number of silent connections per peer.
    """

    def __init__(self, open_files: int) -> None:
        self.most = min(_MAX_CONNECTIONS, max(open_files - _OTHER_FILES, open_files // 2))
        self.most_of_one = self.most_silent = self.most // 2
        self.most_silent_of_one = self.most // 4
        self._peers: dict[asyncio.Transport, str] = {}
        self._silent: dict[asyncio.Transport, str] = {}
        self._of: Counter[str] = Counter()
        self._silent_of: Counter[str] = Counter()

    def add(self, transport: asyncio.Transport, peer: str) -> None:
        """Add a connection; drop a silent one if a limit is exceeded."""
        self._peers[transport] = self._silent[transport] = peer
        self._of[peer] += 1
        self._silent_of[peer] += 1
        if self._of[peer] > self.most_of_one or self._silent_of[peer] > self.most_silent_of_one:
            self._drop(next(each for each, owner in self._silent.items() if owner == peer))
        elif len(self._peers) > self.most or len(self._silent) > self.most_silent:
            self._drop(next(iter(self._silent)))

    def note_request(self, transport: asyncio.Transport) -> None:
        """Record that a connection has sent a complete request."""
        if (peer := self._silent.pop(transport, None)) is not None:
            _decrease(self._silent_of, peer)

    def remove(self, transport: asyncio.Transport) -> None:
        """Remove a closed connection."""
        self.note_request(transport)
        if (peer := self._peers.pop(transport, None)) is not None:
            _decrease(self._of, peer)

    def _drop(self, transport: asyncio.Transport) -> None:
        self.remove(transport)
        transport.abort()


def _decrease(counts: Counter[str], key: str) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


def _create_protocol(identify_peer: IdentifyPeer | None, connections: Connections) -> type[H11Protocol]:
    class Protocol(H11Protocol):
        """HTTP/1.1 with a deadline for slow requests and responses, and a limit of connections."""

        _timer: asyncio.TimerHandle | None = None
        _write_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            peer = identify_peer(transport.get_extra_info("socket")) if identify_peer else None
            # All users of this machine have the same address.
            connections.add(transport, f"user {peer}" if peer is not None else self.client[0] if self.client else "")
            self.app = _with_peer(self.app, peer)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            connections.remove(self.transport)
            self._unwatch()
            self._stop_write_timer()
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            # A client that does not read its response keeps it in memory, and a file or a thread in use.
            super().pause_writing()
            self._stop_write_timer()
            self._write_timer = asyncio.get_running_loop().call_later(_WRITE_TIMEOUT_SECONDS, self.transport.abort)

        def resume_writing(self) -> None:
            self._stop_write_timer()
            super().resume_writing()

        def _stop_write_timer(self) -> None:
            if self._write_timer is not None:
                self._write_timer.cancel()
                self._write_timer = None

        def data_received(self, data: bytes) -> None:
            if self._timer is None and self.conn.their_state is h11.IDLE:
                self._watch()
            super().data_received(data)
            self._unwatch_if_whole()

        def handle_events(self) -> None:
            super().handle_events()
            self._unwatch_if_whole()

        def _watch(self) -> None:
            self._timer = asyncio.get_running_loop().call_later(_REQUEST_TIMEOUT_SECONDS, self.transport.abort)

        def _unwatch(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _unwatch_if_whole(self) -> None:
            if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
                self._unwatch()
                connections.note_request(self.transport)

    return Protocol


def _is_too_long(scope: Scope) -> bool:
    """Check the size of a request's head: h11 limits only requests that arrive in several pieces."""
    headers = scope["headers"]
    size = len(scope["raw_path"]) + len(scope["query_string"])
    return len(headers) > _MAX_HEADERS or size + sum(len(n) + len(v) + 4 for n, v in headers) > _MAX_HEAD_BYTES


def _with_peer(app: Any, peer: object) -> ASGIApp:
    async def run(scope: Scope, receive: Receive, send: Send) -> None:
        scope[PEER] = peer
        if _is_too_long(scope):
            await send({"type": "http.response.start", "status": 431, "headers": _REFUSED})
            await send({"type": "http.response.body", "body": b"The request line and headers are too long."})
            return
        await app(scope, receive, send)

    return run

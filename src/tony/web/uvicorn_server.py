"""Runs an ASGI application in uvicorn, as a library: signals, logging and sockets stay ours."""

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

from tony.linux.open_file_limit import allow_open_files

#: Seconds in which a request must be there as a whole, and after which something of an answer must have been taken.
_SLOW, _UNREAD = 15.0, 60.0
#: Bytes of its first line and headers together, and headers.
_LONGEST_HEAD, _MOST_HEADERS = 32 << 10, 200
#: Connections at one time, as far as this process may have so many open files, and open files that it needs besides.
_MOST_CONNECTIONS = 4000
_OTHER_FILES = 500
_REFUSED = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
#: Under this name `scope` has what `look_at` found out about who connected.
PEER = "tony.peer"

#: Looks at a connection when it is accepted; what it answers is kept with the connection.
LookAt = Callable[[socket.socket], object]


def listen(host: str, port: int, backlog: int = 512) -> socket.socket:
    """A socket that listens.

    Raises:
        OSError: the port is taken, or not ours to take.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Said outright: without its protocol asyncio leaves Nagle's algorithm on, and each answer takes 40 ms.
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
    """Leaves signals to whoever runs it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Takes none."""
        yield

    def end(self) -> None:
        """Has `serve` return, once what is being answered is answered, or a second later."""
        self.should_exit = True


def server(app: ASGIApp, look_at: LookAt | None = None, tls: ssl.SSLContext | None = None) -> UvicornServer:
    """What serves an application; run `await server.serve(sockets=[...])`.

    Args:
        look_at: asked about each connection when it is accepted; its answer is `scope[PEER]`.
        tls: for https.
    """
    connections = Connections(allow_open_files(_MOST_CONNECTIONS + _OTHER_FILES))
    config = uvicorn.Config(
        app,
        http=_protocol(look_at, connections),
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=1,
        h11_max_incomplete_event_size=_LONGEST_HEAD,
    )
    config.load()
    config.ssl = tls
    return UvicornServer(config)


async def serve(
    app: ASGIApp,
    sockets: Sequence[socket.socket],
    look_at: LookAt | None = None,
    tls: ssl.SSLContext | None = None,
) -> None:
    """Serves until it is cancelled."""
    made = server(app, look_at, tls)
    task = asyncio.ensure_future(made.serve(sockets=list(sockets)))
    try:
        await asyncio.shield(task)
    finally:
        made.end()
        with contextlib.suppress(asyncio.CancelledError):
            await task


class Connections:
    """All connections of a server. Where there is no room, the one goes that has been silent for the longest time.

    Args:
        open_files: that this process may have.

    Attributes:
        most, most_of_one: connections at one time, and those of one peer: a user of this machine, or an address.
        most_silent, most_silent_of_one: of these, connections that have not sent one whole request.
    """

    def __init__(self, open_files: int) -> None:
        self.most = min(_MOST_CONNECTIONS, max(open_files - _OTHER_FILES, open_files // 2))
        self.most_of_one = self.most_silent = self.most // 2
        self.most_silent_of_one = self.most // 4
        self._peers: dict[asyncio.Transport, str] = {}
        self._silent: dict[asyncio.Transport, str] = {}
        self._of: Counter[str] = Counter()
        self._silent_of: Counter[str] = Counter()

    def add(self, transport: asyncio.Transport, peer: str) -> None:
        """Take in a new connection, in the place of a silent one if there is no room."""
        self._peers[transport] = self._silent[transport] = peer
        self._of[peer] += 1
        self._silent_of[peer] += 1
        if self._of[peer] > self.most_of_one or self._silent_of[peer] > self.most_silent_of_one:
            self._drop(next(each for each, whose in self._silent.items() if whose == peer))
        elif len(self._peers) > self.most or len(self._silent) > self.most_silent:
            self._drop(next(iter(self._silent)))

    def note_request(self, transport: asyncio.Transport) -> None:
        """Note that a connection has sent a whole request."""
        if (peer := self._silent.pop(transport, None)) is not None:
            _decrease(self._silent_of, peer)

    def remove(self, transport: asyncio.Transport) -> None:
        """Forget a connection that has ended."""
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


def _protocol(look_at: LookAt | None, connections: Connections) -> type[H11Protocol]:
    class Protocol(H11Protocol):
        """With a deadline for requests that come slowly, a bound of their heads, and a count of connections."""

        _timer: asyncio.TimerHandle | None = None
        _unread: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            peer = look_at(transport.get_extra_info("socket")) if look_at else None
            # On this machine all users have the same address.
            connections.add(transport, f"user {peer}" if peer is not None else self.client[0] if self.client else "")
            self.app = _with_peer(self.app, peer)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            connections.remove(self.transport)
            self._unwatch()
            self._taken()
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            # Who takes nothing of an answer holds it in memory, and a file or a thread besides.
            super().pause_writing()
            self._taken()
            self._unread = asyncio.get_running_loop().call_later(_UNREAD, self.transport.abort)

        def resume_writing(self) -> None:
            self._taken()
            super().resume_writing()

        def _taken(self) -> None:
            if self._unread is not None:
                self._unread.cancel()
                self._unread = None

        def data_received(self, data: bytes) -> None:
            if self._timer is None and self.conn.their_state is h11.IDLE:
                self._watch()
            super().data_received(data)
            self._unwatch_if_whole()

        def handle_events(self) -> None:
            super().handle_events()
            self._unwatch_if_whole()

        def _watch(self) -> None:
            self._timer = asyncio.get_running_loop().call_later(_SLOW, self.transport.abort)

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
    """Counted again: h11 takes what came in one piece, however long."""
    headers = scope["headers"]
    size = len(scope["raw_path"]) + len(scope["query_string"])
    return len(headers) > _MOST_HEADERS or size + sum(len(n) + len(v) + 4 for n, v in headers) > _LONGEST_HEAD


def _with_peer(app: Any, peer: object) -> ASGIApp:
    async def run(scope: Scope, receive: Receive, send: Send) -> None:
        scope[PEER] = peer
        if _is_too_long(scope):
            await send({"type": "http.response.start", "status": 431, "headers": _REFUSED})
            await send({"type": "http.response.body", "body": b"Your request has more headers than anybody needs."})
            return
        await app(scope, receive, send)

    return run

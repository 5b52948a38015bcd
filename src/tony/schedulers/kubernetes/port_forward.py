"""Connections from the client's machine to a port of a pod, through the API server: a WebSocket for each.

Protocol `v4.channel.k8s.io`: the first byte of each binary message is its channel, 0 for data and 1 for errors; the
first message of each channel has the port, as two bytes, low one first. Source: k8s.io/cri-streaming v0.36.
"""

from __future__ import annotations

import contextlib
import logging
import select
import socket
import ssl
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlencode, urlsplit

from tony.kube.api_client import ApiClient
from tony.kube.errors import UnreachableError, build_api_error
from tony.kube.resources import PODS
from tony.model.strict_json import InvalidJsonError, loads

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

_PROTOCOL = "v4.channel.k8s.io"
_DATA, _ERROR = 0, 1
_READ_BYTES = 1 << 16
_MAX_MESSAGE_BYTES = 1 << 22
#: Seconds between two pings: some API servers end idle connections after four minutes.
_PING_SECONDS = 30.0
_log = logging.getLogger(__name__)


class _SerialSocket:
    """A socket that one thread reads and another one writes, with one call at a time.

    OpenSSL does not allow two calls at once on a connection, and Python below 3.13 does not keep threads from that: one
    in a hundred requests got no answer, since it was sent while a session ticket was being read.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock, self._lock = sock, threading.Lock()

    def recv(self, size: int) -> bytes:
        return bytes(self._repeat(lambda: self._sock.recv(size), select.POLLIN))

    def sendall(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self._repeat(partial(self._sock.send, rest), select.POLLOUT) :]

    def settimeout(self, seconds: float | None) -> None:
        """Change nothing: both directions wait for as long as it takes."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def _repeat(self, call: Callable[[], Any], ready: int) -> Any:
        while True:
            awaited = ready
            with self._lock:
                try:
                    return call()
                except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
                    if isinstance(error, ssl.SSLWantReadError):
                        awaited = select.POLLIN
                number = self._sock.fileno()
            if number < 0:
                raise OSError("the socket was closed")
            poll = select.poll()
            poll.register(number, awaited)
            poll.poll()


def forward_port(client: ApiClient, pod: str, port: int) -> socket.socket:
    """Return a connected, non-blocking socket that leads to a port of a pod. Threads copy until either side closes.

    Raises:
        KubeError: the pod cannot be reached.
    """
    stream = _connect(client, pod, port)
    local_end, remote_end = socket.socketpair()
    for copy in (_copy_to_pod, _copy_from_pod):
        threading.Thread(target=copy, args=(stream, remote_end), name="port-forward", daemon=True).start()
    local_end.setblocking(False)
    return local_end


def _connect(client: ApiClient, pod: str, port: int) -> ClientConnection:
    from websockets.exceptions import InvalidStatus, WebSocketException  # late: only clients have this library
    from websockets.sync.client import connect
    from websockets.typing import Subprotocol

    plain, headers = client.open_socket()
    sock = _SerialSocket(plain)
    server = urlsplit(client.access.server)
    path = f"{server.path.rstrip('/')}{PODS.build_path(client.namespace, pod, 'portforward')}"
    what = f"forward port {port} of pods/{pod}"
    try:
        # `ws`, not `wss`: the socket encrypts already.
        return contextlib.ExitStack().enter_context(
            connect(
                f"ws://{server.netloc}{path}?{urlencode({'ports': port})}",
                sock=cast(socket.socket, sock),
                subprotocols=[Subprotocol(_PROTOCOL)],
                additional_headers=headers,
                compression=None,
                max_size=_MAX_MESSAGE_BYTES,
                ping_interval=_PING_SECONDS,
                logger=logging.Logger(__name__, logging.CRITICAL),  # it logs broken connections with a traceback
            )
        )
    except InvalidStatus as error:
        sock.close()
        if error.response.status_code == 401:
            client.access.credentials.forget()
        raise build_api_error(what, error.response.status_code, _parse_answer(error.response.body or b"")) from None
    except (WebSocketException, OSError, EOFError, ValueError) as error:  # ValueError: a redirect
        sock.close()
        raise UnreachableError(f"{what}: {error}") from None


def _parse_answer(body: bytes | bytearray) -> object:
    """Return the `Status` of a refusal, or the text of a proxy."""
    try:
        return loads(bytes(body))
    except InvalidJsonError:
        return {"message": body.decode(errors="replace")}


def _copy_to_pod(stream: ClientConnection, remote_end: socket.socket) -> None:
    from websockets.exceptions import ConnectionClosed

    with contextlib.suppress(OSError, ConnectionClosed):
        while data := remote_end.recv(_READ_BYTES):
            stream.send(bytes([_DATA]) + data)
    stream.close()


def _copy_from_pod(stream: ClientConnection, remote_end: socket.socket) -> None:
    from websockets.exceptions import ConnectionClosed

    announced: set[int] = set()
    with contextlib.suppress(OSError, ConnectionClosed):
        for message in stream:
            if not isinstance(message, bytes) or not message:
                continue
            channel, data = message[0], message[1:]
            if channel not in announced:  # the port
                announced.add(channel)
            elif channel == _ERROR:
                _log.info("port-forward ended: %s", data[:300].decode(errors="replace"))
                break
            elif channel == _DATA:
                remote_end.sendall(data)
    with contextlib.suppress(OSError):
        remote_end.shutdown(socket.SHUT_RDWR)
    remote_end.close()
    stream.close()

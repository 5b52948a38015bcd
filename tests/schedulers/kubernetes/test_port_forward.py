"""Bytes pass through a WebSocket as the API server frames them, in both directions, until either side closes."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from websockets.sync.server import ServerConnection, serve
from websockets.typing import Subprotocol

from tony.kube.api_client import ApiClient
from tony.kube.cluster_access import ClusterAccess
from tony.kube.errors import KubeApiError, UnreachableError
from tony.schedulers.kubernetes.port_forward import forward_port

REFUSAL = 'pods "am" is forbidden: User "ann" cannot create resource "pods/portforward"'
PROTOCOL = Subprotocol("v4.channel.k8s.io")


def _echo(stream: ServerConnection) -> None:
    assert stream.request
    assert stream.request.path == "/api/v1/namespaces/ml/pods/am/portforward?ports=7070"
    for channel in (0, 1):
        stream.send(bytes([channel]) + (7070).to_bytes(2, "little"))
    for message in stream:
        assert isinstance(message, bytes)
        assert message[:1] == b"\0"
        stream.send(message)


@contextmanager
def run_server(handler: Callable[[ServerConnection], None] = _echo, **options: Any) -> Iterator[int]:
    """Run an API server; yield its port."""
    with serve(handler, "127.0.0.1", 0, **options) as found:
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        yield found.socket.getsockname()[1]
        found.shutdown()
        thread.join()


def create_client(port: int) -> ApiClient:
    return ApiClient(ClusterAccess(server=f"http://127.0.0.1:{port}", namespace="ml"), give_up_seconds=0)


def test_bytes_pass_in_both_directions() -> None:
    with run_server(subprotocols=[PROTOCOL]) as port, forward_port(create_client(port), "am", 7070) as found:
        found.settimeout(60)
        data = bytes(range(256)) * 1000
        threading.Thread(target=found.sendall, args=(data,)).start()
        received = b""
        while len(received) < len(data):
            received += found.recv(1 << 16)
        assert received == data


def test_a_connection_that_is_cut_ends_for_the_client() -> None:
    """After the bytes that have arrived."""

    def cut(stream: ServerConnection) -> None:
        for channel in (0, 1):
            stream.send(bytes([channel]) + (7070).to_bytes(2, "little"))
        stream.send(b"\0" + b"x" * 1000)
        stream.socket.shutdown(socket.SHUT_RDWR)

    with run_server(cut, subprotocols=[PROTOCOL]) as port, forward_port(create_client(port), "am", 7070) as found:
        found.settimeout(60)
        assert b"".join(iter(lambda: found.recv(1 << 16), b"")) == b"x" * 1000


@pytest.mark.parametrize("text", [REFUSAL, json.dumps({"kind": "Status", "message": REFUSAL, "reason": "Forbidden"})])
def test_a_refusal_has_the_words_of_the_server(text: str) -> None:
    def refuse(connection: ServerConnection, request: object) -> object:
        return connection.respond(403, text)

    with run_server(process_request=refuse) as port, pytest.raises(KubeApiError) as caught:
        forward_port(create_client(port), "am", 7070)
    assert str(caught.value) == f"forward port 7070 of pods/am: {REFUSAL}"
    assert caught.value.is_denied


def test_a_redirect_is_not_followed() -> None:
    """It is that of a proxy which wants a login."""

    def redirect(connection: ServerConnection, request: object) -> object:
        answer = connection.respond(302, "")
        answer.headers["Location"] = "https://login.example.com/"
        return answer

    with run_server(process_request=redirect) as port, pytest.raises(UnreachableError):
        forward_port(create_client(port), "am", 7070)


def test_a_server_that_is_not_there_is_named() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        with pytest.raises(UnreachableError, match="refuses connections"):
            forward_port(create_client(sock.getsockname()[1]), "am", 7070)

"""Who listens on a port: the kernel's two ways of telling agree."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from tony.linux import listening_sockets
from tony.linux.listening_sockets import list_listening_inodes


@pytest.fixture(params=["netlink", "tables"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The usual way, and that of a kernel which refuses the usual one."""
    if request.param == "tables":
        monkeypatch.setattr(listening_sockets, "_NETLINK_SOCK_DIAG", 31)  # a protocol that no kernel has
    return str(request.param)


@pytest.fixture(params=[(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"), (socket.AF_INET6, "::")])
def server(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    """A socket with a port, which does not listen yet."""
    family, address = request.param
    try:
        made = socket.create_server((address, 0), family=family)
    except OSError:
        pytest.skip("no IPv6 here")
    with made:
        port = made.getsockname()[1]
    with socket.socket(family) as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((address, port))
        yield bound


def test_only_listening_sockets_are_listed(way: str, server: socket.socket) -> None:
    """A bound socket is not listening; a connection to the port is not either."""
    port = server.getsockname()[1]
    assert list_listening_inodes(port) == {}
    server.listen()
    inode = os.fstat(server.fileno()).st_ino
    assert list_listening_inodes(port) == {inode: os.getuid()}
    with socket.create_connection(server.getsockname()[:2], timeout=10):
        assert list_listening_inodes(port) == {inode: os.getuid()}


def test_several_listen_on_one_port(way: str) -> None:
    """Each of those that share a port is told."""
    servers = [socket.socket() for _ in range(3)]
    try:
        port = 0
        for each in servers:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            each.bind(("127.0.0.1", port))
            each.listen()
            port = each.getsockname()[1]
        assert list_listening_inodes(port) == {os.fstat(each.fileno()).st_ino: os.getuid() for each in servers}
    finally:
        for each in servers:
            each.close()

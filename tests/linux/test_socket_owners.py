"""Users of sockets: who listens on a port, by both ways that the kernel has to tell, and who is at the other end."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tony.linux import socket_owners
from tony.linux.socket_owners import is_ours, list_listening_inodes, peer_uid


@pytest.fixture(params=["netlink", "tables"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The usual way, and that of a kernel which refuses the usual one."""
    if request.param == "tables":
        monkeypatch.setattr(socket_owners, "_NETLINK_SOCK_DIAG", 31)  # a protocol that no kernel has
    return str(request.param)


@pytest.fixture(params=[(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"), (socket.AF_INET6, "::")])
def server(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    """A socket with a port, which does not listen yet."""
    family, address = request.param
    try:
        bound = socket.socket(family)
    except OSError:
        pytest.skip("no IPv6 here")
    with bound:
        try:
            bound.bind((address, 0))
        except OSError:
            pytest.skip("no IPv6 here")
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


#: Some user that is not us.
OTHER_USER = 12345


@contextmanager
def accepted(family: int, host: str, target: str | None = None) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection, ours and the accepted one."""
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.bind((host, 0))
        listener.listen()
        client = socket.create_connection((target or host, listener.getsockname()[1]))
        with client:
            served, _ = listener.accept()
            with served:
                yield client, served


@pytest.mark.parametrize(
    ("family", "host", "target"),
    [
        (socket.AF_INET, "127.0.0.1", None),
        (socket.AF_INET, "127.0.0.1", "::ffff:127.0.0.1"),
        (socket.AF_INET6, "::1", None),
    ],
)
def test_the_user_of_a_loopback_peer(family: int, host: str, target: str | None) -> None:
    """It is ours, also when it came by the other family's name of the same address."""
    with accepted(family, host, target) as (_, served):
        assert peer_uid(served) == os.geteuid()


def test_a_peer_that_half_closed_is_still_known() -> None:
    """A client that has sent everything and waits for the answer still has a process."""
    with accepted(socket.AF_INET, "127.0.0.1") as (client, served):
        client.shutdown(socket.SHUT_WR)
        assert served.recv(1) == b""
        assert peer_uid(served) == os.geteuid()


def test_a_disconnected_peer_has_no_credentials() -> None:
    """The kernel reports root's."""
    with accepted(socket.AF_INET, "127.0.0.1") as (client, served):
        client.close()
        assert served.recv(1) == b""
        assert peer_uid(served) is None


def test_a_socket_file_has_credentials() -> None:
    """Of Unix sockets the kernel says it without being asked twice."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert peer_uid(ours) == os.geteuid()


def test_an_unconnected_socket_has_no_peer() -> None:
    with socket.socket() as alone:
        assert peer_uid(alone) is None


def test_another_users_process() -> None:
    """Its own user is told, and it is not ours."""
    if os.geteuid() != 0:
        assert not is_ours(OTHER_USER)
        return
    code = (
        # By `connect` alone: nothing is imported as that user, who may not enter the folder where Python is.
        f"import os, socket, sys; os.setuid({OTHER_USER}); s = socket.socket(); "
        "s.connect(('127.0.0.1', int(sys.argv[1]))); print('there', flush=True); s.recv(1)"
    )
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.settimeout(60)
        command = [sys.executable, "-I", "-S", "-c", code, str(listener.getsockname()[1])]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            served, _ = listener.accept()
            with served:
                assert process.stdout is not None
                assert process.stdout.readline() == "there\n"
                uid = peer_uid(served)
            assert process.wait(60) == 0
    assert (uid, is_ours(uid)) == (OTHER_USER, False)


def test_root_and_we_are_ours() -> None:
    """No other uid, and not a peer whose uid is unknown."""
    assert [is_ours(uid) for uid in (0, os.geteuid(), None)] == [True, True, False]

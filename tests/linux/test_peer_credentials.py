"""Whose process is at the other end."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tony.linux.peer_credentials import is_ours, peer_uid

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

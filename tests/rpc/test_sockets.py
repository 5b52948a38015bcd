"""Socket files: their mode, their path, what lies in their place, and who is at the other end."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import struct
from pathlib import Path
from typing import Any, cast

import pytest

from tests.rpc.recording_server import JOB, QUESTION, Diary, Place, connected, serving
from tests.support.waiting import wait_until
from tony.errors import ConnectionFailedError, InfraError, ProtocolError
from tony.protocol.error_codes import Code
from tony.protocol.launch import AmCredentials
from tony.rpc import RpcServer, connect
from tony.rpc.am_address import TlsAddress
from tony.rpc.sockets import describe_error, find_peer_process, listen_unix, resolve


def at(path: Path | str) -> Place:
    return Place(address=f"unix:{path}", job=JOB, scheme="unix")


async def test_a_socket_file_is_its_owners_alone(folder: Path) -> None:
    """From the moment it exists, whatever the umask."""
    before = os.umask(0)
    try:
        async with serving(at(folder / "am.sock")):
            assert stat.filemode((folder / "am.sock").stat().st_mode) == "srw-------"
    finally:
        os.umask(before)
    assert os.listdir(folder) == []


async def test_a_path_may_be_long(folder: Path) -> None:
    """The kernel takes 107 bytes; a home may lie deeper."""
    deep = folder / ("d" * 100) / ("é" * 100)
    deep.mkdir(parents=True)
    place = at(deep / "am.sock")
    async with serving(place) as (_, diary, address), connected(place, address) as connection:
        connection.send(QUESTION)
        await diary.until(lambda d: d.messages == [QUESTION])
    assert os.listdir(deep) == []


async def test_a_stale_socket_file_is_replaced(folder: Path) -> None:
    """A killed application master leaves its file behind."""
    path = folder / "am.sock"
    (await listen_unix(str(path))).close()
    assert path.exists()
    place = at(path)
    async with serving(place) as (_, _, address), connected(place, address) as connection:
        assert connection.is_open


async def test_a_socket_file_in_use_is_left_alone(folder: Path) -> None:
    """Two application masters of one job: the second one gives up."""
    place = at(folder / "am.sock")
    async with serving(place) as (_, _, address):
        with pytest.raises(InfraError, match="another process listens there"):
            await RpcServer(JOB.am, Diary()).listen(address)
        async with connected(place, address) as connection:
            assert connection.is_open


async def test_a_socket_that_a_child_holds_before_its_exec_is_waited_for(folder: Path) -> None:
    path = str(folder / "am.sock")
    inherited = await listen_unix(path)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(listen_unix(path))
        await asyncio.sleep(0)
        inherited.close()
    waiting.result().close()


async def test_a_successors_socket_file_survives_its_predecessor(folder: Path) -> None:
    """Closing removes our own file, not one that has taken its place."""
    path = folder / "am.sock"
    async with serving(at(path)):
        path.unlink()
        successor = await listen_unix(str(path))
    assert path.exists()
    successor.close()


async def test_a_file_that_is_no_socket_is_left_alone(folder: Path) -> None:
    """It may be a user's file."""
    path = folder / "am.sock"
    path.write_text("precious")
    with pytest.raises(InfraError, match="a file that is not a socket is in its place; remove it"):
        await RpcServer(JOB.am, Diary()).listen(f"unix:{path}")
    assert path.read_text() == "precious"


@pytest.mark.parametrize("address", ["unix:{}/none/am.sock", "unix:{}/" + "x" * 200, "unix:{}/" + "y" * 300])
async def test_an_impossible_path_is_reported(folder: Path, address: str) -> None:
    """The error names it, with the system's message."""
    with pytest.raises(InfraError, match="cannot listen on the socket file"):
        await RpcServer(JOB.am, Diary()).listen(address.format(folder))


@pytest.mark.parametrize("name", ["none/am.sock", "none.sock", "d" * 150 + "/am.sock", "stale.sock"])
async def test_a_missing_or_stale_socket_has_no_listener(folder: Path, name: str) -> None:
    """No folder, no file, or a file that a killed process left: all are `no_listener`."""
    (await listen_unix(str(folder / "stale.sock"))).close()
    with pytest.raises(ConnectionFailedError, match="cannot connect to unix:") as caught:
        await connect(f"unix:{folder}/{name}", JOB.executors)
    assert caught.value.no_listener


async def test_a_regular_file_at_the_socket_path_has_no_listener(folder: Path) -> None:
    """It refuses connections like a stale one; the answer is the same, since no application master can be there."""
    (folder / "file").write_text("")
    with pytest.raises(ConnectionFailedError) as caught:
        await connect(f"unix:{folder}/file", JOB.executors)
    assert caught.value.no_listener


async def test_a_full_queue_is_waited_for(folder: Path) -> None:
    """A listener that is too busy to accept is there all the same: the time-out ends the wait."""
    path = str(folder / "am.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        listener.listen(0)
        waiting = []
        while True:
            one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            one.setblocking(False)
            waiting.append(one)
            try:
                one.connect(path)
            except BlockingIOError:
                break
        try:
            with pytest.raises(ConnectionFailedError, match=r"within 0\.1 s") as caught:
                await connect(f"unix:{path}", JOB.executors, timeout=0.1)
            assert not caught.value.no_listener
        finally:
            for one in waiting:
                one.close()


class _Peer:
    """A socket whose peer has the given credentials."""

    def __init__(self, pid: int, uid: int) -> None:
        self.credentials = struct.pack("3i", pid, uid, 0)

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        assert (level, option, size) == (socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return self.credentials


def test_only_our_own_user_and_root_may_be_at_the_other_end() -> None:
    """The kernel knows who it is; a token that leaked to another user is of no use on a Unix socket."""
    assert find_peer_process(cast(Any, _Peer(17, os.geteuid()))) == 17
    assert find_peer_process(cast(Any, _Peer(18, 0))) == 18
    with pytest.raises(ProtocolError, match=f"process 19 belongs to user 54321, not to {os.geteuid()}") as caught:
        find_peer_process(cast(Any, _Peer(19, 54321)))
    assert caught.value.code == Code.PEER


async def test_another_user_is_refused_on_both_sides(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither side says a word to it, and the listening one counts it."""

    def refuse(sock: socket.socket) -> int:
        raise ProtocolError(Code.PEER, "process 19 belongs to user 54321")

    place = at(folder / "am.sock")
    async with serving(place) as (server, diary, address):
        # Patched: there is no second user in a test.
        monkeypatch.setattr("tony.rpc.connection.find_peer_process", refuse)
        with pytest.raises(
            ConnectionFailedError, match=r"not this job's application master .* belongs to user 54321"
        ) as caught:
            await connect(address, JOB.executors)
        assert not caught.value.no_listener
        await wait_until(lambda: server.get_statistics().accepted == 1 and server.get_statistics().unauthenticated == 0)
        assert server.get_statistics().refused == {"peer": 1}
        assert diary.ends == []


async def test_a_taken_port_is_reported() -> None:
    """With the address and the system's message."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InfraError, match=rf"cannot listen on tls:127\.0\.0\.1:{port}: Address already in use"):
            await RpcServer(JOB.am, Diary()).listen(f"tls:127.0.0.1:{port}")


async def test_a_refused_connection_means_no_listener() -> None:
    """No other failure proves it."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        with pytest.raises(ConnectionFailedError, match="Connection refused") as caught:
            await connect(f"tls:127.0.0.1:{port}", JOB.executors)
    assert caught.value.no_listener


@pytest.mark.parametrize("is_broken", [False, True])
async def test_a_forwarded_connection_that_ends_without_an_answer_means_no_listener(*, is_broken: bool) -> None:
    """What forwards accepts a connection before it knows whether anything listens."""

    async def dial(_: str) -> socket.socket:
        local_end, remote_end = socket.socketpair()
        local_end.setblocking(False)
        if is_broken:
            local_end.shutdown(socket.SHUT_WR)
        remote_end.close()
        return local_end

    with pytest.raises(ConnectionFailedError) as caught:
        await connect("tls:10.0.0.1:7070", JOB.executors, dial=dial)
    assert caught.value.no_listener


async def test_credentials_without_certificates_cannot_do_tls() -> None:
    """The text says how that came about."""
    plain, tls_address = AmCredentials(token=JOB.am.token), "tls:127.0.0.1:0"
    with pytest.raises(ValueError, match="the job was submitted without TLS"):
        await RpcServer(plain, Diary()).listen(tls_address)
    with pytest.raises(ValueError, match="the job was submitted without TLS"):
        await connect(tls_address, plain)


async def test_both_families_are_numbers_without_waiting() -> None:
    assert await resolve(TlsAddress(host="127.0.0.1", port=5)) == [(socket.AF_INET, ("127.0.0.1", 5))]
    assert await resolve(TlsAddress(host="::1", port=5)) == [(socket.AF_INET6, ("::1", 5, 0, 0))]


def test_system_errors_are_shown_without_numbers() -> None:
    """Errors of sockets, of asyncio, and of name look-ups, which count below zero."""
    assert describe_error(OSError(111, "Connect call failed ('127.0.0.1', 1)")) == "Connection refused"
    assert describe_error(socket.gaierror(-2, "Name or service not known")) == "Name or service not known"
    assert describe_error(OSError("AF_UNIX path too long")) == "AF_UNIX path too long"

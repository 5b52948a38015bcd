"""The store speaks as Horovod's processes expect it, and takes no more than it can hold."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from select import select
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.executor.horovod_client import ask, wait_for
from tony.executor.network.rendezvous_store import RendezvousService, RendezvousStore, StoreFullError

Port = int


@contextmanager
def served(store: RendezvousStore, hold: float, **options: int) -> Iterator[Port]:
    """A service in a thread of its own."""
    listening = socket.create_server(("127.0.0.1", 0))
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        task = loop.create_task(RendezvousService(store, hold, **options).serve(listening))
        thread = threading.Thread(target=lambda: runner.run(_until_cancelled(task)))
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            asyncio.run_coroutine_threadsafe(_cancel(task), loop)
            thread.join()


async def _cancel(task: asyncio.Task[None]) -> None:
    """Cancel a server, once it serves all that have connected: asyncio leaves a socket open whose server closes between
    the accept and the first step of the task for it."""
    for _ in range(5):
        await asyncio.sleep(0)
    task.cancel()


async def _until_cancelled(task: asyncio.Task[None]) -> None:
    with suppress(asyncio.CancelledError):
        await task


@pytest.fixture
def port() -> Iterator[Port]:
    """Of a service that answers at once when a value is not there."""
    with served(RendezvousStore(), hold=0.0) as port:
        yield port


@pytest.fixture
def patient() -> Iterator[Port]:
    """Of one that holds such questions for longer than any test lasts."""
    with served(RendezvousStore(), hold=60.0) as port:
        yield port


def test_a_value_is_kept_answered_and_forgotten(port: Port) -> None:
    """404 before, the bytes themselves meanwhile, 404 again after."""
    assert ask(port, "GET", "/global/0") == (404, b"")
    assert ask(port, "PUT", "/global/0", b"\0\xffabc\r\n\r\n") == (200, b"")
    assert ask(port, "GET", "/global/0") == (200, b"\0\xffabc\r\n\r\n")
    assert ask(port, "GET", "/local_h/0") == (404, b"")
    assert ask(port, "PUT", "/global/0", b"") == (200, b"")
    assert ask(port, "GET", "/global/0") == (200, b"")
    assert ask(port, "DELETE", "/global/0") == (200, b"")
    assert ask(port, "DELETE", "/global/0") == (200, b"")
    assert ask(port, "GET", "/global/0") == (404, b"")


def test_pythons_side_of_horovod(port: Port) -> None:
    url = f"http://127.0.0.1:{port}/runfunc/func"
    with urlopen(Request(url, data=b"payload", method="PUT"), timeout=30) as answer:
        assert answer.status == 200
    with urlopen(url, timeout=30) as answer:
        assert answer.read() == b"payload"
    with pytest.raises(HTTPError) as refused:
        urlopen(f"http://127.0.0.1:{port}/runfunc/result", timeout=30)
    refused.value.close()
    assert refused.value.code == 404


def test_waiting_requests_are_answered_once_the_value_is_set(patient: Port) -> None:
    """Several at once, with one request each."""
    found: list[bytes] = []
    waiting = [threading.Thread(target=lambda: found.append(wait_for(patient, "/global/7"))) for _ in range(3)]
    for each in waiting:
        each.start()
    assert ask(patient, "PUT", "/global/7", b"here") == (200, b"")
    for each in waiting:
        each.join(timeout=50)
    assert found == [b"here"] * 3


def test_one_connection_may_ask_again(port: Port) -> None:
    """As HTTP/1.1 allows; Horovod does not."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(
            b"PUT /s/k HTTP/1.1\r\ncontent-length: 2\r\n\r\nhi" + b"GET /s/k HTTP/1.1\r\nHost: x\r\n\r\n"
        )
        said = b""
        while not said.endswith(b"hi"):
            said += connection.recv(1000)
    assert said == b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"POST /s/k HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /s HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /s/k/more HTTP/1.1\r\n\r\n", b"400"),
        (b"GET //k HTTP/1.1\r\n\r\n", b"400"),
        (b"\r\n\r\n", b"400"),
        (b"PUT /s/k HTTP/1.1\r\nContent-Length: 999999999999\r\n\r\n", b"413"),
        (b"PUT /s/k HTTP/1.1\r\nContent-Length: 5\r\n\r\nhal", b""),
        (b"x" * 100_000, b""),
        (b"", b""),
    ],
)
def test_invalid_requests_are_refused(port: Port, said: bytes, status: bytes) -> None:
    """With a response or without, and the next one is served."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(said)
        connection.shutdown(socket.SHUT_WR)
        try:
            answer = connection.recv(1000)
        except ConnectionResetError:
            answer = b""
    assert answer[9:12] == status
    assert ask(port, "GET", "/s/k") == (404, b"")


def test_no_more_than_it_can_hold() -> None:
    """What is forgotten or replaced gives its room back."""
    store = RendezvousStore(max_bytes=2000)
    store.put((b"s", b"a"), b"x" * 1500)
    with pytest.raises(StoreFullError):
        store.put((b"s", b"b"), b"x" * 1000)
    store.put((b"s", b"a"), b"x" * 500)
    store.put((b"s", b"b"), b"x" * 1000)
    store.delete((b"s", b"b"))
    store.delete((b"s", b"b"))
    store.put((b"s", b"c"), b"x" * 1000)
    assert asyncio.run(store.get((b"s", b"b"), 0.0)) is None


def test_a_full_store_answers_with_an_error() -> None:
    """Horovod tries again, and then ends with an error; it does not hang."""
    with served(RendezvousStore(max_bytes=100), hold=0.0) as port:
        assert ask(port, "PUT", "/s/k", b"x" * 200)[0] == 507


@contextmanager
def unfinished(port: Port, count: int, size: int, sent: int) -> Iterator[list[socket.socket]]:
    """Connections that have sent a part of a value."""
    with ExitStack() as stack:
        found = []
        for number in range(count):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
            with suppress(OSError):  # dropped already
                connection.sendall(b"PUT /s/k%d HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (number, size))
                connection.sendall(b"x" * sent)
            found.append(connection)
        yield found


def is_dropped(connection: socket.socket) -> bool:
    """Wait until the other side has closed a connection; return False if it has answered."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_unfinished_values_count_and_keep_no_rank_out() -> None:
    """The oldest ones go, as soon as all would be more than the store may hold."""
    store = RendezvousStore(max_bytes=10_000)
    with served(store, hold=0.0) as port:
        with unfinished(port, 9, 4_000, 2_000) as connections:
            assert all(map(is_dropped, connections[:7]))
            assert ask(port, "PUT", "/own/key", b"x" * 5_000) == (200, b"")
            assert all(map(is_dropped, connections[7:8]))
        assert ask(port, "GET", "/own/key") == (200, b"x" * 5_000)
        assert ask(port, "PUT", "/own/more", b"x" * 4_000) == (200, b""), "room is given back"
        assert ask(port, "PUT", "/own/most", b"x" * 4_000)[0] == 507


def test_unfinished_requests_keep_no_rank_out() -> None:
    """Neither with a part of a head nor with a part of a body; questions that are held stay."""
    store = RendezvousStore()
    with served(store, hold=60.0, max_connections=20) as port:
        found: list[bytes] = []
        waiting = threading.Thread(target=lambda: found.append(wait_for(port, "/global/7")))
        waiting.start()
        while not store._awaited:
            time.sleep(0.001)
        with unfinished(port, 30, 4_000, 2_000) as connections, unfinished(port, 30, 0, 0):
            assert all(map(is_dropped, connections[:10]))
            assert ask(port, "PUT", "/global/7", b"here") == (200, b"")
        waiting.join(timeout=50)
    assert found == [b"here"]


def test_no_more_connections_than_there_may_be() -> None:
    """If all of them wait for an answer, the next one is closed."""
    with served(RendezvousStore(), hold=60.0, max_connections=2) as port, ExitStack() as stack:
        held = [stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30)) for _ in range(5)]
        for connection in held:
            with suppress(OSError):
                connection.sendall(b"GET /s/k HTTP/1.1\r\n\r\n")
        readable, _, _ = select(held, [], [], 30)
        assert readable
        assert all(map(is_dropped, readable))

"""A meeting point that is a key-value store over HTTP, as Horovod's rendezvous server is (its `runner/http`).

`PUT /scope/key` keeps a value, `GET` answers it or 404, `DELETE` forgets it. Horovod's processes ask for their peers'
keys every 10 ms until they are there. So a question for what is not there yet is held for a moment, and answered at
once when it comes: hundreds of processes that wait for the last one cost next to nothing.

As Horovod's own it asks nobody who they are: what is in it are addresses of processes. It bounds what it takes: values,
bodies that have not arrived completely, and connections. Where there is no room, it drops the connection that has been
sending its request for the longest time, so unfinished requests cannot keep a rank out. A process of its own, since
what it reads comes from anywhere: it has none of the job's secrets.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket

from tony.linux.open_file_limit import allow_open_files

#: Bytes of one value, and of all with their keys. A rank's value has some 150 bytes for each of its peers.
MOST_VALUE = 16 << 20
MOST_ALL = 512 << 20
#: Bytes that the store itself needs for an entry.
_ENTRY = 200
#: Bytes of a request's head; longer ones are refused.
_HEAD = 16 << 10
#: Seconds for a request to arrive, and for an answer to be taken.
_SLOWEST = 60.0
#: Seconds that a question waits for its key before it is answered with 404. Horovod asks again, by its own time-out.
HOLD = 1.0
#: Connections at one time, if the process may open so many files, and the files that it needs besides.
MAX_CONNECTIONS = 16_000
_OTHER_FILES = 32
#: Connections that wait to be accepted.
_BACKLOG = socket.SOMAXCONN

_REQUEST = re.compile(rb"(GET|PUT|DELETE) /([^/ ]+)/([^/ ]+) HTTP/1\.[01]")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,12})[ \t]*(?=\r\n)", re.IGNORECASE)

Key = tuple[bytes, bytes]  # scope and key


class Full(Exception):  # noqa: N818 - a noun reads better where it is raised
    """No room for another value."""


class RendezvousStore:
    """What was put, by scope and key."""

    def __init__(self, most: int = MOST_ALL) -> None:
        """Empty.

        Args:
            most: bytes it may hold.
        """
        self._values: dict[Key, bytes] = {}
        self._awaited: dict[Key, list[asyncio.Future[None]]] = {}
        self._free = most

    def put(self, key: Key, value: bytes) -> None:
        """Keeps a value in place of the one before, and wakes those who wait for it.

        Raises:
            Full: too much is kept already.
        """
        free = self._free + _size(key, self._values.get(key)) - _size(key, value)
        if free < 0:
            raise Full
        self._free = free
        self._values[key] = value
        for waiting in self._awaited.get(key, ()):
            if not waiting.done():
                waiting.set_result(None)

    def delete(self, key: Key) -> None:
        """Forgets a value if there is one."""
        self._free += _size(key, self._values.pop(key, None))

    def reserve(self, size: int) -> bool:
        """Set room aside for a value that has not arrived completely. Return False if there is not enough."""
        if size > self._free:
            return False
        self._free -= size
        return True

    def release(self, size: int) -> None:
        """Give back what was reserved."""
        self._free += size

    async def get(self, key: Key, patience: float) -> bytes | None:
        """A value, waited for; None if nobody has put it in time."""
        if key not in self._values:
            await self._wait(key, patience)
        return self._values.get(key)

    async def _wait(self, key: Key, patience: float) -> None:
        put = asyncio.get_running_loop().create_future()
        others = self._awaited.setdefault(key, [])
        others.append(put)
        try:
            async with asyncio.timeout(patience):
                await put
        except TimeoutError:
            pass
        finally:
            others.remove(put)
            if not others:
                del self._awaited[key]


def _size(key: Key, value: bytes | None) -> int:
    return 0 if value is None else len(key[0]) + len(key[1]) + len(value) + _ENTRY


class Service:
    """A store behind HTTP.

    Args:
        hold: seconds that a question waits for what is not there yet.
        max_connections: at one time.
    """

    def __init__(self, store: RendezvousStore, hold: float = HOLD, max_connections: int = MAX_CONNECTIONS) -> None:
        self._store = store
        self._hold = hold
        self._max_connections = max_connections
        self._connection_count = 0
        # Connections whose request has not arrived completely, oldest first, and the bytes reserved for each.
        self._unfinished: dict[asyncio.StreamWriter, int] = {}

    async def serve(self, listening: socket.socket) -> None:
        """Answers for ever."""
        server = await asyncio.start_server(self.connected, sock=listening, limit=_HEAD, backlog=_BACKLOG)
        await server.serve_forever()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers one connection until it ends or makes no sense."""
        self._connection_count += 1
        try:
            if self._connection_count > self._max_connections and not self._drop_oldest():
                return  # every other one waits for its answer
            while await self._exchange(reader, writer):
                pass
        except (OSError, EOFError, asyncio.LimitOverrunError, TimeoutError):
            pass  # whoever it was went away, or is none of ours
        finally:
            self._connection_count -= 1
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def _drop_oldest(self, sparing: asyncio.StreamWriter | None = None) -> bool:
        """Drop the connection whose request is unfinished for the longest time; return False if there is none."""
        oldest = next((writer for writer in self._unfinished if writer is not sparing), None)
        if oldest is None:
            return False
        self._forget(oldest)
        oldest.transport.abort()
        return True

    def _forget(self, writer: asyncio.StreamWriter) -> None:
        self._store.release(self._unfinished.pop(writer, 0))

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One question and its answer; whether another one may follow."""
        self._unfinished[writer] = 0
        try:
            async with asyncio.timeout(_SLOWEST):
                head = await reader.readuntil(b"\r\n\r\n")
            request = _REQUEST.match(head)
            length = _LENGTH.search(head)
            size = int(length[1]) if length else 0
            if request is None or size > MOST_VALUE:
                await _answer(writer, b"400 Bad Request" if request is None else b"413 Content Too Large")
                return False
            if not self._make_room(writer, size):
                await _answer(writer, b"507 Insufficient Storage")
                return False
            async with asyncio.timeout(_SLOWEST):
                body = await reader.readexactly(size)
        finally:
            self._forget(writer)
        await self._obey(writer, request[1], (request[2], request[3]), body)
        return True

    def _make_room(self, writer: asyncio.StreamWriter, size: int) -> bool:
        """Reserve room for a body, if need be in place of older unfinished ones; return False if there is none."""
        while not self._store.reserve(size):
            if not self._drop_oldest(sparing=writer):
                return False
        self._unfinished[writer] = size
        return True

    async def _obey(self, writer: asyncio.StreamWriter, method: bytes, key: Key, body: bytes) -> None:
        value: bytes | None = b""
        if method == b"GET":
            value = await self._store.get(key, self._hold)
        elif method == b"DELETE":
            self._store.delete(key)
        else:
            try:
                self._store.put(key, body)
            except Full:
                await _answer(writer, b"507 Insufficient Storage")
                return
        await (_answer(writer, b"404 Not Found") if value is None else _answer(writer, b"200 OK", value))


async def _answer(writer: asyncio.StreamWriter, status: bytes, body: bytes = b"") -> None:
    # The length's name in this very spelling: Horovod's client looks for no other, and would wait for our end instead.
    writer.write(b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body))
    async with asyncio.timeout(_SLOWEST):
        await writer.drain()


def main() -> int:
    """Serves the listening socket that is our standard input until we are killed."""
    max_connections = min(MAX_CONNECTIONS, allow_open_files(MAX_CONNECTIONS + _OTHER_FILES) - _OTHER_FILES)
    service = Service(RendezvousStore(), max_connections=max_connections)
    asyncio.run(service.serve(socket.socket(fileno=0)))
    return 0

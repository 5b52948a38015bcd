"""A rendezvous that is a key-value store over HTTP, like Horovod's rendezvous server (its `runner/http`).

`PUT /scope/key` stores a value, `GET` returns it or 404, `DELETE` removes it. Horovod's processes poll for their peers'
keys every 10 ms. So a request for a missing key is held for a moment, and answered at once when the key arrives:
hundreds of processes that wait for the last one cost next to nothing.

Like Horovod's own server it authenticates no client: it holds only addresses of processes. It bounds what it takes:
values, bodies that have not arrived completely, and connections. Without room, it drops the connection that has been
sending its request for the longest time, so unfinished requests cannot keep a rank out. It runs in its own process,
without any of the job's secrets, since its input is untrusted.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket

from tony.linux.resource_limits import allow_open_files

#: Bytes of one value, and of all with their keys. A rank's value has some 150 bytes for each of its peers.
MAX_VALUE_BYTES = 16 << 20
MAX_TOTAL_BYTES = 512 << 20
#: Overhead of an entry in bytes.
_ENTRY_OVERHEAD = 200
#: Bytes of a request's head; longer ones are refused.
_MAX_HEAD_BYTES = 16 << 10
#: Seconds for a request to arrive, and for an answer to be read.
_IO_TIMEOUT_SECONDS = 60.0
#: Seconds that a request waits for its key before it is answered with 404. Horovod repeats it until its own timeout.
HOLD_SECONDS = 1.0
#: Connections at one time, if the limit of open files permits, and the number of other open files.
MAX_CONNECTIONS = 16_000
_OTHER_FILES = 32
#: Connections that wait to be accepted.
_BACKLOG = socket.SOMAXCONN

_REQUEST = re.compile(rb"(GET|PUT|DELETE) /([^/ ]+)/([^/ ]+) HTTP/1\.[01]")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,12})[ \t]*(?=\r\n)", re.IGNORECASE)

Key = tuple[bytes, bytes]  # scope and key


class StoreFullError(Exception):
    """The store has no room for another value."""


class RendezvousStore:
    """Values by scope and key."""

    def __init__(self, max_bytes: int = MAX_TOTAL_BYTES) -> None:
        """Create an empty store.

        Args:
            max_bytes: bytes it may hold.
        """
        self._values: dict[Key, bytes] = {}
        self._awaited: dict[Key, list[asyncio.Future[None]]] = {}
        self._free = max_bytes

    def put(self, key: Key, value: bytes) -> None:
        """Store a value, replacing the previous one, and wake the requests that wait for it.

        Raises:
            StoreFullError: the store is full.
        """
        free = self._free + _compute_size(key, self._values.get(key)) - _compute_size(key, value)
        if free < 0:
            raise StoreFullError
        self._free = free
        self._values[key] = value
        for waiting in self._awaited.get(key, ()):
            if not waiting.done():
                waiting.set_result(None)

    def delete(self, key: Key) -> None:
        """Remove a value if there is one."""
        self._free += _compute_size(key, self._values.pop(key, None))

    def reserve(self, size: int) -> bool:
        """Reserve room for a value that has not arrived completely. Return False if there is not enough."""
        if size > self._free:
            return False
        self._free -= size
        return True

    def release(self, size: int) -> None:
        self._free += size

    async def get(self, key: Key, timeout: float) -> bytes | None:
        """Wait up to `timeout` seconds for a value; return None if it has not arrived."""
        if key not in self._values:
            await self._wait(key, timeout)
        return self._values.get(key)

    async def _wait(self, key: Key, timeout: float) -> None:
        put = asyncio.get_running_loop().create_future()
        others = self._awaited.setdefault(key, [])
        others.append(put)
        try:
            async with asyncio.timeout(timeout):
                await put
        except TimeoutError:
            pass
        finally:
            others.remove(put)
            if not others:
                del self._awaited[key]


def _compute_size(key: Key, value: bytes | None) -> int:
    return 0 if value is None else len(key[0]) + len(key[1]) + len(value) + _ENTRY_OVERHEAD


class RendezvousService:
    """A store behind HTTP.

    Args:
        hold: seconds that a request waits for a missing key.
        max_connections: at one time.
    """

    def __init__(
        self, store: RendezvousStore, hold: float = HOLD_SECONDS, max_connections: int = MAX_CONNECTIONS
    ) -> None:
        self._store = store
        self._hold = hold
        self._max_connections = max_connections
        self._connection_count = 0
        # Connections whose request has not arrived completely, oldest first, and the bytes reserved for each.
        self._unfinished: dict[asyncio.StreamWriter, int] = {}

    async def serve(self, listening: socket.socket) -> None:
        server = await asyncio.start_server(self.on_connected, sock=listening, limit=_MAX_HEAD_BYTES, backlog=_BACKLOG)
        await server.serve_forever()

    async def on_connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer requests of one connection until it ends or sends an invalid one."""
        self._connection_count += 1
        try:
            if self._connection_count > self._max_connections and not self._drop_oldest():
                return  # all others have sent complete requests
            while await self._exchange(reader, writer):
                pass
        except (OSError, EOFError, asyncio.LimitOverrunError, TimeoutError):
            pass  # disconnected, too slow, or not a valid client
        finally:
            self._connection_count -= 1
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def _drop_oldest(self, sparing: asyncio.StreamWriter | None = None) -> bool:
        """Drop the connection with the oldest unfinished request; return False if there is none."""
        oldest = next((writer for writer in self._unfinished if writer is not sparing), None)
        if oldest is None:
            return False
        self._forget(oldest)
        oldest.transport.abort()
        return True

    def _forget(self, writer: asyncio.StreamWriter) -> None:
        self._store.release(self._unfinished.pop(writer, 0))

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; return True if another one may follow."""
        self._unfinished[writer] = 0
        try:
            async with asyncio.timeout(_IO_TIMEOUT_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            request = _REQUEST.match(head)
            length = _LENGTH.search(head)
            size = int(length[1]) if length else 0
            if request is None or size > MAX_VALUE_BYTES:
                await _answer(writer, b"400 Bad Request" if request is None else b"413 Content Too Large")
                return False
            if not self._make_room(writer, size):
                await _answer(writer, b"507 Insufficient Storage")
                return False
            async with asyncio.timeout(_IO_TIMEOUT_SECONDS):
                body = await reader.readexactly(size)
        finally:
            self._forget(writer)
        await self._perform(writer, request[1], (request[2], request[3]), body)
        return True

    def _make_room(self, writer: asyncio.StreamWriter, size: int) -> bool:
        """Reserve room for a body, dropping older unfinished requests if needed; return False if impossible."""
        while not self._store.reserve(size):
            if not self._drop_oldest(sparing=writer):
                return False
        self._unfinished[writer] = size
        return True

    async def _perform(self, writer: asyncio.StreamWriter, method: bytes, key: Key, body: bytes) -> None:
        value: bytes | None = b""
        if method == b"GET":
            value = await self._store.get(key, self._hold)
        elif method == b"DELETE":
            self._store.delete(key)
        else:
            try:
                self._store.put(key, body)
            except StoreFullError:
                await _answer(writer, b"507 Insufficient Storage")
                return
        await (_answer(writer, b"404 Not Found") if value is None else _answer(writer, b"200 OK", value))


async def _answer(writer: asyncio.StreamWriter, status: bytes, body: bytes = b"") -> None:
    # Spelled exactly so: Horovod's client looks for no other header, and would wait for the connection's end.
    writer.write(b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body))
    async with asyncio.timeout(_IO_TIMEOUT_SECONDS):
        await writer.drain()


def main() -> int:
    """Serve the listening socket on standard input until killed."""
    max_connections = min(MAX_CONNECTIONS, allow_open_files(MAX_CONNECTIONS + _OTHER_FILES) - _OTHER_FILES)
    service = RendezvousService(RendezvousStore(), max_connections=max_connections)
    asyncio.run(service.serve(socket.socket(fileno=0)))
    return 0

"""A rendezvous that forwards connections to the port that the task's program announces.

The program is a rendezvous server of the user, as in LinkedIn TonY: once it listens it creates a file named
`<port>____HOROVOD_RENDEZVOUS_SERVER____` in the given folder, or next to the job's source as early versions of TonY
did. Connections that arrive earlier wait here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import sys

_NAME = re.compile(r"(\d{1,5})_+HOROVOD_RENDEZVOUS_SERVER_+")
#: Seconds between polls of the folder, which belongs to this task alone, while a connection waits.
_POLL_SECONDS = 0.05
#: Seconds that a connection waits for the program. Horovod's processes try three times.
TIMEOUT_SECONDS = 60.0
_CHUNK = 1 << 16


class Relay:
    """Forwards connections.

    Args:
        folder: where the program creates its file.
        other: a folder where it may create it instead, apart from older files there.
        since: nanoseconds since 1970; files in `other` that are older do not count.
        timeout: seconds to wait for the file.
    """

    def __init__(self, folder: str, other: str, since: int, timeout: float = TIMEOUT_SECONDS) -> None:
        self._folder = folder
        self._other = other
        self._since = since
        self._timeout = timeout
        self._has_warned = False

    async def serve(self, listening: socket.socket) -> None:
        server = await asyncio.start_server(self._on_connected, sock=listening, backlog=socket.SOMAXCONN)
        await server.serve_forever()

    async def _on_connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                while (port := self._find_port()) is None:
                    await asyncio.sleep(_POLL_SECONDS)
            beyond_reader, beyond_writer = await asyncio.open_connection("127.0.0.1", port)
        except TimeoutError:
            self._warn_once(
                f"the driver has not announced its port by a file in {self._folder} within {self._timeout:.0f} s"
            )
            writer.transport.abort()
            return
        except OSError as error:
            self._warn_once(f"the driver does not listen on port {port}, which it has announced: {error.strerror}")
            writer.transport.abort()
            return
        await asyncio.gather(_copy(reader, beyond_writer), _copy(beyond_reader, writer))

    def _find_port(self) -> int | None:
        return find_announced_port(self._folder) or find_announced_port(self._other, self._since)

    def _warn_once(self, text: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            print(text, file=sys.stderr, flush=True)


def find_announced_port(folder: str, since: int = 0) -> int | None:
    """Return the port announced last, after `since`; None if there is none yet."""
    found: list[tuple[int, int]] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            name = _NAME.fullmatch(entry.name)
            if name and 0 < int(name[1]) < 1 << 16:
                found.append((entry.stat().st_mtime_ns, int(name[1])))
    found = [each for each in found if each[0] >= since]
    return max(found)[1] if found else None


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy everything from one side to the other, including the end."""
    try:
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def main() -> int:
    """Serve the listening socket on standard input until killed; arguments as for `Relay`."""
    asyncio.run(Relay(sys.argv[1], sys.argv[2], int(sys.argv[3])).serve(socket.socket(fileno=0)))
    return 0

"""A meeting point that passes connections on to the port that the task's program names.

The program is a rendezvous server of the user's own, in the original's manner: once it listens it leaves a file named
`<port>____HOROVOD_RENDEZVOUS_SERVER____` in the folder that it was told, or beside the job's source as the original's
first ones did. Whoever connects earlier waits here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import sys

_NAME = re.compile(r"(\d{1,5})_+HOROVOD_RENDEZVOUS_SERVER_+")
#: Seconds between looks into the folder, which is ours alone, while somebody waits.
_LOOK = 0.05
#: Seconds that a connection waits for the program. Horovod's processes try three times.
PATIENCE = 60.0
_CHUNK = 1 << 16


class Relay:
    """Passes connections on.

    Args:
        folder: where the program leaves its file.
        other: a folder where it may leave it instead; older files there do not count.
        since: nanoseconds since 1970: what is older there.
        patience: seconds to wait for it.
    """

    def __init__(self, folder: str, other: str, since: int, patience: float = PATIENCE) -> None:
        self._folder = folder
        self._other = other
        self._since = since
        self._patience = patience
        self._said = False

    async def serve(self, listening: socket.socket) -> None:
        """Passes on for ever."""
        server = await asyncio.start_server(self._connected, sock=listening, backlog=socket.SOMAXCONN)
        await server.serve_forever()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(self._patience):
                while (port := self._announced()) is None:
                    await asyncio.sleep(_LOOK)
            beyond_reader, beyond_writer = await asyncio.open_connection("127.0.0.1", port)
        except TimeoutError:
            self._say(f"no file in {self._folder} says after {self._patience:.0f} s where the driver listens")
            writer.transport.abort()
            return
        except OSError as error:
            self._say(f"the driver does not listen on the port {port} that it has named: {error.strerror}")
            writer.transport.abort()
            return
        await asyncio.gather(_pass(reader, beyond_writer), _pass(beyond_reader, writer))

    def _announced(self) -> int | None:
        return announced(self._folder) or announced(self._other, self._since)

    def _say(self, text: str) -> None:
        if not self._said:
            self._said = True
            print(text, file=sys.stderr, flush=True)


def announced(folder: str, since: int = 0) -> int | None:
    """The port that the program has named last, after `since`; None as long as it has not."""
    found: list[tuple[int, int]] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            name = _NAME.fullmatch(entry.name)
            if name and 0 < int(name[1]) < 1 << 16:
                found.append((entry.stat().st_mtime_ns, int(name[1])))
    found = [each for each in found if each[0] >= since]
    return max(found)[1] if found else None


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Everything from one to the other, and the end of it."""
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
    """Serves the listening socket that is our standard input until we are killed; arguments as for `Relay`."""
    asyncio.run(Relay(sys.argv[1], sys.argv[2], int(sys.argv[3])).serve(socket.socket(fileno=0)))
    return 0

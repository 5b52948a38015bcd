"""Starts the process that serves a job's pages, `tony.web.am_server`; it is known by name only.

It gets the socket on which we listen, and what it must know as a line of JSON. That its input ends tells it of our end.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from pathlib import Path

import tony
from tony.schedulers.interface import PageProxy

#: Seconds that it may take to begin, and to end.
_BEGINS, _ENDS = 60.0, 5.0
#: What runs: our modules, then those of the packages, among which are more rooms of ours.
_CODE = (
    "import sys; root, more = sys.argv[1:3]; sys.path.insert(0, root); sys.path.append(more); import tony; "
    "tony.__path__.append(more + '/tony'); from tony.web.am_server import main; sys.exit(main())"
)
_UP = b"up\n"


class PageProcess:
    """Makes such processes, one at a time.

    Args:
        folder: of the job.
        user: whose job it is.
        door: through whom people come.
    """

    def __init__(self, folder: Path, user: str, door: PageProxy) -> None:
        self._folder = folder
        self._user = user
        self._door = door
        self._key = os.urandom(32).hex()  # ours, so that a page outlives the process that made it

    async def serve(self, listening: socket.socket) -> str:
        """Has one take connections, until it ends; answers what went wrong, nothing if it ended by itself."""
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", "-c", _CODE),
                *(str(Path(tony.__file__).parent.parent), self._door.packages),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                pass_fds=(listening.fileno(),),
            )
        except OSError as error:
            return f"{sys.executable} cannot be started: {error}"
        try:
            return await self._wait(process, listening)
        finally:
            await _end(process)

    async def _wait(self, process: asyncio.subprocess.Process, listening: socket.socket) -> str:
        assert process.stdin
        assert process.stdout
        try:
            process.stdin.write(self._papers(listening))
            async with asyncio.timeout(_BEGINS):
                began = await process.stdout.readline() == _UP
        except TimeoutError:
            return f"it did not begin within {_BEGINS:.0f} s"
        except (OSError, ValueError):
            began = False  # it has gone before it was told anything, or says what nobody understands
        if not began:
            await _end(process)
        code = await process.wait()
        what = f"ended by {_signal(-code)}" if code < 0 else f"ended with exit code {code}"
        if began:
            return f"it {what}" if code else ""
        return f"it did not begin, and {what}"

    def _papers(self, listening: socket.socket) -> bytes:
        door = self._door
        papers = {
            "folder": str(self._folder),
            "socket": listening.fileno(),
            "user": self._user,
            "key": self._key,
            "peers": door.peers,
            "address": door.proxy,
            "origins": door.origins,
            "runs_as": door.runs_as,
            "vouches": door.vouches,
        }
        return json.dumps(papers).encode() + b"\n"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


async def _end(process: asyncio.subprocess.Process) -> None:
    """Lets it finish what it answers; not for long."""
    if process.stdin:
        process.stdin.close()
    try:
        async with asyncio.timeout(_ENDS):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()

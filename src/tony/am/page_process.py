"""Starts the process that serves a job's pages, `tony.web.am_server`; it is known by name only.

It gets the listening socket, and its parameters as a line of JSON. End of file on its input tells it that the AM exits.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
from pathlib import Path

import tony
from tony.linux.process import format_signal
from tony.schedulers.allocator_interface import PageProxy

#: Seconds that it may take to start, and to exit.
_START_TIMEOUT_SECONDS = 60.0
_EXIT_TIMEOUT_SECONDS = 5.0
#: The code to run: this package first, then the web packages, which hold further modules of `tony`.
_CODE = (
    "import sys; root, more = sys.argv[1:3]; sys.path.insert(0, root); sys.path.append(more); import tony; "
    "tony.__path__.append(more + '/tony'); from tony.web.am_server import main; sys.exit(main())"
)
_UP = b"up\n"


class PageProcess:
    """Starts such processes, one at a time.

    Args:
        user: the job's owner.
        page_proxy: the proxy through which users connect.
    """

    def __init__(self, folder: Path, user: str, page_proxy: PageProxy) -> None:
        self._folder = folder
        self._user = user
        self._page_proxy = page_proxy
        self._key = os.urandom(32).hex()  # kept here, so that pages stay valid when the process is replaced

    async def serve(self, listening: socket.socket) -> str:
        """Run a process that serves connections until it exits; return what went wrong, empty if nothing did."""
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", "-c", _CODE),
                *(str(Path(tony.__file__).parent.parent), self._page_proxy.packages),
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
            process.stdin.write(self._build_config(listening))
            async with asyncio.timeout(_START_TIMEOUT_SECONDS):
                started = await process.stdout.readline() == _UP
        except TimeoutError:
            return f"it did not start within {_START_TIMEOUT_SECONDS:.0f} s"
        except (OSError, ValueError):
            started = False  # it exited early, or printed something unexpected
        if not started:
            await _end(process)
        code = await process.wait()
        what = f"ended by {format_signal(-code)}" if code < 0 else f"ended with exit code {code}"
        if started:
            return f"it {what}" if code else ""
        return f"it did not start, and {what}"

    def _build_config(self, listening: socket.socket) -> bytes:
        page_proxy = self._page_proxy
        config = {
            "folder": str(self._folder),
            "socket": listening.fileno(),
            "user": self._user,
            "key": self._key,
            "peers": page_proxy.peers,
            "address": page_proxy.proxy,
            "origins": page_proxy.origins,
            "runs_as": page_proxy.runs_as,
            "vouches": page_proxy.vouches,
        }
        return json.dumps(config).encode() + b"\n"


async def _end(process: asyncio.subprocess.Process) -> None:
    """Let the process finish its responses, for a few seconds."""
    if process.stdin:
        process.stdin.close()
    try:
        async with asyncio.timeout(_EXIT_TIMEOUT_SECONDS):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()

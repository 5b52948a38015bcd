"""The AM's web server, for users who come from the cluster's own web pages.

Where the web packages are available, another process serves all pages (`page_process`), started at the first
connection; one that dies is replaced at the next. Otherwise, or if it fails repeatedly, there is one plain page
(`fallback_page`), which says why there are no others.

A cluster's proxy sends the requests of an authenticated user, so only the proxy's machines are answered; others are
redirected there. The proxy forwards GET and PUT only, drops most headers and cannot stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections import deque
from collections.abc import Callable, Collection

from tony import clock
from tony.am.fallback_page import build_response, render_fallback_page
from tony.am.page_process import PageProcess
from tony.model.job_report import JobReport
from tony.rpc.am_address import TlsAddress
from tony.rpc.sockets import listen_tcp, wait_until_readable
from tony.units import format_duration

#: Maximum bytes of a request, and its timeout in seconds.
_MAX_REQUEST_BYTES = 16 * 1024
_REQUEST_TIMEOUT_SECONDS = 10.0
#: Requests answered in parallel.
_MAX_PARALLEL = 20
#: Maximum connections of the addresses that are answered, and of all others: each is an open file of this process.
_MAX_PEER_CONNECTIONS = 200
_MAX_OTHER_CONNECTIONS = 50
#: Failures of the process, and the seconds within which they occur, after which only the plain page is served.
_MAX_FAILURES = 3
_FAILURE_WINDOW_SECONDS = 300.0
_log = logging.getLogger(__name__)


class WebListener:
    """The listening socket, and who serves its connections.

    Args:
        report: returns the job's current report.
        peers: addresses that are answered; empty: all.
        proxy: where all others are redirected; empty: they are refused.
        process: serves all pages, once a user connects; None if there is none.
        why: why there is only the plain page, for users.
    """

    def __init__(
        self,
        report: Callable[[], JobReport],
        peers: Collection[str],
        proxy: str,
        process: PageProcess | None = None,
        why: str = "",
    ) -> None:
        self._report = report
        self._peers = frozenset(peers)
        self._proxy = proxy
        self._process = process
        self._why = why
        self._failed: deque[float] = deque(maxlen=_MAX_FAILURES)
        self._serving: asyncio.Task[None] | None = None
        self._slots = asyncio.Semaphore(_MAX_PARALLEL)
        self._connections = {True: 0, False: 0}  # of addresses that are answered, and of others

    async def listen(self, host: str) -> int:
        """Start serving and return the port.

        Raises:
            InfraError: it cannot listen there.
        """
        listening = await listen_tcp(TlsAddress(host=host, port=0))
        port: int = listening.getsockname()[1]
        self._serving = asyncio.get_running_loop().create_task(self._answer_on(listening))
        return port

    async def close(self) -> None:
        if self._serving:
            self._serving.cancel()
            await asyncio.gather(self._serving, return_exceptions=True)

    async def _answer_on(self, listening: socket.socket) -> None:
        """Serve: in a process as long as that works, started at the first connection."""
        with listening:
            while self._process is not None:
                await wait_until_readable(listening)
                if wrong := await self._process.serve(listening):
                    self._record_failure(wrong)
            server = await asyncio.start_server(self._serve, sock=listening, limit=_MAX_REQUEST_BYTES)
            async with server:
                await server.serve_forever()

    def _record_failure(self, wrong: str) -> None:
        """Record a failure of the process; after too many serve the plain page only."""
        _log.warning("the process that serves the job's pages failed: %s", wrong)
        self._failed.append(clock.monotonic())
        if len(self._failed) == _MAX_FAILURES and self._failed[-1] - self._failed[0] < _FAILURE_WINDOW_SECONDS:
            self._process = None
            within = format_duration(_FAILURE_WINDOW_SECONDS)
            times = f"{_MAX_FAILURES} times within {within}"
            self._why = f"The process for the other pages failed {times}, at last because {wrong}."
            _log.warning("from now on only the plain status page is served")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        known = self._is_answered(writer.get_extra_info("peername")[0])
        if self._connections[known] >= (_MAX_PEER_CONNECTIONS if known else _MAX_OTHER_CONNECTIONS):
            writer.transport.abort()
            return
        self._connections[known] += 1
        try:
            await self._answer_one(reader, writer)
        finally:
            self._connections[known] -= 1

    def _is_answered(self, peer: str) -> bool:
        return not self._peers or peer in self._peers

    async def _answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_TIMEOUT_SECONDS):
                request = await reader.readuntil(b"\r\n\r\n")
                async with self._slots:
                    writer.write(self._answer(request, writer.get_extra_info("peername")[0]))
                    await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def _answer(self, request: bytes, peer: str) -> bytes:
        words = request.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or words[0] not in (b"GET", b"HEAD"):
            return build_response("405 Method Not Allowed", "Only GET is allowed.", "Allow: GET, HEAD\r\n")
        if not self._is_answered(peer):
            if not self._proxy:
                return build_response("403 Forbidden", "Open this page through the cluster's own web pages.")
            return build_response(
                "302 Found", "Open this page through the cluster's own web pages.", f"Location: {self._proxy}\r\n"
            )
        if words[1].split(b"?", 1)[0] not in (b"/", b""):
            return build_response("404 Not Found", "The only page here is /")
        return build_response("200 OK", render_fallback_page(self._report(), self._why), with_body=words[0] == b"GET")

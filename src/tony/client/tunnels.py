"""A port here that leads to one of a task: connections go through the application master to the task's executor.

Nothing but the application master has to be reachable from here. Bytes are handed on as they are; what they mean, and
who may send them, is the affair of the program that listens there. Whoever reaches the port here reaches that one: so
it is one of this machine's own (127.0.0.1) unless somebody wants it otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from tony import clock
from tony.client.master import reach
from tony.errors import ConnectionFailed, InfraError, TonyError, UserError
from tony.model.ids import TaskId
from tony.model.layout import JobFolder
from tony.model.report import JobReport
from tony.protocol.messages import OpenTunnel, TunnelFailed, TunnelOpened
from tony.rpc.connection import Connection
from tony.rpc.sockets import said
from tony.rpc.tunnel import carry, reset

#: Seconds to get an answer: an executor tries a port on several addresses.
_PATIENCE = 45.0
#: Seconds in which the same sentence is not said again: a browser tries again and again.
_QUIET = 5.0
#: Connections that wait until they are taken.
_BACKLOG = 512
#: Ports below belong to the system.
_UNPRIVILEGED = 1024


class NoTunnel(ConnectionFailed):
    """There is no way to that port of the task now; says why."""


@asynccontextmanager
async def opened(folder: JobFolder, task: TaskId, port: int) -> AsyncIterator[tuple[Connection, str]]:
    """A connection that is one to a port of a task, and what it leads to, `127.0.0.1:8888` on the task's machine.

    Args:
        port: 0 for the one that was reserved for the task.

    Raises:
        NoTunnel: nobody listens there, or the task has no executor now.
        ConnectionFailed: the application master cannot be reached.
        ProtocolError: it refused us.
    """
    async with reach(folder) as connection:
        connection.send(OpenTunnel(task=str(task), port=port))
        try:
            async with asyncio.timeout(_PATIENCE):
                answer = await connection.receive()
        except TimeoutError:
            raise ConnectionFailed(f"{connection.peer} does not answer within {_PATIENCE:g} s") from None
        if isinstance(answer, TunnelFailed):
            raise NoTunnel(answer.reason)
        if not isinstance(answer, TunnelOpened):
            raise ConnectionFailed(f"{connection.peer} went away without an answer", gone=True)
        yield connection, answer.address


async def place_for(proxy: Proxy, report: JobReport, address: str, port: int | None) -> None:
    """Has a proxy listen at a port that suits: the one that was asked for, that of the task, or any free one.

    That of the task is best where it is free, because the program tells it to its users. On the task's own machine we
    leave it alone: the program may still want it, and what it leads to would be ourselves.

    Raises:
        UserError: the port that was asked for cannot be had.
    """
    far = proxy.far_port
    host = next((task.host for task in report.tasks if task.task == str(proxy.task)), None)
    ours = host is None or _is_here(host)
    if port is not None and port == far and host is not None and ours:
        raise UserError(f"port {port} of this machine is the one that {proxy.task} uses; take another one for --port")
    if port is None and far >= _UNPRIVILEGED and not ours:
        with contextlib.suppress(UserError):
            await proxy.listen(address, far)
            return
    await proxy.listen(address, port or 0)


def _is_here(host: str) -> bool:
    """Whether a name or number is one of this machine's."""
    if host == socket.gethostname():
        return True
    try:
        for family, _, _, _, place in socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM):
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.bind(place)
    except OSError:
        return False
    return True


async def answers(folder: JobFolder, task: TaskId, port: int) -> bool:
    """Whether somebody listens there now, as far as that can be told."""
    try:
        async with opened(folder, task, port):
            return True
    except InfraError:
        return False


class Proxy:
    """Listens here; every connection becomes one to a port of a task.

    Args:
        port: of the task; 0 for the one that was reserved for it.
        notice: is told why a connection came to nothing.

    Attributes:
        address, port: where it listens.
        task, far_port: where it leads to.
    """

    def __init__(self, folder: JobFolder, task: TaskId, port: int, notice: Callable[[str], None]) -> None:
        self.address = ""
        self.port = 0
        self.task = task
        self.far_port = port
        self._folder = folder
        self._notice = notice
        self._server: asyncio.Server | None = None
        self._carrying: set[asyncio.Task[None]] = set()
        self._said: dict[str, float] = {}

    async def listen(self, address: str, port: int) -> None:
        """Begins to listen; with port 0 at any free one.

        Raises:
            UserError: it is taken, or not ours to take.
        """
        try:
            found = await asyncio.get_running_loop().getaddrinfo(address, port, type=socket.SOCK_STREAM)
            # One address: of several, each would get another port.
            self._server = await asyncio.start_server(self._accept, str(found[0][4][0]), port, backlog=_BACKLOG)
        except OSError as error:
            raise UserError(f"cannot listen on {address}:{port}: {said(error)}") from error
        self.address, self.port = self._server.sockets[0].getsockname()[:2]

    @property
    def place(self) -> str:
        """Where it listens, as URLs have it."""
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"

    def __len__(self) -> int:
        return len(self._carrying)

    async def close(self) -> None:
        """Listens no more; breaks what is connected."""
        if self._server:
            self._server.close()
        for task in self._carrying:
            task.cancel()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._carry(reader, writer))
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        carried = False
        try:
            async with opened(self._folder, self.task, self.far_port) as (connection, _):
                carried = True
                await carry(connection, reader, writer)
        except TonyError as error:
            self._tell(str(error))
        finally:
            if not carried:
                with contextlib.suppress(OSError):
                    reset(writer)

    def _tell(self, text: str) -> None:
        now = clock.monotonic()
        if now - self._said.get(text, -_QUIET) >= _QUIET:
            self._said = {other: at for other, at in self._said.items() if now - at < _QUIET}
            self._said[text] = now
            self._notice(text)

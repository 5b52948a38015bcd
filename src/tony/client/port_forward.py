"""A port here that leads to one of a task: each connection goes through the application master to the task's executor.

Nothing but the application master has to be reachable from here. Bytes are handed on as they are; what they mean, and
who may send them, is the affair of the program that listens there. The port is one of this machine's own (127.0.0.1)
unless another address is asked for; there it serves its own user and root, whom the kernel names, and no other user.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tony import clock
from tony.errors import ConnectionFailed, TonyError, UserError
from tony.history.job_record import record_of
from tony.jobs import facts
from tony.jobs.failure_text import outcome
from tony.jobs.log_names import named_tasks
from tony.jobs.tunnel_client import opened
from tony.linux.peer_credentials import is_ours, peer_uid
from tony.model.ids import TaskId
from tony.model.job_record import JobRecord
from tony.model.layout import Home, JobFolder
from tony.rpc.sockets import describe_error
from tony.rpc.tunnel import carry, reset

#: Seconds in which the same sentence is not said again: a browser tries again and again.
_QUIET = 5.0
#: Seconds that a caller waits for an application master if there is none, and between tries.
_GAP, _LOOK_AGAIN = 3.0, 0.05
#: Connections that wait until they are taken.
_BACKLOG = 512
#: Ports below belong to the system.
_UNPRIVILEGED = 1024


class PortForward:
    """Listens here; every connection becomes one to a port of a task.

    Args:
        far_port: of the task; 0 for the one that was reserved for it.
        notice: is told why a connection came to nothing.

    Attributes:
        address, port: where it listens.
    """

    def __init__(self, folder: JobFolder, task: TaskId, far_port: int, notice: Callable[[str], None]) -> None:
        self.address = ""
        self.port = 0
        self.task = task
        self.far_port = far_port
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
            raise UserError(f"cannot listen on {address}:{port}: {describe_error(error)}") from error
        self.address, self.port = self._server.sockets[0].getsockname()[:2]

    @property
    def place(self) -> str:
        """Where it listens, as URLs have it: `127.0.0.1:8888`."""
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"

    async def close(self) -> None:
        """Listens no more; breaks what is connected."""
        if self._server:
            self._server.close()
        for task in self._carrying:
            task.cancel()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._may_enter(writer.get_extra_info("socket")):
            reset(writer)
            return
        task = asyncio.get_running_loop().create_task(self._carry(reader, writer))
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)

    def _may_enter(self, connection: socket.socket) -> bool:
        """Return False for other users of this machine, unless this listens where other machines can connect."""
        if not ipaddress.ip_address(self.address.partition("%")[0]).is_loopback:
            return True
        uid = peer_uid(connection)
        if uid is not None and not is_ours(uid):
            self._tell(f"refused a connection of user {uid}: at {self.place} this serves only you and root")
        return is_ours(uid)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        carried = False
        give_up = clock.monotonic() + _GAP
        try:
            while not carried:
                try:
                    async with opened(self._folder, self.task, self.far_port) as (connection, _):
                        carried = True
                        await carry(connection, reader, writer)
                except ConnectionFailed as error:
                    if carried or not error.gone or clock.monotonic() > give_up:
                        raise
                    await asyncio.sleep(_LOOK_AGAIN)  # between two application masters
        except TonyError as error:
            self._tell(str(error))
        finally:
            if not carried:
                reset(writer)

    def _tell(self, text: str) -> None:
        now = clock.monotonic()
        if now - self._said.get(text, -_QUIET) >= _QUIET:
            self._said = {other: at for other, at in self._said.items() if now - at < _QUIET}
            self._said[text] = now
            self._notice(text)


async def open_proxy(
    home: Home,
    job_id: str,
    target: str,
    far_port: int,
    notice: Callable[[str], None],
    *,
    address: str = "127.0.0.1",
    port: int | None = None,
) -> PortForward:
    """A proxy that listens.

    Args:
        target: `worker:0`, or a role that has one task.
        far_port: of that task; 0 for the one that was reserved for it.
        port: to listen at. None for that of the task, which its program tells to its users, where it is free; on the
            task's own machine, where the program may want it, for any other.

    Raises:
        UserError: there is no such task, the job has ended, or the port cannot be had.
    """
    record = record_of(home, job_id)
    task = _task(record, target)
    report = await facts.load_report(home, job_id)
    if report.state.ended:
        raise UserError(f"there is nothing to connect with: {outcome(report)}")
    host = next((each.host for each in report.tasks if each.task == str(task)), None)
    ours = host is None or _is_here(host)
    if port is not None and port == far_port and host is not None and ours:
        raise UserError(f"port {port} of this machine is the one of {task}; listen at another one")
    proxy = PortForward(home.job(job_id), task, far_port, notice)
    if port is None and far_port >= _UNPRIVILEGED and not ours:
        with contextlib.suppress(UserError):
            await proxy.listen(address, far_port)
            return proxy
    await proxy.listen(address, port or 0)
    return proxy


def _task(record: JobRecord, word: str) -> TaskId:
    found = named_tasks(record.job_id, record.spec.task_ids, (word,)) or frozenset()
    if len(found) > 1:
        raise UserError(f"role {word} has {len(found)} tasks; name one of them: {word}:0")
    return TaskId.parse(next(iter(found)))


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

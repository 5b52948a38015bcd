"""Forwards a local port to a port of a task, through the application master and the task's executor.

Only the application master has to be reachable. Bytes are forwarded unchanged; authentication is up to the program that
listens. By default the local address is 127.0.0.1, where only the own user and root are served, as identified by the
kernel.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Callable
from typing import Self

from tony import clock
from tony.address import format_host
from tony.errors import ConnectionFailedError, TonyError, UserError
from tony.history.job_record import record_of
from tony.jobs.failure_text import format_outcome
from tony.jobs.log_files import select_one_task
from tony.jobs.status import job_status
from tony.jobs.tunnel_client import open_tunnel
from tony.linux.socket_owners import is_ours, peer_uid
from tony.model.ids import TaskId
from tony.model.state_directory import Home, JobFolder
from tony.rpc.sockets import describe_error
from tony.rpc.tunnel import reset

#: Interval before the same notice is repeated: browsers retry continually.
_NOTICE_INTERVAL_SECONDS = 5.0
#: Time that a connection waits for the next application master.
_AM_WAIT_SECONDS = 3.0
_RETRY_SECONDS = 0.05
#: Backlog of the listening socket.
_BACKLOG = 512
#: Lower ports are privileged.
_FIRST_UNPRIVILEGED_PORT = 1024


class PortForward:
    """Listens on a local port and forwards each connection to a port of a task.

    Args:
        task_port: port of the task; 0 for its reserved port.
        notice: receives the reasons of failed connections.

    Attributes:
        address, port: the local address.
    """

    def __init__(self, folder: JobFolder, task: TaskId, task_port: int, notice: Callable[[str], None]) -> None:
        self.address = ""
        self.port = 0
        self.task = task
        self.task_port = task_port
        self._folder = folder
        self._notice = notice
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._last_notices: dict[str, float] = {}

    async def listen(self, address: str, port: int) -> None:
        """Start listening; port 0 means any free port.

        Raises:
            UserError: the port is in use, or not permitted.
        """
        try:
            found = await asyncio.get_running_loop().getaddrinfo(address, port, type=socket.SOCK_STREAM)
            # Only one address: with several, each would get a different port.
            self._server = await asyncio.start_server(self._accept, str(found[0][4][0]), port, backlog=_BACKLOG)
        except OSError as error:
            raise UserError(f"cannot listen on {address}:{port}: {describe_error(error)}") from error
        self.address, self.port = self._server.sockets[0].getsockname()[:2]

    @property
    def place(self) -> str:
        """The local address for URLs: `127.0.0.1:8888`."""
        return f"{format_host(self.address)}:{self.port}"

    async def close(self) -> None:
        """Stop listening and close all connections."""
        if self._server:
            self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._is_allowed(writer.get_extra_info("socket")):
            reset(writer)
            return
        task = asyncio.get_running_loop().create_task(self._forward(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    def _is_allowed(self, connection: socket.socket) -> bool:
        """Return False for other users of this machine, unless other machines can connect as well."""
        if not ipaddress.ip_address(self.address.partition("%")[0]).is_loopback:
            return True
        uid = peer_uid(connection)
        if uid is not None and not is_ours(uid):
            self._notify(f"refused a connection of user {uid}: {self.place} serves only you and root")
        return is_ours(uid)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected = False
        give_up_at = clock.monotonic() + _AM_WAIT_SECONDS
        try:
            while not connected:
                try:
                    async with open_tunnel(self._folder, self.task, self.task_port) as tunnel:
                        connected = True
                        await tunnel.carry(reader, writer)
                except ConnectionFailedError as error:
                    if connected or not error.no_listener or clock.monotonic() > give_up_at:
                        raise
                    await asyncio.sleep(_RETRY_SECONDS)  # between two AM attempts
        except TonyError as error:
            self._notify(str(error))
        finally:
            if not connected:
                reset(writer)

    def _notify(self, text: str) -> None:
        now = clock.monotonic()
        if now - self._last_notices.get(text, -_NOTICE_INTERVAL_SECONDS) >= _NOTICE_INTERVAL_SECONDS:
            self._last_notices = {
                other: at for other, at in self._last_notices.items() if now - at < _NOTICE_INTERVAL_SECONDS
            }
            self._last_notices[text] = now
            self._notice(text)


async def open_proxy(
    home: Home,
    job_id: str,
    target: TaskId | str,
    task_port: int,
    notice: Callable[[str], None],
    *,
    address: str = "127.0.0.1",
    port: int | None = None,
) -> PortForward:
    """Start forwarding a local port to a task.

    Args:
        target: `worker:0`, or a role that has one task.
        task_port: port of that task; 0 for its reserved port.
        port: local port. None for the task's port, which its program prints, if it is free; but for any free port on
            the machine of the task, where the program itself needs its port.

    Raises:
        UserError: there is no such task, the job has ended, or the port is not available.
    """
    record = record_of(home, job_id)
    task = select_one_task(job_id, record.spec.task_ids, target)
    report = await job_status.load_report(home, job_id)
    if report.state.ended:
        raise UserError(f"cannot forward to an ended job: {format_outcome(report)}")
    host = next((each.host for each in report.tasks if each.id == task), None)
    is_local = host is None or _is_local(host)
    if port is not None and port == task_port and host is not None and is_local:
        raise UserError(f"port {port} of this machine is used by {task}; choose another local port")
    proxy = PortForward(home.job(job_id), task, task_port, notice)
    if port is None and task_port >= _FIRST_UNPRIVILEGED_PORT and not is_local:
        with contextlib.suppress(UserError):
            await proxy.listen(address, task_port)
            return proxy
    await proxy.listen(address, port or 0)
    return proxy


def _is_local(host: str) -> bool:
    """Return True if a host name or address is one of this machine."""
    if host == socket.gethostname():
        return True
    try:
        for family, _, _, _, place in socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM):
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.bind(place)
    except OSError:
        return False
    return True

"""One connection to a port of a task, through the application master."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tony.errors import ConnectionFailed, InfraError, ProtocolError
from tony.jobs.am_client import connect_to_am
from tony.model.ids import TaskId
from tony.model.layout import JobFolder
from tony.protocol.messages import OpenTunnel, TunnelFailed, TunnelOpened
from tony.rpc.connection import RpcConnection
from tony.rpc.tunnel import leave

#: Seconds to get an answer: an executor tries a port on several addresses.
_PATIENCE = 45.0
#: Seconds in which a server that was only looked for ends the connection, as servers do.
_GOODBYE = 2.0


class NoTunnel(ConnectionFailed):
    """There is no way to that port of the task now; says why."""


@asynccontextmanager
async def opened(folder: JobFolder, task: TaskId, port: int) -> AsyncIterator[tuple[RpcConnection, str]]:
    """A connection that is one to a port of a task, and what it leads to, `127.0.0.1:8888` on the task's machine.

    Args:
        port: 0 for the one that was reserved for the task.

    Raises:
        NoTunnel: nobody listens there, or the task has no executor now.
        ConnectionFailed: the application master cannot be reached.
        ProtocolError: it refused us.
    """
    async with connect_to_am(folder) as connection:
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


async def answers(folder: JobFolder, task: TaskId, port: int) -> bool:
    """Whether somebody listens there now, as far as that can be told."""
    try:
        async with opened(folder, task, port) as (connection, _):
            await leave(connection, _GOODBYE)
            return True
    except (InfraError, ProtocolError):
        return False

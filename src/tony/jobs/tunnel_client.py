"""Client of tunnels: a connection to a port of a task, through the AM."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tony.errors import ConnectionFailedError, InfraError, ProtocolError
from tony.jobs.am_client import connect_to_am
from tony.model.ids import TaskId
from tony.model.state_directory import JobFolder
from tony.protocol.tunnel_messages import OpenTunnel, TunnelFailed, TunnelOpened
from tony.rpc.tunnel import Tunnel

#: Seconds to wait for an answer: the executor tries a port on several addresses.
_ANSWER_TIMEOUT_SECONDS = 45.0
#: Seconds for a probed server to close the connection.
_CLOSE_TIMEOUT_SECONDS = 2.0


class TunnelError(ConnectionFailedError):
    """The port of the task cannot be reached; the message says why."""


@asynccontextmanager
async def open_tunnel(folder: JobFolder, task: TaskId, port: int) -> AsyncIterator[Tunnel]:
    """Connect to a port of a task; yield the tunnel.

    Args:
        port: 0 for the one reserved for the task.

    Raises:
        TunnelError: no server listens there, or the task has no executor now.
        ConnectionFailedError: the AM cannot be reached.
        ProtocolError: the AM refused this client.
    """
    async with connect_to_am(folder) as connection:
        connection.send(OpenTunnel(task=task, port=port))
        try:
            async with asyncio.timeout(_ANSWER_TIMEOUT_SECONDS):
                answer = await connection.receive()
        except TimeoutError:
            raise ConnectionFailedError(
                f"{connection.peer} did not answer within {_ANSWER_TIMEOUT_SECONDS:g} s"
            ) from None
        if isinstance(answer, TunnelFailed):
            raise TunnelError(answer.reason)
        if not isinstance(answer, TunnelOpened):
            raise ConnectionFailedError(f"{connection.peer} closed the connection without an answer", no_listener=True)
        yield Tunnel(connection)


async def is_answering(folder: JobFolder, task: TaskId, port: int) -> bool:
    """Return True if a server listens there now, as far as can be determined."""
    try:
        async with open_tunnel(folder, task, port) as tunnel:
            await tunnel.leave(_CLOSE_TIMEOUT_SECONDS)
            return True
    except (InfraError, ProtocolError):
        return False

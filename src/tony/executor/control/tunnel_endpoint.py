"""Ports of this machine, for clients that can reach only the application master.

For each client connection the executor opens one to the port and another to the application master, which joins it to
the client's. Loaded for the first tunnel.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable

from tony.address import format_host
from tony.errors import ConnectionFailedError, ProtocolError
from tony.executor.control.am_connection import Reach
from tony.linux import os_errors
from tony.protocol.launch import LaunchContext
from tony.protocol.tunnel_messages import DialTunnel, JoinTunnel, TunnelFailed
from tony.rpc.client_connection import connect
from tony.rpc.sockets import describe_error
from tony.rpc.tunnel import Tunnel, reset

log = logging.getLogger(__name__)

#: Seconds that connecting to each address may take.
_CONNECT_TIMEOUT_SECONDS = 5.0
#: Most programs listen here, whatever else they do.
_LOOPBACK = ("127.0.0.1", "::1")
#: Nothing listens at the address, or this machine has no such address.
_NOT_LISTENING = {errno.ECONNREFUSED, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.ENETUNREACH}

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class TunnelEndpoint:
    """All tunnels of one executor.

    Args:
        reach: the current address of the application master.
        own_port: returns the port reserved for the program, for requests that name none.
        send: sends a message to the application master.
    """

    def __init__(
        self,
        context: LaunchContext,
        reach: Reach,
        own_port: Callable[[], int],
        send: Callable[[TunnelFailed], None],
    ) -> None:
        self._context = context
        self._reach = reach
        self._own_port = own_port
        self._send = send
        self._tasks: set[asyncio.Task[None]] = set()

    def dial(self, message: DialTunnel) -> None:
        task = asyncio.get_running_loop().create_task(self._dial(message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()

    async def _dial(self, message: DialTunnel) -> None:
        try:
            streams, address = await self._connect_to_port(message.port or self._own_port())
        except OSError as error:
            self._send(TunnelFailed(tunnel=message.tunnel, reason=str(error)))
            return
        try:
            connection = await connect(self._reach.address, self._context.credentials)
        except (ConnectionFailedError, ProtocolError, OSError) as error:
            reset(streams[1])
            self._send(TunnelFailed(tunnel=message.tunnel, reason=f"the executor cannot connect to the AM: {error}"))
            return
        except BaseException:
            reset(streams[1])
            raise
        log.debug("tunnel opened to %s", address)
        connection.send(JoinTunnel(tunnel=message.tunnel, address=address))
        await Tunnel(connection).carry(*streams)

    async def _connect_to_port(self, port: int) -> tuple[_Streams, str]:
        """Connect to a local port.

        Raises:
            OSError: nothing listens there; the message is for the user.
        """
        task, host = self._context.task, self._context.container.host
        failures = []
        for place in dict.fromkeys((*_LOOPBACK, host)):
            try:
                async with asyncio.timeout(_CONNECT_TIMEOUT_SECONDS):
                    streams = await asyncio.open_connection(place, port)
            except TimeoutError:
                failures.append(f"{place} does not answer")
            except OSError as error:
                if error.errno not in _NOT_LISTENING:
                    failures.append(f"{place}: {os_errors.explain(error) or describe_error(error)}")
            else:
                if not _is_itself(streams[1]):
                    return streams, f"{format_host(place)}:{port}"
                reset(streams[1])
        why = "; ".join(failures) or "nothing listens there"
        raise OSError(f"port {port} of {task.id} on {host}: {why}")


def _is_itself(writer: asyncio.StreamWriter) -> bool:
    """Return True if a connection is connected to itself: the kernel may pick the destination port as source port."""
    return bool(writer.get_extra_info("sockname") == writer.get_extra_info("peername"))

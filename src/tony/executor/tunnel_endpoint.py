"""Ports of our machine, reached by clients that reach only the application master.

For each connection of theirs we make one to the port, and a further one to the application master, which joins it to
the client's. Loaded when the first one is wanted.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable

from tony.errors import ConnectionFailed, ProtocolError
from tony.executor.am_connection import Reach
from tony.linux import resource_limits
from tony.protocol.launch import LaunchContext
from tony.protocol.messages import DialTunnel, JoinTunnel, TunnelFailed
from tony.rpc.client_connection import connect
from tony.rpc.sockets import describe_error
from tony.rpc.tunnel import carry, reset

log = logging.getLogger(__name__)

#: Seconds that each address may take to answer.
_ANSWER = 5.0
#: Most programs listen here, whatever else they do.
_HERE = ("127.0.0.1", "::1")
#: Nobody listens at an address, or there is no such address here.
_NOBODY = {errno.ECONNREFUSED, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.ENETUNREACH}

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class TunnelEndpoint:
    """All tunnels of one executor.

    Args:
        reach: knows where the application master is.
        own_port: the port that was reserved for the program; called when it is asked for.
        tell: sends a message to the application master.
    """

    def __init__(
        self,
        context: LaunchContext,
        reach: Reach,
        own_port: Callable[[], int],
        tell: Callable[[TunnelFailed], None],
    ) -> None:
        self._context = context
        self._reach = reach
        self._own_port = own_port
        self._tell = tell
        self._tasks: set[asyncio.Task[None]] = set()

    def dial(self, message: DialTunnel) -> None:
        """Somebody wants one."""
        task = asyncio.get_running_loop().create_task(self._dial(message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """Ends them all."""
        for task in list(self._tasks):
            task.cancel()

    async def _dial(self, message: DialTunnel) -> None:
        try:
            streams, address = await self._reached(message.port or self._own_port())
        except OSError as error:
            self._tell(TunnelFailed(tunnel=message.tunnel, reason=str(error)))
            return
        try:
            connection = await connect(self._reach.address, self._context.credentials)
        except (ConnectionFailed, ProtocolError, OSError) as error:
            reset(streams[1])
            self._tell(TunnelFailed(tunnel=message.tunnel, reason=f"the executor cannot connect: {error}"))
            return
        except BaseException:
            reset(streams[1])
            raise
        log.debug("a tunnel to %s", address)
        connection.send(JoinTunnel(tunnel=message.tunnel, address=address))
        await carry(connection, *streams)

    async def _reached(self, port: int) -> tuple[_Streams, str]:
        """A connection to one of our ports.

        Raises:
            OSError: nobody listens, in words for people.
        """
        task, host = self._context.task, self._context.container.host
        failures = []
        for place in dict.fromkeys((*_HERE, host)):
            try:
                async with asyncio.timeout(_ANSWER):
                    streams = await asyncio.open_connection(place, port)
            except TimeoutError:
                failures.append(f"{place} does not answer")
            except OSError as error:
                if error.errno not in _NOBODY:
                    failures.append(f"{place}: {resource_limits.explain(error) or describe_error(error)}")
            else:
                if not _is_itself(streams[1]):
                    return streams, f"[{place}]:{port}" if ":" in place else f"{place}:{port}"
                reset(streams[1])
        why = "; ".join(failures) or "nothing listens there"
        raise OSError(f"port {port} of {task.role}:{task.index} on {host}: {why}")


def _is_itself(writer: asyncio.StreamWriter) -> bool:
    """Whether a connection leads to its own beginning: one to a free port may, if the kernel gives it that port."""
    return bool(writer.get_extra_info("sockname") == writer.get_extra_info("peername"))

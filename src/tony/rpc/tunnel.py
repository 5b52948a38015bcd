"""One end of a tunnel: bytes between an RPC connection and another socket, in both directions at once.

Each side reads no faster than the other takes, so only a few pieces are buffered anywhere. Each direction ends
separately. If the tunnel breaks, the socket is reset, so that a truncated transfer is not taken for a complete one.
"""

from __future__ import annotations

import asyncio
import contextlib

from tony.errors import ConnectionFailedError, ProtocolError
from tony.protocol.error_codes import Code
from tony.protocol.framing import MAX_RAW, Raw
from tony.protocol.tunnel_messages import EndTunnel, TunnelTaken
from tony.rpc.connection import RpcConnection
from tony.rpc.sockets import reset_at_close

#: Seconds between checks whether the other side is gone, for an end that does not read because it cannot write.
_CHECK_SECONDS = 10.0


class Tunnel:
    """One end of a tunnel.

    Args:
        connection: one whose other end knows that it is a tunnel.
    """

    def __init__(self, connection: RpcConnection) -> None:
        self._connection = connection

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Forward bytes until both directions have ended, and close both; return True if everything has arrived."""
        whole = False
        try:
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(_watch(self._connection))
                sending = group.create_task(_send(self._connection, reader))
                await _receive(self._connection, writer)
                await sending
                watching.cancel()
            whole = True
        except* (OSError, ConnectionFailedError, ProtocolError):
            pass
        finally:
            if whole:
                self._connection.close()
                writer.close()
            else:
                self._connection.abort(reset=True)
                reset(writer)
        await self._connection.wait_closed()
        return whole

    async def leave(self, timeout: float) -> None:
        """Close a tunnel in order without sending anything: to the program, a caller that hung up.

        Args:
            timeout: seconds that the program may take to end its direction; then the tunnel breaks.
        """
        self._connection.send(EndTunnel())
        with contextlib.suppress(TimeoutError, ProtocolError):
            async with asyncio.timeout(timeout):
                while (message := await self._connection.receive()) is not None:
                    if isinstance(message, EndTunnel):
                        self._connection.send(TunnelTaken())


def reset(writer: asyncio.StreamWriter) -> None:
    """Close a socket with a reset, visibly abnormal to the other side."""
    reset_at_close(writer.transport)
    writer.transport.abort()


async def _send(connection: RpcConnection, reader: asyncio.StreamReader) -> None:
    while data := await reader.read(MAX_RAW):
        connection.send_frame(Raw.from_bytes(data).frame)
        await connection.drain()
        if connection.is_finished:
            raise ConnectionFailedError("the tunnel broke")
    connection.send(EndTunnel())


async def _receive(connection: RpcConnection, writer: asyncio.StreamWriter) -> None:
    ended = taken = False
    while not (ended and taken):
        match await connection.receive():
            case Raw() as piece if not ended:
                writer.write(piece.data)
                await writer.drain()
            case EndTunnel() if not ended:
                await _finish(writer)
                connection.send(TunnelTaken())
                ended = True
            case TunnelTaken():
                taken = True
            case None:
                raise ConnectionFailedError("the tunnel broke")
            case other:
                raise ProtocolError(Code.BAD_MESSAGE, f"a tunnel may not carry {other.kind}")


async def _finish(writer: asyncio.StreamWriter) -> None:
    """Shut down the sending direction once the kernel has all data."""
    writer.transport.set_write_buffer_limits(high=0)
    await writer.drain()
    writer.write_eof()


async def _watch(connection: RpcConnection) -> None:
    hung_up = False
    while True:
        await asyncio.sleep(_CHECK_SECONDS)
        before, hung_up = hung_up, connection.hung_up
        if before and hung_up:  # twice, so that the last data can still be read
            raise ConnectionFailedError("the tunnel broke")

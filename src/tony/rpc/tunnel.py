"""One end of a tunnel: bytes between a connection of ours and somebody else's socket, both ways at once.

Each side reads no faster than the other takes: at no place between two programs more than a few pieces wait. Each way
ends by itself. What was cut off looks cut off: the socket is reset, so that nobody takes half a file for a whole one.
"""

from __future__ import annotations

import asyncio
import contextlib

from tony.errors import ConnectionFailed, ProtocolError
from tony.protocol.error_codes import Code
from tony.protocol.framing import MAX_RAW, Raw
from tony.protocol.messages import EndTunnel, TunnelTaken
from tony.rpc.connection import RpcConnection
from tony.rpc.sockets import reset_at_close

#: Seconds between two looks whether the other side is gone, for an end that does not read because it cannot write.
_LOOK = 10.0


async def carry(connection: RpcConnection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Hands bytes on until both ways have ended; closes both. Answers whether everything has arrived.

    Args:
        connection: of which the other end knows that it is a tunnel's.
    """
    whole = False
    try:
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(_watch(connection))
            sending = group.create_task(_send(connection, reader))
            await _receive(connection, writer)
            await sending
            watching.cancel()
        whole = True
    except* (OSError, ConnectionFailed, ProtocolError):
        pass
    finally:
        if whole:
            connection.close()
            writer.close()
        else:
            connection.abort(reset=True)
            reset(writer)
    await connection.wait_closed()
    return whole


async def leave(connection: RpcConnection, patience: float) -> None:
    """Ends a tunnel in order, without having said anything: to the program, a caller who has changed his mind.

    Args:
        patience: seconds that the program may take to end its own way; then the tunnel breaks.
    """
    connection.send(EndTunnel())
    with contextlib.suppress(TimeoutError, ProtocolError):
        async with asyncio.timeout(patience):
            while (message := await connection.receive()) is not None:
                if isinstance(message, EndTunnel):
                    connection.send(TunnelTaken())


def reset(writer: asyncio.StreamWriter) -> None:
    """Ends a socket in such a way that the other side sees that something is wrong."""
    reset_at_close(writer.transport)
    writer.transport.abort()


async def _send(connection: RpcConnection, reader: asyncio.StreamReader) -> None:
    while data := await reader.read(MAX_RAW):
        connection.send_frame(Raw.of(data).frame)
        await connection.drain()
        if connection.is_over:
            raise ConnectionFailed("the tunnel broke")
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
                raise ConnectionFailed("the tunnel broke")
            case other:
                raise ProtocolError(Code.BAD_MESSAGE, f"a tunnel may not carry {other.kind}")


async def _finish(writer: asyncio.StreamWriter) -> None:
    """Ends our direction once the kernel has all of it."""
    writer.transport.set_write_buffer_limits(high=0)
    await writer.drain()
    writer.write_eof()


async def _watch(connection: RpcConnection) -> None:
    gone = False
    while True:
        await asyncio.sleep(_LOOK)
        before, gone = gone, connection.hung_up
        if before and gone:  # not just now: then its last words are still to be read
            raise ConnectionFailed("the tunnel broke")

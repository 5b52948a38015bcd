"""The standard streams of a remote program: three pipes or a terminal, and what carries its output to the client."""

from __future__ import annotations

import os
import termios
from collections.abc import Sequence

from tony.linux.file_readiness import wait_readable
from tony.protocol.remote_program_messages import MAX_PIECE_BYTES, ProgramStream, WindowSize, build_piece
from tony.rpc.connection import RpcConnection


def open_pipes() -> tuple[dict[ProgramStream, int], Sequence[int]]:
    """Return the own ends of three pipes, and those of the program.

    Raises:
        OSError: there are too many open files.
    """
    opened: list[int] = []
    try:
        for _ in ProgramStream:
            opened += os.pipe2(os.O_CLOEXEC)
    except OSError:
        for number in opened:
            os.close(number)
        raise
    their_input, own_input, own_output, their_output, own_error, their_error = opened
    own = {ProgramStream.INPUT: own_input, ProgramStream.OUTPUT: own_output, ProgramStream.ERROR: own_error}
    return own, (their_input, their_output, their_error)


def open_terminal(size: WindowSize) -> tuple[dict[ProgramStream, int], Sequence[int]]:
    """Return the own end of a terminal, for input and output, and the program's end, three times.

    Raises:
        OSError: there are too many open files, or no terminals.
    """
    own, other = os.openpty()
    try:
        set_window_size(other, size)
    except (OSError, termios.error) as error:  # the latter is no OSError
        os.close(own)
        os.close(other)
        raise OSError(*error.args) from error
    return {ProgramStream.INPUT: own, ProgramStream.OUTPUT: own}, (other, other, other)


def set_window_size(number: int, size: WindowSize) -> None:
    """Set the size of a terminal's window; its foreground programs get SIGWINCH."""
    limited = size.limit()
    termios.tcsetwinsize(number, (limited.rows, limited.columns))


async def send_output(number: int, stream: ProgramStream, connection: RpcConnection) -> None:
    """Send what the program writes, as fast as the client takes it, until no process can write."""
    while not connection.is_finished:
        await wait_readable(number)
        try:
            data = os.read(number, MAX_PIECE_BYTES)
        except BlockingIOError:
            continue
        except OSError:  # EIO: no process has the terminal open
            return
        if not data:
            return
        connection.send_frame(build_piece(stream, data).frame)
        await connection.drain()

"""Remote programs: a user's command in a task's container, from a client through the AM to an executor.

As with a tunnel, a connection of the client is joined with one of the executor (`JoinTunnel`, `TunnelOpened`,
`TunnelFailed`). Afterwards both carry pieces of the program's streams: `framing.Raw`, whose first byte is the stream.
Output is read as fast as the client takes it. Of the input at most `INPUT_WINDOW_BYTES` are on their way, so that an
executor reads the connection even if the program does not: interrupts and window sizes are never stuck behind input.
"""

from __future__ import annotations

from dataclasses import field
from enum import IntEnum

from tony.model.ids import TaskId
from tony.model.value_class import value_class
from tony.protocol.framing import MAX_RAW, Raw
from tony.protocol.message_base import Message

#: Maximum bytes of a program's arguments together: more belong into a file, or standard input.
MAX_ARGUMENTS_BYTES = 128 << 10
#: Maximum bytes of input that the client has sent and the program has not read.
INPUT_WINDOW_BYTES = 256 << 10
#: Maximum bytes of a stream in one piece.
MAX_PIECE_BYTES = MAX_RAW - 1
#: A signal's exit code in a shell is this and its number.
SIGNAL_BASE = 128
#: Maximum rows and columns of a terminal (the kernel's type is a short).
_MAX_CELLS = 2**16 - 1


class ProgramStream(IntEnum):
    """A standard stream of a remote program, by its file descriptor."""

    INPUT = 0
    OUTPUT = 1
    ERROR = 2


def build_piece(stream: ProgramStream, data: bytes) -> Raw:
    """Build a piece of a stream, of at most `MAX_PIECE_BYTES`."""
    return Raw.from_bytes(bytes((stream,)) + data)


def split_piece(piece: Raw) -> tuple[int, memoryview]:
    """Return the number of the stream, -1 for an empty piece, and the bytes."""
    data = piece.data
    return (data[0] if data else -1), data[1:]


@value_class
class WindowSize:
    """The size of a terminal's window in characters."""

    rows: int
    columns: int

    def limit(self) -> WindowSize:
        """Return a size that the kernel accepts."""
        rows, columns = (min(max(cells, 0), _MAX_CELLS) for cells in (self.rows, self.columns))
        return WindowSize(rows=rows, columns=columns)


@value_class
class ClientTerminal:
    """The terminal of the client.

    Attributes:
        kind: its TERM.
    """

    size: WindowSize
    kind: str


@value_class
class RunInTask(Message, kind="run-in-task"):
    """From a client: run a program in a task's container, and turn this connection into its streams.

    Attributes:
        argv: each byte as one character, as arguments need not be text; empty for a shell.
        terminal: the program gets a terminal like it; None: three streams.
    """

    actor: str
    task: TaskId
    argv: tuple[str, ...] = field(repr=False)
    terminal: ClientTerminal | None = None


@value_class
class StartRemoteProgram(Message, kind="start-remote-program"):
    """To an executor: start the program, and join its streams on a new connection with `JoinTunnel`.

    Attributes:
        tunnel: a secret id.
        argv, terminal: as of `RunInTask`.
    """

    tunnel: str = field(repr=False)
    argv: tuple[str, ...] = field(repr=False)
    terminal: ClientTerminal | None = None


@value_class
class InterruptProgram(Message, kind="interrupt-program"):
    """From the client: SIGINT to the program's process group."""


@value_class
class ResizeWindow(Message, kind="resize-window"):
    """From the client: its terminal has another size."""

    size: WindowSize


@value_class
class InputTaken(Message, kind="input-taken"):
    """To the client: the program's end of standard input has taken this number of bytes more."""

    size: int


@value_class
class RemoteProgramExited(Message, kind="remote-program-exited"):
    """To the client, after all output: the program has exited. The client closes the connection.

    Attributes:
        code: exit code; 128 + number of the signal that ended it.
        reason: why tony ended it, for users; empty if it exited by itself.
    """

    code: int
    reason: str = ""


def encode_arguments(argv: tuple[bytes, ...]) -> tuple[str, ...]:
    """Return arguments as `RunInTask` has them."""
    return tuple(part.decode("latin-1") for part in argv)


def decode_arguments(argv: tuple[str, ...]) -> tuple[bytes, ...]:
    """Return the arguments of `RunInTask`.

    Raises:
        ValueError: they are too long together, contain a NUL byte, or are not bytes; the message does not quote them.
    """
    try:
        decoded = tuple(part.encode("latin-1") for part in argv)
    except UnicodeEncodeError:
        raise ValueError("an argument of the command is not encoded as bytes") from None
    size = sum(len(part) + 1 for part in decoded)
    if size > MAX_ARGUMENTS_BYTES:
        raise ValueError(
            f"the command has {size} bytes; at most {MAX_ARGUMENTS_BYTES} can be passed. Put it in a file, or pass it "
            "on standard input"
        )
    if any(b"\0" in part for part in decoded):
        raise ValueError("an argument of the command contains a NUL byte, which Linux cannot pass")
    return decoded

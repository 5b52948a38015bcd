"""Program output: requested by a client from the application master, which forwards it to an executor."""

from __future__ import annotations

from tony.model.ids import TaskId
from tony.model.value_class import value_class
from tony.protocol.message_base import Message

#: Maximum bytes of output in one `LogPiece`.
LOG_PIECE = 64 << 10


@value_class
class ReadLog(Message, kind="read-log"):
    """Request one `LogPiece` of a task's stream. The AM forwards it.

    A stream is all that a task prints to stdout or stderr, over all sessions and task attempts: a file each, in order.
    A reader requests one piece after the other, each from the end of the last one: so nothing is sent faster than it is
    read, and a broken connection loses nothing.

    Attributes:
        reader: the client's own number for this stream; a new request with that number replaces the old one.
        stream: `out` or `err`.
        name, offset: the position: a file, and bytes from its program's first one on. What was printed later counts as
            after it. No name: from the beginning.
        wait: answer only when there is data; otherwise at once, perhaps without data.
        most: maximum bytes of data in the answer; never more than `LOG_PIECE`.
    """

    reader: int
    task: TaskId
    stream: str
    name: str = ""
    offset: int = 0
    wait: bool = False
    most: int = LOG_PIECE


@value_class
class DropLog(Message, kind="drop-log"):
    """Stop reading; no answer is expected."""

    reader: int


@value_class
class LogPiece(Message, kind="log-piece"):
    """A piece of a program's output.

    Attributes:
        name: the file; empty if there is nothing.
        start: offset of the first byte of that file on disk: a full file is renamed and a new one begun.
        offset: of the data; greater than requested if the older output was removed.
        data: base64.
        last: from an executor that exits: it has sent everything.
        missed: from the AM: some output cannot be read, because its executor is gone.
        over: from an AM that exits: nothing more will come of this stream.
    """

    reader: int
    name: str = ""
    start: int = 0
    offset: int = 0
    data: str = ""
    last: bool = False
    missed: bool = False
    over: bool = False

"""Program output: requested by a client from the application master, which forwards it to an executor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tony.model.ids import TaskId
from tony.model.value_class import value_class
from tony.protocol.message_base import Message

#: Maximum bytes of output in one `LogPiece`.
LOG_PIECE = 64 << 10
_MAX_MOMENT = 1 << 50
#: Maximum numbers in the times of one `LogPiece`: an index of times takes at most a quarter of its log.
MAX_PIECE_TIMES = LOG_PIECE // 4


def pack_times(times: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    """Return offsets and times as `LogPiece.times` has them."""
    packed: list[int] = []
    before = (0, 0)
    for offset, moment in times:
        packed += (offset - before[0], moment - before[1])
        before = (offset, moment)
    return tuple(packed[:MAX_PIECE_TIMES])


def unpack_times(packed: Sequence[int]) -> list[tuple[int, int]]:
    """Return the offsets and times of a `LogPiece`; those after an invalid one are left out."""
    times: list[tuple[int, int]] = []
    offset = moment = 0
    for further, later in zip(packed[::2], packed[1::2], strict=False):
        offset, moment = offset + further, moment + later
        if further < 0 or later < 0 or offset > LOG_PIECE or moment >= _MAX_MOMENT:
            break
        times.append((offset, moment))
    return times


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
        tail: return the last bytes of the file `name`, without regard to `offset` and `wait`; answered once.
    """

    reader: int
    task: TaskId
    stream: str
    name: str = ""
    offset: int = 0
    wait: bool = False
    most: int = LOG_PIECE
    tail: bool = False


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
        times: of the data: the first known offset in it and its time, in hundredths of a second since 1970; then by how
            much each following offset and time is greater. May be empty.
        last: from an executor that exits: it has sent everything.
        missed: from the AM: some output cannot be read, because its executor is gone.
        over: from an AM that exits: nothing more will come of this stream.
    """

    reader: int
    name: str = ""
    start: int = 0
    offset: int = 0
    data: str = ""
    times: tuple[int, ...] = ()
    last: bool = False
    missed: bool = False
    over: bool = False

"""What programs print, on its way from executors to clients that ask for it piece by piece.

A client holds as many requests open as it has credit for; each is handed on to the executor of its task, or waits here
until there is one. Nothing is kept of what comes back: a piece goes to whoever asked. Where nobody asks, all this costs
is one look into an empty table when an executor comes or goes.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from itertools import count

from tony.dataclass import dataclass, replace
from tony.model.ids import TaskId
from tony.protocol.error_codes import Code
from tony.protocol.messages import LOG_PIECE, DropLog, LogPiece, Message, ReadLog
from tony.rpc.connection import RpcConnection

#: Bytes that the open requests of one client may bring, in all: so much may wait for it here.
CREDIT = 16 << 20
#: Streams that one client may read: both of each task of the largest job there may be.
_MOST_READERS = 40_000
#: Characters of a file's name.
_LONGEST_NAME = 200
_STREAMS = ("out", "err")
#: Characters that a piece's data may have.
_LONGEST_DATA = 4 * ((LOG_PIECE + 2) // 3)
_LARGEST = 2**62


@dataclass(slots=True, eq=False)
class _Reader:
    """One client's reader of one stream.

    Attributes:
        number: ours for it, which its executor knows it by.
        ask: the client's last request.
        open: it has no answer yet.
        told_last: its executor ends, and has told it everything.
        missed: something was lost to it of which the client has not been told yet.
    """

    number: int
    client: RpcConnection
    task: TaskId
    ask: ReadLog
    open: bool = False
    told_last: bool = False
    missed: bool = False


class LogRelay:
    """All readers of a job's output.

    Args:
        send: to a task's executor; False if there is none at the moment.
        tasks: of the job.
        late: there was another application master before: what its executors printed is lost to us.
    """

    def __init__(
        self, send: Callable[[TaskId, Message], bool], tasks: Container[TaskId], *, late: bool = False
    ) -> None:
        self._send = send
        self._tasks = tasks
        self._late = late
        self._numbers = count(1)
        self._readers: dict[int, _Reader] = {}
        self._of_client: dict[RpcConnection, dict[int, _Reader]] = {}
        self._of_task: dict[TaskId, dict[int, _Reader]] = {}
        self._credit: dict[RpcConnection, int] = {}
        self._gone: set[TaskId] = set()
        self._over = False

    def __len__(self) -> int:
        return len(self._readers)

    # --- clients --------------------------------------------------------------------------------------------------

    def ask(self, client: RpcConnection, message: ReadLog) -> None:
        """A client wants a piece. Refuses the client if it asks for what nobody may have."""
        task, error = self._checked(message)
        if task is None:
            client.refuse(Code.BAD_MESSAGE, error)
            return
        message = replace(message, most=min(message.most, LOG_PIECE))
        mine = self._of_client.setdefault(client, {})
        reader = mine.get(message.reader)
        if reader is None or reader.task != task or reader.ask.stream != message.stream:
            if reader:
                self._forget(reader)
            if len(mine) >= _MOST_READERS:
                client.refuse(Code.BUSY, f"{len(mine)} streams are read already")
                return
            reader = _Reader(next(self._numbers), client, task, message, missed=self._late or task in self._gone)
            self._readers[reader.number] = mine[message.reader] = reader
            self._of_task.setdefault(task, {})[reader.number] = reader
        elif reader.open:
            self._close(reader)
        self._credit[client] = self._credit.get(client, 0) + message.most
        reader.ask, reader.open = message, True
        if self._credit[client] > CREDIT:
            client.refuse(Code.BUSY, f"requests for more than {CREDIT} bytes are open")
        elif self._over:
            self._answer(reader, LogPiece(reader=0, missed=reader.missed, over=True))
        elif reader.missed:
            self._tell_missed(reader)
        else:
            self._forward(reader)

    def drop(self, client: RpcConnection, message: DropLog) -> None:
        """A client reads a stream no more."""
        reader = self._of_client.get(client, {}).get(message.reader)
        if reader:
            self._forget(reader)

    def closed(self, client: RpcConnection) -> None:
        """A client is gone."""
        for reader in list(self._of_client.get(client, {}).values()):
            self._forget(reader)
        self._of_client.pop(client, None)
        self._credit.pop(client, None)

    def finish(self) -> None:
        """No executor is left: whoever waits is told that nothing more will come."""
        self._over = True
        for reader in list(self._readers.values()):
            if reader.open:
                self._answer(reader, LogPiece(reader=0, missed=reader.missed, over=True))

    # --- executors ------------------------------------------------------------------------------------------------

    def attached(self, task: TaskId) -> None:
        """A task's executor is there, or there again: it learns who reads."""
        for reader in list(self._of_task.get(task, {}).values()):
            if reader.open:
                self._forward(reader)

    def gone(self, task: TaskId, *, printed: bool) -> None:
        """An executor will not come back.

        Args:
            printed: whether its program had.
        """
        if not printed:
            return
        self._gone.add(task)
        for reader in list(self._of_task.get(task, {}).values()):
            if not reader.told_last:
                reader.missed = True
                if reader.open:
                    self._tell_missed(reader)

    def came(self, task: TaskId, piece: LogPiece) -> bool:
        """An executor answers; False if that is no answer that an executor in its senses would give."""
        if len(piece.data) > _LONGEST_DATA or len(piece.name) > _LONGEST_NAME:
            return False
        reader = self._readers.get(piece.reader)
        if reader is None or reader.task != task or not reader.open:
            return True  # its client has gone meanwhile
        if piece.last:
            reader.told_last = True
            if reader.ask.wait:
                return True  # until the task has another executor, or the job ends
        self._answer(reader, replace(piece, last=False, missed=False, over=False))
        return True

    # --- inside ---------------------------------------------------------------------------------------------------

    def _checked(self, message: ReadLog) -> tuple[TaskId | None, str]:
        try:
            task = TaskId.parse(message.task)
        except ValueError as error:
            return None, str(error)
        if task not in self._tasks:
            return None, f"the job has no task {task}"
        if message.stream not in _STREAMS or len(message.name) > _LONGEST_NAME:
            return None, "a stream is called out or err, and a file's name is short"
        if not (0 <= message.offset < _LARGEST and 0 < message.most < _LARGEST and abs(message.reader) < _LARGEST):
            return None, "a number that makes no sense"
        return task, ""

    def _forward(self, reader: _Reader) -> None:
        reader.told_last = False
        if not self._send(reader.task, replace(reader.ask, reader=reader.number)) and not reader.ask.wait:
            self._answer(reader, LogPiece(reader=0))

    def _tell_missed(self, reader: _Reader) -> None:
        reader.missed = False
        self._answer(reader, LogPiece(reader=0, missed=True))

    def _answer(self, reader: _Reader, piece: LogPiece) -> None:
        self._close(reader)
        reader.client.send(replace(piece, reader=reader.ask.reader))

    def _close(self, reader: _Reader) -> None:
        if reader.open:
            reader.open = False
            self._credit[reader.client] -= reader.ask.most

    def _forget(self, reader: _Reader) -> None:
        self._close(reader)
        del self._readers[reader.number]
        self._of_client[reader.client].pop(reader.ask.reader, None)
        others = self._of_task[reader.task]
        del others[reader.number]
        if not others:
            del self._of_task[reader.task]
        self._send(reader.task, DropLog(reader=reader.number))

"""Relays program output from executors to clients, which request it piece by piece.

A client keeps as many requests open as it has credit for; each is forwarded to the executor of its task, or waits here
until there is one. Output is not stored: a piece goes to the client that requested it. Without requests the cost is
one lookup in an empty table when an executor connects or leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from itertools import count

from tony.model.ids import TaskId
from tony.model.log_name import STREAMS
from tony.protocol.error_codes import Code
from tony.protocol.message_base import Message
from tony.protocol.output_messages import LOG_PIECE, MAX_PIECE_TIMES, DropLog, LogPiece, ReadLog
from tony.rpc.connection import RpcConnection

#: Bytes that all open requests of one client may return: so much may be buffered for it here.
MAX_BUFFERED_BYTES = 16 << 20
#: Streams that one client may read: two of each task of the largest possible job.
_MAX_READERS = 40_000
#: Maximum characters of a file's name.
_MAX_NAME = 200
#: Maximum characters of a piece's data.
_MAX_DATA = 4 * ((LOG_PIECE + 2) // 3)
_LARGEST = 2**62


@dataclass(slots=True, eq=False)
class _RelayReader:
    """One client's reader of one stream.

    Attributes:
        number: the AM's number for it, which the executor uses.
        request: the client's last request.
        open: that request has no answer yet.
        sent_last: its executor is exiting, and has sent everything.
        missed: some output was lost, and the client has not been told yet.
    """

    number: int
    client: RpcConnection
    task: TaskId
    request: ReadLog
    open: bool = False
    sent_last: bool = False
    missed: bool = False


class LogRelay:
    """All readers of a job's output.

    Args:
        send: sends to a task's executor; returns False if none is connected.
        late: there was an earlier AM attempt: the output of its executors is no longer readable.
    """

    def __init__(
        self, send: Callable[[TaskId, Message], bool], tasks: Container[TaskId], *, late: bool = False
    ) -> None:
        self._send = send
        self._tasks = tasks
        self._late = late
        self._numbers = count(1)
        self._readers: dict[int, _RelayReader] = {}
        self._of_client: dict[RpcConnection, dict[int, _RelayReader]] = {}
        self._of_task: dict[TaskId, dict[int, _RelayReader]] = {}
        self._credit: dict[RpcConnection, int] = {}
        self._exited: set[TaskId] = set()
        self._is_finished = False

    def __len__(self) -> int:
        return len(self._readers)

    # --- clients --------------------------------------------------------------------------------------------------

    def on_request(self, client: RpcConnection, message: ReadLog) -> None:
        """Handle a client's request for a piece; refuse the client if the request is invalid."""
        reason = self._explain_refusal(message)
        if reason:
            client.refuse(Code.BAD_MESSAGE, reason)
            return
        task = message.task
        message = replace(message, most=min(message.most, LOG_PIECE))
        client_readers = self._of_client.setdefault(client, {})
        reader = client_readers.get(message.reader)
        if reader is None or reader.task != task or reader.request.stream != message.stream:
            if reader:
                self._forget(reader)
            if len(client_readers) >= _MAX_READERS:
                client.refuse(Code.BUSY, f"{len(client_readers)} streams are being read already, which is the maximum")
                return
            reader = _RelayReader(next(self._numbers), client, task, message, missed=self._late or task in self._exited)
            self._readers[reader.number] = client_readers[message.reader] = reader
            self._of_task.setdefault(task, {})[reader.number] = reader
        elif reader.open:
            self._close(reader)
        self._credit[client] = self._credit.get(client, 0) + message.most
        reader.request, reader.open = message, True
        if self._credit[client] > MAX_BUFFERED_BYTES:
            client.refuse(Code.BUSY, f"requests for more than {MAX_BUFFERED_BYTES} bytes are open")
        elif self._is_finished:
            self._answer(reader, LogPiece(reader=0, missed=reader.missed, over=True))
        elif reader.missed:
            self._tell_missed(reader)
        else:
            self._forward(reader)

    def drop(self, client: RpcConnection, message: DropLog) -> None:
        """Handle that a client stops reading a stream."""
        reader = self._of_client.get(client, {}).get(message.reader)
        if reader:
            self._forget(reader)

    def on_closed(self, client: RpcConnection) -> None:
        """Handle that a client has disconnected."""
        for reader in list(self._of_client.get(client, {}).values()):
            self._forget(reader)
        self._of_client.pop(client, None)
        self._credit.pop(client, None)

    def finish(self) -> None:
        """Tell all waiting clients that no executor is left and no more output will come."""
        self._is_finished = True
        for reader in list(self._readers.values()):
            if reader.open:
                self._answer(reader, LogPiece(reader=0, missed=reader.missed, over=True))

    # --- executors ------------------------------------------------------------------------------------------------

    def on_attached(self, task: TaskId) -> None:
        """Forward the open requests to a task's executor that has (re)connected."""
        for reader in list(self._of_task.get(task, {}).values()):
            if reader.open:
                self._forward(reader)

    def on_executor_lost(self, task: TaskId, *, printed: bool) -> None:
        """Handle that an executor will not come back.

        Args:
            printed: whether its program printed anything.
        """
        if not printed:
            return
        self._exited.add(task)
        for reader in list(self._of_task.get(task, {}).values()):
            if not reader.sent_last:
                reader.missed = True
                if reader.open:
                    self._tell_missed(reader)

    def handle_piece(self, task: TaskId, piece: LogPiece) -> bool:
        """Handle an executor's answer; return False if it is not a valid one."""
        if not is_valid_piece(piece):
            return False
        reader = self._readers.get(piece.reader)
        if reader is None or reader.task != task or not reader.open:
            return True  # its client has disconnected meanwhile
        if piece.last:
            reader.sent_last = True
            if reader.request.wait:
                return True  # until the task has another executor, or the job ends
        self._answer(reader, replace(piece, last=False, missed=False, over=False))
        return True

    # --- inside ---------------------------------------------------------------------------------------------------

    def _explain_refusal(self, message: ReadLog) -> str:
        if message.task not in self._tasks:
            return f"the job has no task {message.task}"
        if message.stream not in STREAMS or len(message.name) > _MAX_NAME:
            return f"the stream must be out or err, and the file name at most {_MAX_NAME} characters long"
        if not (0 <= message.offset < _LARGEST and 0 < message.most < _LARGEST and abs(message.reader) < _LARGEST):
            return "a number is out of range"
        return ""

    def _forward(self, reader: _RelayReader) -> None:
        reader.sent_last = False
        if not self._send(reader.task, replace(reader.request, reader=reader.number)) and not reader.request.wait:
            self._answer(reader, LogPiece(reader=0))

    def _tell_missed(self, reader: _RelayReader) -> None:
        reader.missed = False
        self._answer(reader, LogPiece(reader=0, missed=True))

    def _answer(self, reader: _RelayReader, piece: LogPiece) -> None:
        self._close(reader)
        reader.client.send(replace(piece, reader=reader.request.reader))

    def _close(self, reader: _RelayReader) -> None:
        if reader.open:
            reader.open = False
            self._credit[reader.client] -= reader.request.most

    def _forget(self, reader: _RelayReader) -> None:
        self._close(reader)
        del self._readers[reader.number]
        self._of_client[reader.client].pop(reader.request.reader, None)
        others = self._of_task[reader.task]
        del others[reader.number]
        if not others:
            del self._of_task[reader.task]
        self._send(reader.task, DropLog(reader=reader.number))


def is_valid_piece(piece: LogPiece) -> bool:
    """Return True if a piece of an executor is within its limits."""
    return len(piece.data) <= _MAX_DATA and len(piece.name) <= _MAX_NAME and len(piece.times) <= MAX_PIECE_TIMES

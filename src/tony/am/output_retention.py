"""Keeps the end of each task attempt's output where it outlives the executor's container.

When a program has exited, the last part of both streams is requested from its executor. The answers are stored in the
background: nothing waits for them except the end of the job, for a moment. What the executor of a container that was
killed has not sent is lost; so is what cannot be stored, which is logged.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import count

from tony.am.log_relay import is_valid_piece
from tony.errors import InfraError
from tony.model.ids import TaskId
from tony.model.log_file_tail import LogFileTail
from tony.model.log_name import STREAMS, LogName
from tony.model.program_exit import ExitReason, ExitStatus
from tony.protocol.message_base import Message
from tony.protocol.output_messages import LOG_PIECE, LogPiece, ReadLog, unpack_times
from tony.retry import Backoff
from tony.units import format_count

StoreOutput = Callable[[Sequence[LogFileTail]], Awaitable[None]]

#: Bytes of each stream that are kept at least, however many tasks there are.
_MIN_TAIL_BYTES = 256
#: Seconds for which answers are gathered before they are stored.
_GATHER_SECONDS = 0.1
#: Seconds at the end of the job for what is not stored yet.
_FINISH_SECONDS = 1.0
_BACKOFF = Backoff(first=0.25, most=15.0)
#: Reasons for an end that are no failures of the program.
_NO_FAILURES = (ExitReason.STOPPED, ExitReason.NOT_STARTED)
_log = logging.getLogger(__name__)


class OutputRetention:
    """The ends of all tasks' output.

    Half of the space is for the tasks that fail first in each session, with `LOG_PIECE` bytes of each stream; the other
    half is shared by all tasks.

    Args:
        send: sends to a task's executor, if it is connected.
        store: stores tails; blocks until they are durable.
        limit: bytes that are kept of a job; 0: nothing is kept.
    """

    def __init__(
        self, send: Callable[[TaskId, Message], bool], task_count: int, store: StoreOutput | None, limit: int
    ) -> None:
        self._send = send
        self._store = store if limit else None
        self._share = min(LOG_PIECE, max(_MIN_TAIL_BYTES, limit // 2 // (2 * max(1, task_count))))
        self._limit = limit
        self._large = limit // 2 // (2 * LOG_PIECE)
        self._session = self._large_left = 0
        self._numbers = count(-1, -1)  # those of the log relay are positive
        self._requests: dict[TaskId, dict[int, ReadLog]] = {}
        self._received: deque[LogFileTail] = deque()
        self._received_bytes = 0
        self._storing: asyncio.Task[None] | None = None

    # --- executors ------------------------------------------------------------------------------------------------

    def on_exited(self, task: TaskId, session: int, try_: int, status: ExitStatus) -> None:
        """Request the end of the output of a task attempt that has ended."""
        if self._store is None or status.first_output is None:
            return
        has_failed = not status.ok and status.reason not in _NO_FAILURES
        most = self._choose_size(session, has_failed=has_failed)
        for stream in STREAMS:
            name = LogName(task.role, task.index, session, try_, stream).file
            number = next(self._numbers)
            request = ReadLog(reader=number, task=task, stream=stream, name=name, most=most, tail=True)
            self._requests.setdefault(task, {})[number] = request
            self._send(task, request)

    def on_attached(self, task: TaskId) -> None:
        """Repeat the open requests to an executor that has reconnected."""
        for request in self._requests.get(task, {}).values():
            self._send(task, request)

    def on_executor_lost(self, task: TaskId) -> None:
        """Give up the open requests to an executor that will not come back."""
        for request in self._requests.pop(task, {}).values():
            _log.warning("the end of %s is not kept: its executor exited before it sent it", request.name)

    def handle_piece(self, task: TaskId, piece: LogPiece) -> bool:
        """Handle an executor's answer; return False if it is not a valid one."""
        if not is_valid_piece(piece):
            return False
        requests = self._requests.get(task, {})
        request = requests.get(piece.reader)
        if request is None or piece.name not in ("", request.name):
            return True  # it was given up, or is sent twice
        del requests[piece.reader]
        if not requests:
            del self._requests[task]
        if not piece.data:
            return True
        try:
            tail = _build_tail(piece)
        except binascii.Error:
            return False
        if piece.offset < 0 or len(tail.data) > request.most:
            return False
        self._received.append(tail)
        self._received_bytes += len(tail.data)
        while self._received_bytes > self._limit:  # the store takes none
            self._received_bytes -= len(self._received.popleft().data)
        if self._storing is None or self._storing.done():
            self._storing = asyncio.get_running_loop().create_task(self._store_received())
        return True

    def _choose_size(self, session: int, *, has_failed: bool) -> int:
        """Return the bytes of each stream to keep."""
        if session > self._session:
            self._session, self._large_left = session, self._large
        if not has_failed or not self._large_left:
            return self._share
        self._large_left -= 1
        return LOG_PIECE

    # --- the store ------------------------------------------------------------------------------------------------

    async def finish(self) -> None:
        """Wait briefly for what is being stored. No executor is left."""
        if self._storing is not None:
            await asyncio.wait([self._storing], timeout=_FINISH_SECONDS)
            self._storing.cancel()
        if self._received:
            logs = format_count(len(self._received), "program")
            _log.error("the output of %s is not kept: it could not be stored", logs)

    async def _store_received(self) -> None:
        assert self._store is not None
        pauses = iter(_BACKOFF)
        is_logged = False
        try:
            while self._received:
                await asyncio.sleep(_GATHER_SECONDS)
                tails = tuple(self._received)
                try:
                    await self._store(tails)
                except InfraError as error:
                    if not is_logged:
                        _log.warning("cannot store the output of programs that have ended yet: %s", error)
                    is_logged = True
                    await asyncio.sleep(next(pauses))
                else:
                    self._drop_stored(tails)
                    pauses, is_logged = iter(_BACKOFF), False
        except Exception:  # the job must not fail for it
            _log.exception("storing the output of programs failed")

    def _drop_stored(self, tails: Iterable[LogFileTail]) -> None:
        for tail in tails:
            if self._received and self._received[0] is tail:  # else it was dropped meanwhile
                self._received_bytes -= len(self._received.popleft().data)


def _build_tail(piece: LogPiece) -> LogFileTail:
    """Return the data of a piece; one that is not the beginning of its log begins with a whole line if it has one.

    Raises:
        binascii.Error: it is not base64.
    """
    data = base64.b64decode(piece.data, validate=True)
    cut = data.find(b"\n") + 1 if piece.offset else 0
    if cut == len(data):
        cut = 0
    times = unpack_times(piece.times)
    earlier = [(0, moment) for place, moment in times if place <= cut][-1:]
    later = [(place - cut, moment) for place, moment in times if place > cut]
    return LogFileTail(name=piece.name, offset=piece.offset + cut, data=data[cut:], times=(*earlier, *later))

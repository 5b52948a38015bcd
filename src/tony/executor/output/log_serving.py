"""Serves the output of running programs to readers, who poll through the application master.

A reader at the end of the output waits; it is answered when the program prints
more, when the next task attempt prints, or when this executor ends.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tony.executor.output.log_file import BoundedLogFile, FileChunk
from tony.executor.output.writer_thread import WriterThread
from tony.model.log_name import STREAMS, LogName
from tony.protocol.output_messages import LOG_PIECE, DropLog, LogPiece, ReadLog, pack_times

#: Readers at one time; a further one replaces the oldest.
_MAX_READERS = 1000


@dataclass(slots=True, eq=False)
class StreamLog:
    """The output of one task attempt to one stream, as readers see it; finished if no more will come."""

    stream: str
    name: str
    file: BoundedLogFile
    is_finished: bool = False


class _StreamLogs:
    """The output to one stream, oldest first.

    Attributes:
        changed: set, and replaced by another one, when there is more.
    """

    def __init__(self) -> None:
        self.logs: list[StreamLog] = []
        self.changed = asyncio.Event()

    def notify(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    def find(self, name: str) -> StreamLog | None:
        """Return the log of this name, or the next later one if this executor does not have it."""
        place = _sort_key(name)
        later = (log for log in self.logs if _sort_key(log.name) > place)
        return next((log for log in self.logs if log.name == name), None) or next(later, None)

    def find_next(self, log: StreamLog) -> StreamLog | None:
        return next(iter(self.logs[self.logs.index(log) + 1 :]), None)


class LogReaders:
    """All readers of one executor's output. Lives on the event loop; reads files in the writer thread.

    Args:
        answer: sends a piece.
    """

    def __init__(self, writer: WriterThread, answer: Callable[[LogPiece], None]) -> None:
        self._writer = writer
        self._answer = answer
        self._streams = {stream: _StreamLogs() for stream in STREAMS}
        # By the reader's number. One that has got a piece stays: it will request the next one.
        self._readers: dict[int, asyncio.Task[None]] = {}
        self._closing = False
        self._dropped = asyncio.Event()

    # --- output of programs ---------------------------------------------------------------------------------------

    def on_open(self, log: StreamLog) -> None:
        """Register the output of a new task attempt."""
        self._streams[log.stream].logs.append(log)
        self.on_output(log)

    def on_output(self, log: StreamLog) -> None:
        """Note that the program has printed something; the writer thread already has it."""
        self._streams[log.stream].notify()

    def on_end(self, log: StreamLog) -> None:
        """Note that the program prints no more; the writer thread already has everything."""
        log.is_finished = True

    def get_logs(self, stream: str) -> tuple[asyncio.Event, Sequence[StreamLog]]:
        """Return the output to one stream, oldest first, and an event that is set once there is more."""
        found = self._streams[stream]
        return found.changed, found.logs

    def notify(self) -> None:
        """Have all readers look again."""
        for stream in self._streams.values():
            stream.notify()

    # --- requests of readers --------------------------------------------------------------------------------------

    def on_request(self, message: ReadLog) -> None:
        """Answer a request for a piece, now or when there is one."""
        self._drop(message.reader)
        if message.stream in self._streams:
            if len(self._readers) >= _MAX_READERS:
                self._drop(next(iter(self._readers)))
            serve = self._serve_tail if message.tail else self._serve
            self._readers[message.reader] = asyncio.get_running_loop().create_task(serve(message))

    def drop(self, message: DropLog) -> None:
        self._drop(message.reader)

    def forget(self) -> None:
        """Remove all readers: those that still want output will ask again."""
        for reader in list(self._readers):
            self._drop(reader)

    async def finish(self, idle: float, limit: float) -> None:
        """Send readers the rest. No program is running by then.

        Args:
            idle: seconds without a further request after which they are given up.
            limit: seconds after which they are given up in any case.
        """
        self._closing = True
        self.notify()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit):
                while self._readers:
                    self._dropped.clear()
                    async with asyncio.timeout(idle):
                        await self._dropped.wait()

    def _drop(self, reader: int) -> None:
        task = self._readers.pop(reader, None)
        if task is not None:
            task.cancel()
            self._dropped.set()

    async def _serve(self, request: ReadLog) -> None:
        stream, name, offset = self._streams[request.stream], request.name, request.offset
        most = min(max(request.most, 1), LOG_PIECE)
        while True:
            changed = stream.changed  # taken before reading, so that nothing printed meanwhile is missed
            log = stream.find(name)
            if log is not None:
                if log.name != name:
                    name, offset = log.name, 0
                piece = await self._writer.run(partial(log.file.read, offset, most))
                if piece.data:
                    self._answer(_build_piece(request.reader, name, piece))
                    return
                if not changed.is_set() and log.is_finished and (later := stream.find_next(log)):
                    name, offset = later.name, 0
                    continue
            if not changed.is_set() and (self._closing or not request.wait):
                self._answer(LogPiece(reader=request.reader, last=self._closing))
                self._remove(request.reader)
                return
            await changed.wait()

    async def _serve_tail(self, request: ReadLog) -> None:
        log = next((log for log in self._streams[request.stream].logs if log.name == request.name), None)
        answer = LogPiece(reader=request.reader)
        if log is not None:
            most = min(max(request.most, 1), LOG_PIECE)
            answer = _build_piece(request.reader, log.name, await self._writer.run(partial(log.file.read_tail, most)))
        self._answer(answer)
        self._remove(request.reader)

    def _remove(self, reader: int) -> None:
        """Remove a reader that is not expected to request more."""
        del self._readers[reader]
        self._dropped.set()


def _build_piece(reader: int, name: str, chunk: FileChunk) -> LogPiece:
    data, times = base64.b64encode(chunk.data).decode(), pack_times(chunk.times)
    return LogPiece(reader=reader, name=name, start=chunk.start, offset=chunk.offset, data=data, times=times)


def _sort_key(name: str) -> tuple[int, int]:
    """Return session and task attempt of a file name; (0, 0), before all of them, for any other name."""
    found = LogName.parse(name)
    return (found.session, found.try_) if found else (0, 0)

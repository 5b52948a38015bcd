"""Serves the output of running programs to readers, who poll through the application master.

Without readers, output is only counted. A reader at the end of the output waits; it is answered when the program prints
more, when the next task attempt prints, or when this executor ends.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from tony.executor.output.log_file import BoundedLogFile, FileChunk
from tony.executor.output.writer_thread import WriterThread
from tony.model.log_name import STREAMS, LogName
from tony.protocol.output_messages import LOG_PIECE, DropLog, LogPiece, ReadLog

#: Readers at one time; a further one replaces the oldest.
_MAX_READERS = 1000


@dataclass(slots=True, eq=False)
class StreamLog:
    """The output of one task attempt to one stream, as readers see it.

    Attributes:
        write_count: number of writes so far.
        is_finished: no more will come.
    """

    stream: str
    name: str
    file: BoundedLogFile
    write_count: int = 0
    is_finished: bool = False


@dataclass(slots=True, eq=False)
class _LogSubscription:
    """One reader and its position."""

    request: ReadLog
    name: str
    offset: int


class LogReaders:
    """All readers of one executor's output. Lives on the event loop; reads files in the writer thread.

    Args:
        answer: sends a piece.
    """

    def __init__(self, writer: WriterThread, answer: Callable[[LogPiece], None]) -> None:
        self._writer = writer
        self._answer = answer
        self._logs: dict[str, list[StreamLog]] = {stream: [] for stream in STREAMS}
        self._readers: dict[int, _LogSubscription] = {}
        self._waiting: set[_LogSubscription] = set()
        self._closing = False
        self._empty = asyncio.Event()

    # --- output of programs ---------------------------------------------------------------------------------------

    def on_open(self, log: StreamLog) -> None:
        """Register the output of a new task attempt."""
        self._logs[log.stream].append(log)
        self._wake(log)

    def on_output(self, log: StreamLog) -> None:
        """Note that the program has printed something; the writer thread already has it."""
        log.write_count += 1
        if self._waiting:
            self._wake(log)

    def on_end(self, log: StreamLog) -> None:
        """Note that the program prints no more; the writer thread already has everything."""
        log.is_finished = True

    def _wake(self, log: StreamLog) -> None:
        for reader in [each for each in self._waiting if each.request.stream == log.stream]:
            self._serve(reader)

    # --- requests of readers --------------------------------------------------------------------------------------

    def on_request(self, message: ReadLog) -> None:
        """Answer a request for a piece, now or when there is one."""
        self.drop(DropLog(reader=message.reader))
        if message.stream in self._logs:
            if len(self._readers) >= _MAX_READERS:
                self.drop(DropLog(reader=next(iter(self._readers))))
            reader = self._readers[message.reader] = _LogSubscription(message, message.name, message.offset)
            self._serve(reader)

    def drop(self, message: DropLog) -> None:
        reader = self._readers.pop(message.reader, None)
        if reader:
            self._waiting.discard(reader)
            self._signal_if_empty()

    def forget(self) -> None:
        """Remove all readers: those that still want output will ask again."""
        self._readers.clear()
        self._waiting.clear()
        self._signal_if_empty()

    async def finish(self, timeout: float) -> None:
        """Send readers the rest, within `timeout` seconds. No program is running by then."""
        self._closing = True
        for reader in list(self._waiting):
            self._serve(reader)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self._readers:
                    self._empty.clear()
                    await self._empty.wait()

    def _serve(self, reader: _LogSubscription) -> None:
        self._waiting.discard(reader)
        log = self._find_log(reader)
        if log is None:
            self._wait_or_end(reader)
            return
        loop = asyncio.get_running_loop()
        write_count, is_finished, offset = log.write_count, log.is_finished, reader.offset
        most = min(max(reader.request.most, 1), LOG_PIECE)

        def read() -> None:
            piece = log.file.read(offset, most)
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._on_read, reader, log, piece, write_count, is_finished)

        self._writer.put(read)

    def _on_read(
        self, reader: _LogSubscription, log: StreamLog, piece: FileChunk, write_count: int, is_finished: bool
    ) -> None:
        if self._readers.get(reader.request.reader) is not reader:
            return  # replaced by a newer request, or removed
        if piece.data:
            data = base64.b64encode(piece.data).decode()
            number = reader.request.reader
            self._answer(LogPiece(reader=number, name=log.name, start=piece.start, offset=piece.offset, data=data))
        elif log.write_count != write_count or log.is_finished != is_finished:
            self._serve(reader)
        elif is_finished and (later := self._open_next_log(log)):
            reader.name, reader.offset = later.name, 0
            self._serve(reader)
        else:
            self._wait_or_end(reader)

    def _wait_or_end(self, reader: _LogSubscription) -> None:
        if reader.request.wait and not self._closing:
            self._waiting.add(reader)
            return
        number = reader.request.reader
        self._answer(LogPiece(reader=number, last=self._closing))
        self.drop(DropLog(reader=number))

    def _find_log(self, reader: _LogSubscription) -> StreamLog | None:
        """Return the file that the reader reads, or the next later one if this executor does not have it."""
        logs = self._logs[reader.request.stream]
        for log in logs:
            if log.name == reader.name:
                return log
        place = _sort_key(reader.name)
        later = next((log for log in logs if _sort_key(log.name) > place), None)
        if later:
            reader.name, reader.offset = later.name, 0
        return later

    def _open_next_log(self, log: StreamLog) -> StreamLog | None:
        logs = self._logs[log.stream]
        at = logs.index(log) + 1
        return logs[at] if at < len(logs) else None

    def _signal_if_empty(self) -> None:
        if not self._readers:
            self._empty.set()


def _sort_key(name: str) -> tuple[int, int]:
    """Return session and task attempt of a file name; (0, 0), before all of them, for any other name."""
    found = LogName.parse(name)
    return (found.session, found.try_) if found else (0, 0)

"""Writes files in a thread: a disk that is slow, or stands still, must not keep the event loop from its heartbeats.

The thread lives while there is a program that prints; it is not there when a program is started, because a fork takes
only one thread along, and what others hold locked stays locked in the child.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue

#: Told that so few bytes wait to be written.
_Waiter = tuple[int, asyncio.AbstractEventLoop, Callable[[], object]]


class WriterThread:
    """Does what it is given, one after the other, elsewhere; without a thread, should there be none left, at once."""

    def __init__(self) -> None:
        """Nothing runs yet."""
        self._jobs: SimpleQueue[tuple[Callable[[], object], int] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._backlog = 0
        self._waiters: list[_Waiter] = []

    @property
    def backlog(self) -> int:
        """Bytes that wait to be written."""
        return self._backlog

    @property
    def is_busy(self) -> bool:
        """Whether there is a thread: then whatever else writes to the same disk is better given to it."""
        return self._thread is not None

    def put(self, job: Callable[[], object], size: int = 1) -> None:
        """Has a job done; it raises nothing.

        Args:
            size: bytes that it writes.
        """
        if self._thread is None and not self._begin():
            job()
            return
        with self._lock:
            self._backlog += size
        self._jobs.put((job, size))

    def notify(self, level: int, call: Callable[[], object]) -> None:
        """Calls back once, on the running loop, as soon as no more than `level` bytes wait."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._backlog > level:
                self._waiters.append((level, loop, call))
                return
        loop.call_soon(call)

    async def wait_written(self, timeout: float) -> bool:
        """Waits until nothing is left to write, `timeout` seconds at most; answers whether that is so."""
        if self._backlog:
            written = asyncio.Event()
            self.notify(0, written.set)
            try:
                async with asyncio.timeout(timeout):
                    await written.wait()
            except TimeoutError:
                return False
        return True

    async def rest(self, timeout: float) -> None:
        """Ends the thread, if all is written within so many seconds; the next job begins another one."""
        if self._thread and await self.wait_written(timeout):
            self._jobs.put(None)
            self._thread.join()
            self._thread = None

    def close(self, timeout: float) -> None:
        """Waits until all is written, `timeout` seconds at most. For the end, when no loop runs any more."""
        if self._thread:
            self._jobs.put(None)
            self._thread.join(timeout)

    def _begin(self) -> bool:
        thread = threading.Thread(target=self._write, name="pen", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the process table is full
            return False
        self._thread = thread
        return True

    def _write(self) -> None:
        while (taken := self._jobs.get()) is not None:
            job, size = taken
            job()
            with self._lock:
                self._backlog -= size
                due = [waiter for waiter in self._waiters if waiter[0] >= self._backlog]
                if due:
                    self._waiters = [waiter for waiter in self._waiters if waiter[0] < self._backlog]
            for _, loop, call in due:
                try:
                    loop.call_soon_threadsafe(call)
                except RuntimeError:  # that loop has ended
                    continue


class PenHandler(logging.Handler):
    """Hands lines of our own log to the pen as long as it writes, and writes them itself otherwise."""

    def __init__(self, pen: WriterThread, inner: logging.Handler) -> None:
        super().__init__()
        self._pen = pen
        self._inner = inner

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one line, soon."""
        if self._pen.is_busy:
            record.getMessage()  # what it speaks of may change
            self._pen.put(partial(self._write, record))
        else:
            self._write(record)

    def _write(self, record: logging.LogRecord) -> None:
        self._inner.handle(record)

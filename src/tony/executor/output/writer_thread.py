"""Writes files in a thread, so that a slow or hanging disk does not keep the event loop from its heartbeats.

The thread runs while a program runs, but not while one is started: a fork copies only the calling thread, and locks
that other threads hold stay locked in the child.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")


class WriterThread:
    """Runs jobs in a thread, one after the other; in the calling thread if no other can be started."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[tuple[Callable[[], object], int] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._backlog = 0

    @property
    def backlog(self) -> int:
        """Number of bytes that wait to be written."""
        return self._backlog

    @property
    def is_busy(self) -> bool:
        """True if the thread runs; then other writes to the same disk should also go through it."""
        return self._thread is not None

    def put(self, job: Callable[[], object], size: int = 1) -> None:
        """Run a job, which must not raise and writes about `size` bytes."""
        if self._thread is None and not self._begin():
            job()
            return
        with self._lock:
            self._backlog += size
        self._jobs.put((job, size))

    async def run(self, job: Callable[[], T]) -> T:
        """Run a job, which must not raise, after all earlier ones; return its result."""
        results: list[T] = []
        self.put(lambda: results.append(job()), 0)
        await self._wait_done()
        return results[0]

    def call_when_written(self, call: Callable[[], object]) -> None:
        """Call back once, on the running loop, when everything put so far is written."""
        loop = asyncio.get_running_loop()

        def report() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(call)

        self.put(report, 0)

    async def wait_written(self, timeout: float) -> bool:
        """Wait until everything is written, at most `timeout` seconds; return True if it is."""
        if self._backlog:
            try:
                async with asyncio.timeout(timeout):
                    await self._wait_done()
            except TimeoutError:
                return False
        return True

    async def _wait_done(self) -> None:
        done = asyncio.Event()
        self.call_when_written(done.set)
        await done.wait()

    async def stop(self, timeout: float) -> None:
        """Stop the thread if everything is written within `timeout` seconds; the next job starts another."""
        if self._thread and await self.wait_written(timeout):
            self._jobs.put(None)
            self._thread.join()
            self._thread = None

    def close(self, timeout: float) -> None:
        """Wait until everything is written, at most `timeout` seconds. Call it after the event loop has ended."""
        if self._thread:
            self._jobs.put(None)
            self._thread.join(timeout)

    def _begin(self) -> bool:
        thread = threading.Thread(target=self._write, name="writer", daemon=True)
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


class WriterThreadHandler(logging.Handler):
    """Writes lines of the executor's own log through the writer thread while it runs, and directly otherwise."""

    def __init__(self, writer: WriterThread, inner: logging.Handler) -> None:
        super().__init__()
        self._writer = writer
        self._inner = inner

    def emit(self, record: logging.LogRecord) -> None:
        if self._writer.is_busy:
            record.getMessage()  # formatted now: its arguments may change
            self._writer.put(partial(self._write, record))
        else:
            self._write(record)

    def _write(self, record: logging.LogRecord) -> None:
        self._inner.handle(record)

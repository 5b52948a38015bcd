"""Replication of the event log from the AM's container to a store, with confirmation of durability.

An AM shows nothing of its event log before it is in the store, since the next AM attempt, on another node, has nothing
else. But a job must not hang on its store: if no write succeeds for some seconds, the wait is given up, which is
logged, and the missing events follow as soon as possible. If the AM dies in between, it may have shown what the next
attempt does not know; then the executors know more than that does, and their state wins.

Urgent writes happen at once; otherwise there is one a second, if there are new events at all.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path

from tony.errors import AttemptSupersededError, InfraError, StorageError
from tony.linux.thread_pools import call_on_loop, to_thread
from tony.retry import Backoff
from tony.schedulers.allocator_interface import Journal
from tony.schedulers.job_store.job_store import JobStore, LogAppender
from tony.schedulers.job_store.piece_log import SupersededLogError

#: Seconds between two writes that are not urgent.
_WRITE_SECONDS = 1.0
#: Seconds for which an effect waits for the store while no write succeeds.
_WAIT_SECONDS = 3.0
#: A timer late by this many seconds means that this process was suspended: that was no wait for the store.
_SUSPENDED_SECONDS = 1.0
#: Between two attempts to write to a store that does not answer yet.
STORE_BACKOFF = Backoff(first=0.25, most=5.0)
#: Bytes that are read at once, and the maximum buffered in memory.
_READ_BYTES = 1 << 20
_MAX_BUFFERED_BYTES = 4 << 20
#: Seconds at the end for the last events, and for those that the store will hardly accept.
_FINISH_SECONDS = 15.0
_HOPELESS_SECONDS = 1.0
_log = logging.getLogger(__name__)


class ReplicatedJournal(Journal):
    """One AM attempt's event log in a store. For one event loop, on which it must be created.

    Args:
        segment: the log in the container.
        store: the job's files.
        safe: see `ContainerAllocator.journal`.
    """

    def __init__(self, segment: Path, store: JobStore, safe: Callable[[int], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._store, self._safe = store, safe
        self._name = segment.name
        self._file = os.open(segment, os.O_RDONLY | os.O_CLOEXEC)
        self._size = os.fstat(self._file).st_size  # of the local log
        self._passed = 0  # bytes passed to the log in the store
        self._durable = 0
        self._urgent = 0  # bytes that a caller waits for
        self._log: LogAppender | None = None
        self.is_waived = False
        self._timer: asyncio.TimerHandle | None = None
        self._ending: asyncio.Task[None] | None = None
        self._taken_over = asyncio.Event()
        self._opening = self._loop.create_task(self._open())

    def note_written(self, size: int, *, urgent: bool) -> None:
        self._size = size
        if urgent:
            self._urgent = size
        self._pass_new_bytes()
        if self.is_waived:
            self._loop.call_soon(self._report, size)
        else:  # writes that are not urgent are waited for as well, for example to acknowledge a report
            self._start_timer()

    async def watch(self) -> None:
        await self._taken_over.wait()
        raise AttemptSupersededError("a later AM attempt has taken over the event log")

    async def finish(self) -> None:
        """Write the remaining events and close.

        Raises:
            InfraError: the last events are missing in the store.
        """
        self._stop_timer()
        self._size = os.fstat(self._file).st_size
        try:
            async with asyncio.timeout(_FINISH_SECONDS):
                await asyncio.shield(self._opening)
                assert self._log is not None
                while self._durable < self._size and not self._log.error:
                    self._pass_new_bytes()
                    self._log.hurry()
                    if self._log.trouble and self._store.is_permanent(self._log.trouble):
                        await asyncio.sleep(_HOPELESS_SECONDS)
                        break
                    await asyncio.sleep(0.02)
        except TimeoutError:
            pass
        finally:
            for task in filter(None, (self._opening, self._ending)):
                task.cancel()
            os.close(self._file)
            self._file = -1
        trouble = self._log.trouble if self._log else None
        if self._durable < self._size:
            if self._log:
                self._log.abandon()
            raise StorageError(f"the last events were not written to {self._store.path}: {trouble or 'it is slow'}")
        if self._log:
            await to_thread(self._log.close, _FINISH_SECONDS)

    # --- to the store -------------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        for pause in STORE_BACKOFF:
            try:
                self._log = await to_thread(self._create_log)
                break
            except InfraError as error:
                _log.error("cannot write the event log to %s yet: %s", self._store.path, error)
            await asyncio.sleep(pause)
        self._pass_new_bytes()

    def _create_log(self) -> LogAppender:
        return self._store.open_log(self._name, _WRITE_SECONDS, 2 * _MAX_BUFFERED_BYTES, self._on_durable_in_thread)

    def _pass_new_bytes(self) -> None:
        """Pass new bytes of the file to the log, as far as it accepts them now."""
        if self._log is None or self._log.error or self._file < 0:
            return
        while self._passed < self._size and self._log.waiting < _MAX_BUFFERED_BYTES:
            data = os.pread(self._file, min(_READ_BYTES, self._size - self._passed), self._passed)
            if not data:
                return
            try:
                self._log.write(data)
            except InfraError:  # it has just failed, and reports that itself
                return
            self._passed += len(data)
        if self._urgent > self._durable:
            self._log.hurry()

    def _on_durable_in_thread(self, durable: int) -> None:
        """Forward a report from the log's thread."""
        call_on_loop(self._loop, self._on_durable, durable)

    # --- on the loop ----------------------------------------------------------------------------------------------

    def _on_durable(self, durable: int) -> None:
        if self._file < 0:
            self._durable = durable
            return
        error = self._log and self._log.error
        if error:
            self._ending = self._ending or self._loop.create_task(self._on_failed(error))
            return
        self._durable = durable
        self._pass_new_bytes()
        self._stop_timer()
        if self.is_waived and durable >= self._size:
            self.is_waived = False
            _log.info("the event log in %s is complete again", self._store.path)
        if not self.is_waived:
            self._report(durable)
            if self._size > durable:
                self._start_timer()

    async def _on_failed(self, error: InfraError) -> None:
        """Handle a failed log, which a later AM attempt may have taken over."""
        if isinstance(error, SupersededLogError) or await self._is_taken_over():
            self._taken_over.set()
            return
        _log.error("can no longer write the event log to %s: %s", self._store.path, error)
        self._waive()

    async def _is_taken_over(self) -> bool:
        """Ask the store until it answers. Effects do not wait for that: see `_on_timeout`."""
        for pause in STORE_BACKOFF:
            try:
                return await to_thread(self._store.is_taken_over, self._name)
            except InfraError as error:
                if self._store.is_permanent(error):
                    return False
            await asyncio.sleep(pause)
        raise AssertionError("delays have no end")

    def _start_timer(self) -> None:
        if self._timer is None and not self.is_waived:
            self._timer = self._loop.call_later(_WAIT_SECONDS, self._on_timeout, self._loop.time() + _WAIT_SECONDS)

    def _stop_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _on_timeout(self, due: float) -> None:
        self._timer = None
        # This process was suspended, and may not be the current AM attempt.
        if self._loop.time() - due > _SUSPENDED_SECONDS:
            self._start_timer()
            return
        trouble = self._log.trouble if self._log else "it could not be opened yet"
        _log.warning(
            "writing the event log to %s has made no progress for %g s (%s). The job continues without waiting for it; "
            "if the application master is lost now, the next AM attempt will miss the latest events",
            self._store.path,
            _WAIT_SECONDS,
            trouble or "it is slow",
        )
        self._waive()

    def _waive(self) -> None:
        self._stop_timer()
        self.is_waived = True
        self._report(self._size)

    def _report(self, size: int) -> None:
        if not self._taken_over.is_set():
            self._safe(size)

"""Replication of the event log from the AM's container to HDFS, with confirmation of durability.

An AM shows nothing of its event log before it is in HDFS, since the next AM attempt, on another node, has nothing else.
But a job must not hang on HDFS: if no write succeeds for some seconds, the wait is given up, which is logged, and the
missing events follow as soon as possible. If the AM dies in between, it may have shown what the next attempt does not
know; then the executors know more than that does, and their state wins.

Urgent writes happen at once; otherwise there is one a second, if there are new events at all.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
from collections.abc import Callable
from pathlib import Path

from tony.errors import InfraError, NotInCharge, StorageError
from tony.hadoop.hdfs.append_log import AppendLog, AppendOptions
from tony.hadoop.ipc.errors import (
    AccessControlError,
    AuthorizationError,
    HadoopError,
    InvalidTokenError,
    LoginError,
    QuotaExceededError,
)
from tony.linux.threads import to_thread
from tony.schedulers.interface import Journal
from tony.schedulers.yarn.job_folder import JobFiles, closed_name

#: Seconds between two writes that are not urgent.
_SELDOM = 1.0
#: Seconds for which an effect waits for HDFS while no write succeeds.
_WAIT = 3.0
#: A timer late by this many seconds means that this process was suspended: that was no wait for HDFS.
_STOOD_STILL = 1.0
#: Seconds between two attempts to open the log: initially, and at most.
_AGAIN, _SELDOM_AGAIN = 0.25, 5.0
#: Bytes that are read at once, and the maximum buffered in memory.
_PIECE, _WAITING = 1 << 20, 4 << 20
#: Seconds at the end for the last events, and for those that HDFS will hardly accept.
_LAST, _SOON = 15.0, 1.0
#: Errors that will hardly go away soon. All others may: a NameNode that has just started knows no DataNode at first,
#: and the lease of a file lasts until the DataNodes have agreed on its length.
LASTING = (QuotaExceededError, AccessControlError, AuthorizationError, InvalidTokenError, LoginError)
_log = logging.getLogger(__name__)


class HdfsJournal(Journal):
    """One AM attempt's event log in HDFS. For one event loop, on which it must be created.

    Args:
        segment: the log in the container.
        files: the job's folder in HDFS.
        safe: see `ContainerAllocator.journal`.
        recover: recovers a file's lease from a dead writer; blocks, and may fail.

    Attributes:
        lost: ends with `NotInCharge` when a later AM attempt has taken over the log.
    """

    def __init__(
        self, segment: Path, files: JobFiles, safe: Callable[[int], None], recover: Callable[[str], object]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._files, self._safe, self._recover = files, safe, recover
        self._name = segment.name
        self._file = os.open(segment, os.O_RDONLY | os.O_CLOEXEC)
        self._size = os.fstat(self._file).st_size  # of the local log
        self._handed = 0  # bytes passed to the log in HDFS
        self._durable = 0
        self._urgent = 0  # bytes that a caller waits for
        self._log: AppendLog | None = None
        self.is_waived = False
        self._patience: asyncio.TimerHandle | None = None
        self._ending: asyncio.Task[None] | None = None
        self.lost: asyncio.Future[None] = self._loop.create_future()
        self._opening = self._loop.create_task(self._open())

    def wrote(self, size: int, *, urgent: bool) -> None:
        self._size = size
        if urgent:
            self._urgent = size
        self._hand_over()
        if self.is_waived:
            self._loop.call_soon(self._say, size)
        else:  # writes that are not urgent are waited for as well, for example to acknowledge a report
            self._wait()

    async def finish(self) -> None:
        """Write the remaining events and close.

        Raises:
            InfraError: the last events are missing in HDFS.
        """
        self._end_wait()
        self._size = os.fstat(self._file).st_size
        try:
            async with asyncio.timeout(_LAST):
                await asyncio.shield(self._opening)
                assert self._log is not None
                while self._durable < self._size and not self._log.error:
                    self._hand_over()
                    self._log.hurry()
                    if isinstance(self._log.trouble, LASTING):
                        await asyncio.sleep(_SOON)
                        break
                    await asyncio.sleep(0.02)
        except TimeoutError:
            pass
        finally:
            self._opening.cancel()
            os.close(self._file)
            self._file = -1
        trouble = self._log.trouble if self._log else None
        if self._durable < self._size:
            if self._log:
                self._log.abandon()
            raise StorageError(f"the last events were not written to HDFS: {trouble or 'it is slow'}")
        if self._log:
            await to_thread(self._log.close, _LAST)

    # --- to HDFS ------------------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        pause = _AGAIN
        while True:
            try:
                self._log = await to_thread(self._opened)
                break
            except InfraError as error:
                _log.error("cannot write the event log to %s yet: %s", self._files.path, error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _SELDOM_AGAIN)
        self._hand_over()

    def _opened(self) -> AppendLog:
        self._files.make()
        options = AppendOptions(interval=_SELDOM, permission=0o600, patience=math.inf, most_waiting=2 * _WAITING)
        path = f"{self._files.path}/{self._name}"
        return AppendLog(self._files.client, path, options, recover=self._recover, told=self._told)

    def _hand_over(self) -> None:
        """Pass new bytes of the file to the log, as far as it accepts them now."""
        if self._log is None or self._log.error or self._file < 0:
            return
        while self._handed < self._size and self._log.waiting < _WAITING:
            data = os.pread(self._file, min(_PIECE, self._size - self._handed), self._handed)
            if not data:
                return
            try:
                self._log.write(data)
            except HadoopError:  # it has just failed, and reports that itself
                return
            self._handed += len(data)
        if self._urgent > self._durable:
            self._log.hurry()

    def _told(self, durable: int) -> None:
        """Forward a report from the log's thread."""
        try:
            self._loop.call_soon_threadsafe(self._arrived, durable)
        except RuntimeError:  # the loop has ended
            return

    # --- on the loop ----------------------------------------------------------------------------------------------

    def _arrived(self, durable: int) -> None:
        if self._file < 0:
            self._durable = durable
            return
        error = self._log and self._log.error
        if error:
            self._ending = self._ending or self._loop.create_task(self._gave_up(error))
            return
        self._durable = durable
        self._hand_over()
        self._end_wait()
        if self.is_waived and durable >= self._size:
            self.is_waived = False
            _log.info("the event log in %s is complete again", self._files.path)
        if not self.is_waived:
            self._say(durable)
            if self._size > durable:
                self._wait()

    async def _gave_up(self, error: HadoopError) -> None:
        """Handle a failed log, which a later AM attempt may have taken over."""
        try:
            taken = await to_thread(self._files.client.find, f"{self._files.path}/{closed_name(self._name)}")
        except InfraError:
            taken = None
        if taken is not None:
            if not self.lost.done():
                self.lost.set_exception(NotInCharge("a later AM attempt has taken over the event log"))
            return
        _log.error("can no longer write the event log to %s: %s", self._files.path, error)
        self._waive()

    def _wait(self) -> None:
        if self._patience is None and not self.is_waived:
            self._patience = self._loop.call_later(_WAIT, self._is_late, self._loop.time() + _WAIT)

    def _end_wait(self) -> None:
        if self._patience:
            self._patience.cancel()
            self._patience = None

    def _is_late(self, due: float) -> None:
        self._patience = None
        if self._loop.time() - due > _STOOD_STILL:  # this process was suspended, and may not be the current AM attempt
            self._wait()
            return
        trouble = self._log.trouble if self._log else "it could not be opened yet"
        _log.warning(
            "writing the event log to %s has made no progress for %g s (%s). The job continues without waiting for it; "
            "if the application master is lost now, the next AM attempt will miss the latest events",
            self._files.path,
            _WAIT,
            trouble or "it is slow",
        )
        self._waive()

    def _waive(self) -> None:
        self._end_wait()
        self.is_waived = True
        self._say(self._size)

    def _say(self, size: int) -> None:
        if not self.lost.done():
            self._safe(size)

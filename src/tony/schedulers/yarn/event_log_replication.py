"""The event log's way to safety: what stands in the container's file follows into HDFS, and that it is there is told.

An application master shows nothing of what its log says before the log is in HDFS: its next life, on another node, has
nothing else to go by. A job must not hang on HDFS, though: if that takes nothing for some seconds, the wait is given
up, which is logged, and what is missing there follows as soon as it can. A master that dies in between may have shown
what its successor does not know; then the executors know more than that does, and what they know wins.

Somebody may wait for every write, or nobody: then there is one a second, if anything happens at all.
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

#: Seconds between two writes for which nobody waits.
_SELDOM = 1.0
#: Seconds for which an effect waits for HDFS while that takes nothing.
_WAIT = 3.0
#: A timer that comes so many seconds late means that we ourselves stood still: nothing was waited for.
_STOOD_STILL = 1.0
#: Seconds between two tries to open it: at first, and at most.
_AGAIN, _SELDOM_AGAIN = 0.25, 5.0
#: Bytes that are read at once, and that wait in memory at most.
_PIECE, _WAITING = 1 << 20, 4 << 20
#: Seconds in the end: for the last events, and where HDFS will hardly take them at all.
_LAST, _SOON = 15.0, 1.0
#: Trouble that will hardly be over soon. All other may: a NameNode that has just started knows no DataNode at first,
#: and somebody's hold of a file lasts until the DataNodes have agreed on where it ends.
LASTING = (QuotaExceededError, AccessControlError, AuthorizationError, InvalidTokenError, LoginError)
_log = logging.getLogger(__name__)


class HdfsJournal(Journal):
    """One attempt's event log in HDFS. For one event loop, on which it must be made.

    Args:
        segment: the log in the container.
        files: the job's folder in HDFS.
        safe: see `ContainerSource.journal`.
        recover: takes a file from a writer that died; blocks, and may fail.

    Attributes:
        lost: ends with `NotInCharge` when a later attempt has taken the log.
    """

    def __init__(
        self, segment: Path, files: JobFiles, safe: Callable[[int], None], recover: Callable[[str], object]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._files, self._safe, self._recover = files, safe, recover
        self._name = segment.name
        self._file = os.open(segment, os.O_RDONLY | os.O_CLOEXEC)
        self._size = os.fstat(self._file).st_size  # of what was written here
        self._handed = 0  # of these bytes, those that the log in HDFS has been given
        self._durable = 0
        self._urgent = 0  # somebody waits for so many
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
        else:  # what nobody is in a hurry for is waited for as well, be it that a report is acknowledged
            self._wait()

    async def finish(self) -> None:
        """Brings the rest there, and takes no more.

        Raises:
            InfraError: the last events are missing there.
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
            raise StorageError(f"the last events are missing there: {trouble or 'it is slow'}")
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
                _log.error("the job's events cannot be written to %s yet: %s", self._files.path, error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _SELDOM_AGAIN)
        self._hand_over()

    def _opened(self) -> AppendLog:
        self._files.make()
        options = AppendOptions(interval=_SELDOM, permission=0o600, patience=math.inf, most_waiting=2 * _WAITING)
        path = f"{self._files.path}/{self._name}"
        return AppendLog(self._files.client, path, options, recover=self._recover, told=self._told)

    def _hand_over(self) -> None:
        """Gives the log what the file has more than at the last time, as far as it takes it now."""
        if self._log is None or self._log.error or self._file < 0:
            return
        while self._handed < self._size and self._log.waiting < _WAITING:
            data = os.pread(self._file, min(_PIECE, self._size - self._handed), self._handed)
            if not data:
                return
            try:
                self._log.write(data)
            except HadoopError:  # it has just given up, and tells so itself
                return
            self._handed += len(data)
        if self._urgent > self._durable:
            self._log.hurry()

    def _told(self, durable: int) -> None:
        """In the log's thread."""
        try:
            self._loop.call_soon_threadsafe(self._arrived, durable)
        except RuntimeError:  # the loop has ended: nobody waits any more
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
            _log.info("the job's events are in %s again, all of them", self._files.path)
        if not self.is_waived:
            self._say(durable)
            if self._size > durable:
                self._wait()

    async def _gave_up(self, error: HadoopError) -> None:
        """The log takes nothing more. Perhaps because it is not ours any more."""
        try:
            taken = await to_thread(self._files.client.find, f"{self._files.path}/{closed_name(self._name)}")
        except InfraError:
            taken = None
        if taken is not None:
            if not self.lost.done():
                self.lost.set_exception(NotInCharge("a later application master has taken the event log"))
            return
        _log.error("the job's events cannot be written to %s any more: %s", self._files.path, error)
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
        if self._loop.time() - due > _STOOD_STILL:  # whoever wakes up after long may be in charge no more
            self._wait()
            return
        trouble = self._log.trouble if self._log else "it is not open yet"
        _log.warning(
            "the job's events wait: %s has taken none for %g s (%s). The job goes on; should its application master be "
            "lost now, the next one knows less than this one",
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

"""What earlier attempts have written of a job: taken from them, and brought into the container.

An event log in HDFS belongs to the attempt that has its name, and that one appends to it by this name. So a successor
renames it first: whoever wrote it finds it no more, however long it was frozen. A write that was on its way ends with
the lease. From then on the log does not change, and is what the job's state is made of.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable

from tony import clock
from tony.errors import InfraError, NotInCharge
from tony.hadoop.ipc.errors import FileExistsAlreadyError, FileMissingError, HadoopError
from tony.model.layout import JobFolder
from tony.schedulers.yarn.event_log_replication import LASTING
from tony.schedulers.yarn.job_folder import JobFiles, closed_name, segment_name

#: Seconds between two tries: of a NameNode that may be starting, and of DataNodes that agree on a file's end.
_AGAIN, _SOON_AGAIN = 0.5, 0.1
_PIECE = 4 << 20
_log = logging.getLogger(__name__)


class PreviousAttempts:
    """The attempts before this one. Blocks.

    Args:
        attempt: this one.
        files: the job's folder in HDFS.
        folder: the job's folder in the container.
        recover: closes a file whose writer died; True when it is closed.
        patience: seconds for which HDFS may be away; the ResourceManager waits for our registration meanwhile.
    """

    def __init__(
        self, attempt: int, files: JobFiles, folder: JobFolder, recover: Callable[[str], bool], patience: float
    ) -> None:
        self._attempt, self._files, self._folder, self._recover = attempt, files, folder, recover
        self._give_up = clock.monotonic() + patience

    def bring(self) -> None:
        """Takes their event logs, and brings them whole.

        Raises:
            NotInCharge: HDFS is away for too long; the next attempt may have more luck.
            HadoopError: it refuses us.
        """
        for number in range(1, self._attempt):
            self._patiently(number)

    def bring_measured(self) -> None:
        """Brings what they have measured, if that can be had: without it the job goes on as well."""
        here = self._folder.metrics
        there, draft = self._path(here.name), here.with_name(f".{here.name}.new")
        try:
            status = self._files.client.find(there)
            if status is None:
                return
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with open(descriptor, "wb", buffering=0) as file:
                have = 0
                while have < status.length:
                    have += file.write(self._files.client.read(there, have, min(_PIECE, status.length - have)))
            os.replace(draft, here)
        except (InfraError, OSError) as error:
            _log.warning("what was measured before cannot be had: %s", error)

    def _bring(self, number: int) -> None:
        there, closed = self._path(segment_name(number)), self._path(closed_name(segment_name(number)))
        if self._files.client.find(closed) is None:
            self._take(there, closed)
        while not self._recover(closed):
            if clock.monotonic() > self._give_up:
                raise NotInCharge(f"{closed} was not closed in time; another application master may go on")
            time.sleep(_SOON_AGAIN)
        status = self._files.client.status(closed)
        here = self._folder.events(number)
        descriptor = os.open(here, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb", buffering=0) as file:
            have = 0
            while have < status.length:
                have += file.write(self._files.client.read(closed, have, min(_PIECE, status.length - have)))

    def _take(self, there: str, closed: str) -> None:
        """An attempt that has written nothing finds that it must not, either."""
        try:
            self._files.client.rename(there, closed)
        except FileExistsAlreadyError:
            return  # our own try before got through
        except FileMissingError:
            self._files.make()
            try:
                self._files.client.create(closed, b"", permission=0o600)
            except FileExistsAlreadyError:
                return

    def _path(self, name: str) -> str:
        return f"{self._files.path}/{name}"

    def _patiently(self, number: int) -> None:
        told = False
        while True:
            try:
                return self._bring(number)
            except NotInCharge:
                raise
            except HadoopError as error:
                if isinstance(error, LASTING):
                    raise
                if clock.monotonic() + _AGAIN > self._give_up:
                    raise NotInCharge(
                        f"what the job has come to cannot be read, and another application master may go on: {error}"
                    ) from error
                if not told:
                    _log.warning("the job's event log cannot be had yet: %s", error)
                    told = True
            time.sleep(_AGAIN)

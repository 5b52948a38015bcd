"""Event logs and metrics of earlier AM attempts: fence their writers, and copy them into the container.

An AM attempt appends to its event log in HDFS by name. So a later one renames it first: the former writer no longer
finds it, however long it was suspended, and a write in progress ends with the lease. From then on the log does not
change, and the job's state is rebuilt from it.
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
from tony.schedulers.yarn.job_store.event_log_replication import LASTING
from tony.schedulers.yarn.job_store.job_folder import JobFiles, closed_name, segment_name

#: Seconds between two attempts: for a NameNode that may be starting, and for DataNodes agreeing on a file's length.
_RETRY_SECONDS = 0.5
_LEASE_POLL_SECONDS = 0.1
_PIECE = 4 << 20
_log = logging.getLogger(__name__)


class PreviousAttempts:
    """The AM attempts before this one. Blocks.

    Args:
        attempt: this AM attempt.
        files: the job's folder in HDFS.
        folder: the job directory in the container.
        recover: recovers a file's lease from a dead writer; True when the file is closed.
        patience: seconds for which HDFS may be unavailable, while the ResourceManager waits for our registration.
    """

    def __init__(
        self, attempt: int, files: JobFiles, folder: JobFolder, recover: Callable[[str], bool], patience: float
    ) -> None:
        self._attempt, self._files, self._folder, self._recover = attempt, files, folder, recover
        self._give_up = clock.monotonic() + patience

    def fetch_event_logs(self) -> None:
        """Take over their event logs, and copy them whole.

        Raises:
            NotInCharge: HDFS is unavailable for too long; the next AM attempt may succeed.
            HadoopError: it refuses.
        """
        for number in range(1, self._attempt):
            self._fetch_with_retry(number)

    def fetch_metrics(self) -> None:
        """Copy their metrics, if available: the job can continue without them."""
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
            _log.warning("cannot fetch the metrics of earlier AM attempts: %s", error)

    def _fetch_event_log(self, number: int) -> None:
        there, closed = self._path(segment_name(number)), self._path(closed_name(segment_name(number)))
        if self._files.client.find(closed) is None:
            self._fence(there, closed)
        while not self._recover(closed):
            if clock.monotonic() > self._give_up:
                raise NotInCharge(f"{closed} was not closed in time; another AM attempt may continue the job")
            time.sleep(_LEASE_POLL_SECONDS)
        status = self._files.client.status(closed)
        here = self._folder.events(number)
        descriptor = os.open(here, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb", buffering=0) as file:
            have = 0
            while have < status.length:
                have += file.write(self._files.client.read(closed, have, min(_PIECE, status.length - have)))

    def _fence(self, there: str, closed: str) -> None:
        """Rename the log. If there is none, create it, which fences an AM attempt that has not written yet."""
        try:
            self._files.client.rename(there, closed)
        except FileExistsAlreadyError:
            return  # a previous attempt of ours has succeeded
        except FileMissingError:
            self._files.make()
            try:
                self._files.client.create(closed, b"", permission=0o600)
            except FileExistsAlreadyError:
                return

    def _path(self, name: str) -> str:
        return f"{self._files.path}/{name}"

    def _fetch_with_retry(self, number: int) -> None:
        is_logged = False
        while True:
            try:
                return self._fetch_event_log(number)
            except NotInCharge:
                raise
            except HadoopError as error:
                if isinstance(error, LASTING):
                    raise
                if clock.monotonic() + _RETRY_SECONDS > self._give_up:
                    raise NotInCharge(
                        f"cannot read the job's event log, so another AM attempt may continue the job: {error}"
                    ) from error
                if not is_logged:
                    _log.warning("cannot read the job's event log yet: %s", error)
                    is_logged = True
            time.sleep(_RETRY_SECONDS)

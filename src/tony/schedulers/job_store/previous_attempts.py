"""Copies what a later AM attempt needs of those before it from the job's store into its container.

It first fences the writers of their event logs: from then on they do not change, and the job's state is rebuilt from
them.
"""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

from tony import clock
from tony.errors import AttemptSupersededError, InfraError, StorageError
from tony.model.state_directory import JobFolder, build_segment_name
from tony.schedulers.job_store.job_store import JobStore, StoredFile

#: Seconds between two attempts, for a store that may be starting, and between two checks that a writer is fenced.
_RETRY_SECONDS = 0.5
_FENCE_POLL_SECONDS = 0.1
_log = logging.getLogger(__name__)


class PreviousAttempts:
    """The AM attempts before this one. Blocks.

    Args:
        attempt: this AM attempt.
        store: the job's files.
        folder: the job directory in the container.
        timeout: seconds for which the store may be unavailable, while the scheduler waits for this AM attempt.
    """

    def __init__(self, attempt: int, store: JobStore, folder: JobFolder, timeout: float) -> None:
        self._attempt, self._store, self._folder = attempt, store, folder
        self._give_up = clock.monotonic() + timeout

    def fetch_event_logs(self) -> None:
        """Take over their event logs, and copy them whole.

        Raises:
            AttemptSupersededError: the store is unavailable for too long; the next AM attempt may succeed.
            InfraError: it refuses.
        """
        for number in range(1, self._attempt):
            self._fetch_with_retry(number)

    def fetch_metrics(self) -> None:
        """Copy their metrics, if available: the job can continue without them."""
        local_path = self._folder.metrics
        draft = local_path.with_name(f".{local_path.name}.new")
        try:
            stored = self._store.find(local_path.name)
            if stored is None:
                return
            self._copy(stored, draft)
            os.replace(draft, local_path)
        except (InfraError, OSError) as error:
            _log.warning("cannot fetch the metrics of earlier AM attempts: %s", error)

    def _fetch_event_log(self, number: int) -> None:
        name = build_segment_name(number)
        while (stored := self._store.take_over_log(name)) is None:
            if clock.monotonic() > self._give_up:
                raise AttemptSupersededError(
                    f"{self._store.path}/{name} was not closed in time; another AM attempt may continue the job"
                )
            time.sleep(_FENCE_POLL_SECONDS)
        self._copy(stored, self._folder.events(number))

    def _copy(self, stored: StoredFile, target: Path) -> None:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb", buffering=0) as file:
            if not self._store.copy(stored, file, stored.size):
                raise StorageError(f"{self._store.path}/{stored.name} was removed while it was read")

    def _fetch_with_retry(self, number: int) -> None:
        is_logged = False
        while True:
            try:
                return self._fetch_event_log(number)
            except AttemptSupersededError:
                raise
            except InfraError as error:
                if self._store.is_permanent(error):
                    raise
                if clock.monotonic() + _RETRY_SECONDS > self._give_up:
                    raise AttemptSupersededError(
                        f"cannot read the job's event log, so another AM attempt may continue the job: {error}"
                    ) from error
                if not is_logged:
                    _log.warning("cannot read the job's event log yet: %s", error)
                    is_logged = True
            time.sleep(_RETRY_SECONDS)

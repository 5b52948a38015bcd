"""A job's files in two stores: what leads clients to its application master, and its history.

The first store is the scheduler's own, so a client that knows the job can reach its application master, and leave a
kill request, whether it can read the history or not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tony.errors import InfraError
from tony.schedulers.job_store.job_store import ACCESS_FILE, JobStore, LogAppender, StoredFile

#: What leads to the application master; deleted when the job has ended.
_CONTACTS = frozenset({ACCESS_FILE, "am.json", "kill.json"})


class SplitJobStore(JobStore):
    """The files of one job.

    Args:
        contacts: has what leads to the application master.
        history: has everything else.
    """

    def __init__(self, contacts: JobStore, history: JobStore) -> None:
        self.path = history.path
        self._contacts, self._history = contacts, history

    def make(self) -> None:
        self._history.make()

    def list(self) -> Mapping[str, StoredFile]:
        contacts = {name: stored for name, stored in self._contacts.list().items() if name in _CONTACTS}
        return {**self._history.list(), **contacts}

    def find(self, name: str) -> StoredFile | None:
        return self._select(name).find(name)

    def read(self, name: str, offset: int, most: int) -> bytes | None:
        return self._select(name).read(name, offset, most)

    def put(self, name: str, data: bytes | Path, draft: str = "new") -> None:
        self._select(name).put(name, data, draft)

    def delete(self, name: str) -> None:
        self._select(name).delete(name)

    def remove_drafts(self) -> None:
        self._contacts.remove_drafts()
        self._history.remove_drafts()

    def open_log(self, name: str, interval: float, most_waiting: int, on_durable: Callable[[int], None]) -> LogAppender:
        return self._history.open_log(name, interval, most_waiting, on_durable)

    def take_over_log(self, name: str) -> StoredFile | None:
        return self._history.take_over_log(name)

    def is_taken_over(self, name: str) -> bool:
        return self._history.is_taken_over(name)

    def claim_attempt(self, build_log_name: Callable[[int], str]) -> int:
        return self._history.claim_attempt(build_log_name)

    def is_permanent(self, error: InfraError) -> bool:
        return self._contacts.is_permanent(error) or self._history.is_permanent(error)

    def close(self) -> None:
        self._contacts.close()
        self._history.close()

    def _select(self, name: str) -> JobStore:
        return self._contacts if name in _CONTACTS else self._history

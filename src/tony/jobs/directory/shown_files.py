"""Which files of a job directory a page shows, so that it is updated when one of them changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import blake2b

from tony.model.log_name import LogName
from tony.model.state_directory import SEGMENT_GLOB
from tony.storage.stores.store_interface import Item


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFiles:
    """The event log and the summary, and what the attributes add.

    Attributes:
        metrics: the metrics.
        task: the logs of a task (`worker:0`) or a role; of all tasks if empty; None: no logs.
    """

    metrics: bool = False
    task: str | None = None

    @property
    def log_prefix(self) -> str:
        """The beginning of the names of the logs."""
        role, colon, index = (self.task or "").partition(":")
        return f"{role}-{index}.s" if colon else f"{role}-" if role else ""

    def includes(self, name: str) -> bool:
        """Return True if a file is shown, by its name in the job directory or in its `logs`."""
        if name in ("summary.json", "logs") or fnmatchcase(name, SEGMENT_GLOB):
            return True
        if name == "metrics.db":
            return self.metrics
        return self.task is not None and name.startswith(self.log_prefix) and LogName.parse(name) is not None

    def digest(self, items: Iterable[Item]) -> str:
        """Return a text that differs after any change of the shown ones of these files."""
        found = sorted(
            (item.name, 0 if item.folder else item.size, 0 if item.folder else item.changed)
            for item in items
            if self.includes(item.name)
        )
        return blake2b(repr(found).encode(), digest_size=12).hexdigest()

"""How a job stood when it was heard of last: for when nobody answers for it, and nothing says that it has ended.

Its event log says it, as far as that is here. Of a job elsewhere the log may be out of reach, together with its file
system: the last report that anybody here has heard is kept beside it.
"""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import Self

from tony.dataclass import replace
from tony.errors import RecordError, StorageError
from tony.history.files import read_json, write_json
from tony.model.codec import DecodeError, from_plain, to_plain
from tony.model.layout import JobFolder
from tony.model.record import JobRecord
from tony.model.report import JobReport


def known(folder: JobFolder, record: JobRecord, *, fresh: bool) -> JobReport:
    """What log and last report say. Blocking: replays the whole log.

    Args:
        fresh: the log here is as new as the one that it is a copy of.
    """
    from tony.client.post_mortem import as_logged  # late: it loads the whole machine

    logged, heard = as_logged(folder, record), _heard(folder)
    if heard is None:
        return logged
    newer = (heard.attempt, heard.session), (logged.attempt, logged.session)
    if newer[0] > newer[1] or (newer[0] == newer[1] and not fresh):
        return replace(heard, folder=str(folder.path))
    return replace(logged, submitted=heard.submitted)  # by the scheduler's clock, as in every report of its master


def note(folder: JobFolder, report: JobReport) -> None:
    """Keeps what was just heard of a job elsewhere; a help, nothing more."""
    with contextlib.suppress(StorageError):
        write_json(folder.heard, to_plain(report))


class Heard:
    """What somebody hears who follows a job: kept when he hears no more. A context manager.

    Args:
        folder: of a job elsewhere; None: nothing needs to be kept.

    Attributes:
        last: the newest report that is not kept yet.
    """

    def __init__(self, folder: JobFolder | None) -> None:
        self._folder = folder
        self.last: JobReport | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.keep()

    def keep(self) -> None:
        """He hears no more for now."""
        last, self.last = self.last, None
        if last and self._folder:
            note(self._folder, last)


def _heard(folder: JobFolder) -> JobReport | None:
    try:
        data = read_json(folder.heard)
        return None if data is None else from_plain(JobReport, data, ignore_unknown=True)
    except (RecordError, StorageError, DecodeError):
        return None

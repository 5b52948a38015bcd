"""How a job stood when it was heard of last: for when nobody answers for it, and nothing says that it has ended.

Its event log says it, as far as that is here. Of a job elsewhere the log may be out of reach, together with its file
system: the last report that anybody here has heard is kept beside it.
"""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import Self

from tony.dataclass import replace
from tony.errors import ConnectionFailed, InfraError, RecordError, StorageError
from tony.history.job_record import record_of
from tony.history.json_files import read_json, write_json
from tony.linux.threads import to_thread
from tony.model.codec import DecodeError, from_plain, to_plain
from tony.model.job_record import JobRecord
from tony.model.job_report import JobReport
from tony.model.layout import Home, JobFolder
from tony.schedulers import registry

_WITHOUT = "its application master does not answer; this is what is known without it"


async def last_known(home: Home, job_id: str) -> JobReport:
    """How a job stood whose application master does not answer.

    Raises:
        UnknownJobError: there is no such job.
    """
    folder, record = home.job(job_id), record_of(home, job_id)
    fresh = True
    try:
        await registry.load(record.spec.scheduler).submitter(home).fetch(folder)
    except (InfraError, LookupError):
        fresh = False
    return replace(await to_thread(load_cached_report, folder, record, fresh=fresh), waiting=_WITHOUT)


def load_cached_report(folder: JobFolder, record: JobRecord, *, fresh: bool) -> JobReport:
    """What log and last report say. Blocking: replays the whole log.

    Args:
        fresh: the log here is as new as the one that it is a copy of.
    """
    from tony.jobs.dead_am_report import as_logged  # late: it loads the whole machine

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


class ReportCache:
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


def add_stop_hint(home: Home, job_id: str, error: ConnectionFailed) -> ConnectionFailed:
    """Says what becomes of a job elsewhere whose application master lives and does not answer."""
    try:
        here = registry.load(record_of(home, job_id).spec.scheduler).submitter(home).capabilities.same_host
    except LookupError:
        return error
    if here or error.gone:
        return error
    return ConnectionFailed(
        f"{error}. Programs go on without it. If it stays silent, its scheduler has another one take over after a "
        f"while; `tony kill {job_id}` ends the job in any case."
    )

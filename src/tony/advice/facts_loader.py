"""Facts from the folders of a home. Blocking."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from tony import clock
from tony.advice.facts import Facts, Run, alike, run_of
from tony.advice.heuristic import RUNS_THAT_PROVE
from tony.errors import RecordError, TonyError
from tony.history import event_log
from tony.history.job_listing import scan
from tony.history.job_record import read_job, read_summary, record_of
from tony.history.metrics_reader import open_metrics
from tony.model.job_record import JobRecord
from tony.model.job_summary import JobHead
from tony.model.layout import Home, JobFolder

#: Runs that are looked at, the job itself included, and records that are opened to find them.
RUNS, _OPENED = 10, 50
#: Bytes of event logs after which a few runs are enough: a log of that size takes seconds.
_ENOUGH = 20 << 20


def read_run(folder: JobFolder, record: JobRecord | None = None) -> Run:
    """One run from its folder.

    Raises:
        RecordError: there is no record, no event log, or they make no sense.
        StorageError: they cannot be read.
    """
    record = record or read_job(folder)
    segments = event_log.segments(folder.path)
    if record is None or not segments:
        raise RecordError(f"{folder.path} holds no events of a job")
    report = read_summary(folder)
    with open_metrics(folder.metrics) as metrics:
        known = metrics if metrics.known else None
        return run_of(record, event_log.read(segments), known, report, None if report else clock.wall())


def facts_of(home: Home, job_id: str) -> Facts:
    """A job, and its runs before.

    Raises:
        UnknownJobError: there is no such job.
        RecordError, StorageError: its own record cannot be read.
    """
    record = record_of(home, job_id)
    runs = [read_run(home.job(job_id), record)]
    problems: list[str] = []
    size = _size(home.job(job_id))
    for folder, other in _before(home, record):
        try:
            runs.append(read_run(folder, other))
        except TonyError as error:
            problems.append(f"{folder.job_id}: {error}")
        size += _size(folder)
        if len(runs) == RUNS or (len(runs) >= RUNS_THAT_PROVE and size > _ENOUGH):
            break
    return Facts(runs=tuple(runs), problems=tuple(problems))


def _size(folder: JobFolder) -> int:
    total = 0
    for path in event_log.segments(folder.path):
        with contextlib.suppress(OSError):
            total += path.stat().st_size
    return total


def _before(home: Home, record: JobRecord) -> Iterator[tuple[JobFolder, JobRecord]]:
    """Runs of the same job that were submitted before it and have ended, newest first."""
    for head in same_job(scan(home).ended, record)[:_OPENED]:
        folder = home.job(head.job)
        try:
            other = read_job(folder)
        except TonyError:
            continue
        if other is not None and alike(record, other):
            yield folder, other


def same_job(heads: Iterable[JobHead], record: JobRecord) -> list[JobHead]:
    """Those of many that may be runs of a job before it, newest first."""
    spec = record.spec
    found = [
        head
        for head in heads
        if (head.name, head.user, head.framework) == (spec.name, record.user, spec.framework)
        and head.job != record.job_id
        and head.state.ended
        and head.submitted <= record.submitted
    ]
    return sorted(found, key=lambda head: head.submitted, reverse=True)

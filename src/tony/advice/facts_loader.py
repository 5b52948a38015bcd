"""Loads facts from job directories. Blocking."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from itertools import islice

from tony import clock
from tony.advice.facts import Facts, Run, is_same_job, run_of
from tony.advice.heuristic import RUNS_THAT_PROVE
from tony.errors import RecordError, TonyError
from tony.history import event_log
from tony.history.directory_scan import scan
from tony.history.job_record import read_job, read_summary, record_of
from tony.history.metrics_reader import open_metrics
from tony.model.job_summary import JobHead
from tony.model.layout import Home, JobFolder
from tony.model.submission_record import JobRecord

#: Most runs that are read, including the job itself.
RUNS = 10
#: Most job directories that are opened to find them.
_MAX_OPENED = 50
#: Bytes of event logs after which fewer runs are enough: reading them takes seconds.
_ENOUGH_BYTES = 20 << 20


def read_run(
    folder: JobFolder, record: JobRecord | None = None, *, own: bool = True, most_events: int | None = None
) -> Run:
    """Load one run from its job directory.

    Args:
        own: the job is in the user's own history; lower limits apply to jobs of other users.
        most_events: events that are read, at most.

    Raises:
        RecordError: it has no `job.json` or event log, or they are damaged.
        StorageError: they cannot be read.
    """
    record = record or read_job(folder, own=own)
    segments = event_log.segments(folder.path)
    if record is None or not segments:
        raise RecordError(f"the events of {folder.job_id} were not kept")
    if not own:
        event_log.check_length_of_others(folder.path, event_log.LONGEST_LISTED_LOG_OF_OTHERS)
    report = read_summary(folder, own=own)
    with open_metrics(folder.metrics, own=own) as metrics:
        known = metrics if metrics.known else None
        entries = islice(event_log.read(segments), most_events)
        return run_of(record, entries, known, report, None if report else clock.wall())


def load_facts(home: Home, job_id: str) -> Facts:
    """Load a job and its earlier runs.

    Raises:
        UnknownJobError: there is no such job.
        RecordError, StorageError: its own directory cannot be read.
    """
    record = record_of(home, job_id)
    runs = [read_run(home.job(job_id), record)]
    problems: list[str] = []
    size = _size(home.job(job_id))
    for folder, other in _earlier_runs(home, record):
        try:
            runs.append(read_run(folder, other))
        except TonyError as error:
            problems.append(f"{folder.job_id}: {error}")
        size += _size(folder)
        if len(runs) == RUNS or (len(runs) >= RUNS_THAT_PROVE and size > _ENOUGH_BYTES):
            break
    return Facts(runs=tuple(runs), problems=tuple(problems))


def _size(folder: JobFolder) -> int:
    total = 0
    for path in event_log.segments(folder.path):
        with contextlib.suppress(OSError):
            total += path.stat().st_size
    return total


def _earlier_runs(home: Home, record: JobRecord) -> Iterator[tuple[JobFolder, JobRecord]]:
    """Yield ended runs of the same job that were submitted before it, newest first."""
    for head in same_job(scan(home).ended, record)[:_MAX_OPENED]:
        folder = home.job(head.job)
        try:
            other = read_job(folder)
        except TonyError:
            continue
        if other is not None and is_same_job(record, other):
            yield folder, other


def same_job(heads: Iterable[JobHead], record: JobRecord) -> list[JobHead]:
    """Return the jobs that may be earlier runs of a job, newest first."""
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

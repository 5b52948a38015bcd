"""Loads facts from job directories."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from itertools import islice

from tony import clock
from tony.advice.facts import Facts, Run, is_same_job
from tony.advice.facts_builder import run_of
from tony.advice.heuristic import RUNS_THAT_PROVE
from tony.errors import MissingRecordError, TonyError
from tony.history import event_log
from tony.history.directory_scan import scan
from tony.history.job_record import read_job, read_summary
from tony.history.metrics_reader import Metrics
from tony.jobs.directory.view import DirectoryJobView
from tony.model.job_summary import JobHead
from tony.model.state_directory import JobFolder
from tony.model.submission_record import JobRecord
from tony.units import format_count

JobLister = Callable[[JobRecord], Awaitable[Iterable[JobHead]]]
JobFinder = Callable[[str], Awaitable[DirectoryJobView | None]]
#: Most runs that are read, including the job itself.
_MAX_RUNS = 10
#: Most job directories that are opened to find them.
_MAX_OPENED = 50
#: Bytes of event logs after which fewer runs are enough: reading them takes seconds.
_ENOUGH_BYTES = 20 << 20
#: Events that are read of one run: more would not change the recommendations.
_MAX_EVENTS = 200_000


def read_run(
    folder: JobFolder, record: JobRecord | None = None, *, own: bool = True, most_events: int | None = None
) -> Run:
    """Load one run from its job directory. Blocking.

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
        raise MissingRecordError(f"the events of {folder.job_id} were not kept")
    if not own:
        event_log.check_foreign_length(folder.path, event_log.MAX_FOREIGN_LISTED_LOG_BYTES)
    report = read_summary(folder, own=own)
    with Metrics(folder.metrics, own=own) as metrics:
        known = metrics if metrics.known else None
        entries = islice(event_log.read(segments), most_events)
        return run_of(record, entries, known, report, None if report else clock.wall())


async def load_run(view: DirectoryJobView, record: JobRecord) -> Run:
    """Load one run through its view. Raises as `read_run`."""
    return await view.read_directory(partial(read_run, record=record, most_events=_MAX_EVENTS))


async def load_facts(
    view: DirectoryJobView, list_ended: JobLister | None = None, find: JobFinder | None = None
) -> Facts:
    """Load a job and its earlier runs.

    Args:
        list_ended: returns jobs that have ended, at least those of the user and framework of a record; None: those of
            the job's state directory, which are read in the loop's own thread.
        find: finds one of them.

    Raises:
        RecordError, StorageError: its own directory cannot be read.
    """
    record = await view.record()
    if record is None:
        raise MissingRecordError(f"the configuration of {view.id} was not kept")
    runs = [await load_run(view, record)]
    problems: list[str] = []
    missing = 0
    size = event_log.compute_size(view.folder.path)
    heads = await list_ended(record) if list_ended else scan(view.home).ended
    for head in select_same_jobs(heads, record)[:_MAX_OPENED]:
        try:
            other = await find(head.job) if find else DirectoryJobView(view.home.job(head.job))
            other_record = await other.record() if other else None
        except TonyError:
            continue
        if other is None or other_record is None or not is_same_job(record, other_record):
            continue
        try:
            runs.append(await load_run(other, other_record))
        except MissingRecordError:
            missing += 1
        except TonyError as error:
            problems.append(f"{head.job}: {error}")
        size += event_log.compute_size(other.folder.path)
        if len(runs) == _MAX_RUNS or (len(runs) >= RUNS_THAT_PROVE and size > _ENOUGH_BYTES):
            break
    if missing:
        problems.append(f"the events of {format_count(missing, 'earlier run')} are not on this machine")
    return Facts(runs=tuple(runs), problems=tuple(problems))


def select_same_jobs(heads: Iterable[JobHead], record: JobRecord) -> list[JobHead]:
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

"""Metrics and progress of a job: from its file, and newer ones from its running AM."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tony.errors import ConnectionFailedError, ProtocolError, RecordError, StorageError
from tony.history import event_log
from tony.history.metrics_reader import Metrics, NewestMetrics
from tony.jobs.am_client import request_metrics
from tony.linux.thread_pools import to_thread
from tony.model.job_report import JobReport
from tony.model.metric_definitions import MAX_POINTS, PROGRAM, Points, find_program_name
from tony.model.progress import JobProgress, Progress, TaskProgress
from tony.model.progress_rules import measure_job, measure_task
from tony.model.state_directory import JobFolder
from tony.model.states import JobState, TaskState

#: Tasks per request to the AM.
_TASKS_PER_REQUEST = 400


async def load_series(
    folder: JobFolder, tasks: Sequence[str], patterns: Sequence[str], most: int, *, live: bool
) -> list[Points]:
    """Return series of tasks, ordered by task and then as `ordered`; those without data are left out.

    Args:
        tasks: all selected tasks.
        patterns: patterns of series names, with `*` and `?`.
        most: points of each, at most.
        live: query the AM as well; if it cannot be reached, only the file is used.
    """
    kept = await to_thread(_read_stored, folder, tasks, patterns, most)
    if live:
        newer = await fetch_newest(folder, tasks, (), min(most, MAX_POINTS))
        _append_newer(kept, [points for points in newer if matches(patterns, points.series)], most)
    places = {task: number for number, task in enumerate(tasks)}
    names = {name: number for number, name in enumerate(sort_series({series for _, series in kept}))}
    return sorted(kept.values(), key=lambda points: (places[points.task], names[points.series]))


async def fetch_newest(folder: JobFolder, tasks: Sequence[str], series: Sequence[str], points: int) -> list[Points]:
    """Return the newest points of series from the running AM; nothing if it cannot be reached.

    Args:
        series: exact names; empty for all.
    """
    found: list[Points] = []
    waiting = [list(tasks[at : at + _TASKS_PER_REQUEST]) for at in range(0, len(tasks), _TASKS_PER_REQUEST)]
    try:
        while waiting:
            batch = waiting.pop(0)
            answer = await request_metrics(folder, batch, series, points)
            if answer.more and len(batch) > 1:
                half = len(batch) // 2
                waiting[:0] = [batch[:half], batch[half:]]
                continue
            found += answer.points
    except (ConnectionFailedError, ProtocolError):  # it is exiting, or too old for this request
        return found
    return found


async def load_newest(folder: JobFolder) -> NewestMetrics | None:
    """Return the newest metrics of all tasks from the running AM; None if it has none, as one that was just started.

    Of very many tasks it has all progress, but not all values.

    Raises as `am_client.connect_to_am` does.
    """
    answer = await request_metrics(folder)
    values: dict[str, dict[str, float]] = {}
    for points in answer.points:
        value = find_last_value(points)
        if value is not None:
            values.setdefault(points.task, {})[points.series] = value
    if not (values or answer.progress):
        return None
    return NewestMetrics(now=answer.now, progress=answer.progress, values=values)


async def read_progress(folder: JobFolder, tasks: Sequence[str], *, live: bool) -> Reports:
    """Return the steps reported by user programs, from the running AM or else from the file.

    Args:
        live: query the AM.
    """
    found: list[Progress] = []
    now = None
    if live:
        try:
            for at in range(0, len(tasks), _TASKS_PER_REQUEST):
                answer = await request_metrics(folder, tasks[at : at + _TASKS_PER_REQUEST], ("step",), 1)
                now = answer.now
                found += answer.progress
        except (ConnectionFailedError, ProtocolError):  # it is exiting
            found = []
    return Reports(progress=tuple(found), now=now) if found else await to_thread(_read_reports, folder)


def _read_reports(folder: JobFolder) -> Reports:
    with Metrics(folder.metrics) as metrics:
        return read_reports(metrics)


def find_last_value(points: Points | None) -> float | None:
    """Return the newest value of a series; None without one.

    Where an earlier tony has stored none, it is the mean of the last seconds, or the highest step of these.
    """
    if points is None or not points.mean:
        return None
    if points.last is not None:
        return points.last
    return points.most[-1] if points.series == "step" else points.mean[-1]


def read_acceptance_time(folder: JobFolder) -> float | None:
    """Return when a job was accepted, in seconds since 1970; None if there is no event log here."""
    try:
        first = next(event_log.read(event_log.segments(folder.path)), None)
    except (RecordError, StorageError):
        return None
    return None if first is None else first.wall - first.at


def matches(patterns: Sequence[str], name: str) -> bool:
    """Return True if a series matches one of the patterns."""
    return any(fnmatchcase(name, each) for each in patterns)


def sort_series(names: Iterable[str]) -> list[str]:
    """Sort series for display: of the process, of its devices, reported by the program."""
    places = {name: number for number, name in enumerate(PROGRAM)}

    def key(name: str) -> tuple[int, int, str]:
        return 2 if find_program_name(name) is not None else name not in places, places.get(name, 0), name

    return sorted(names, key=key)


def _read_stored(
    folder: JobFolder, tasks: Sequence[str], patterns: Sequence[str], most: int
) -> dict[tuple[str, str], Points]:
    with Metrics(folder.metrics) as metrics:
        return {(point.task, point.series): point for point in _read_points(metrics, tasks, patterns, most)}


def _read_points(metrics: Metrics, tasks: Sequence[str], patterns: Sequence[str], most: int) -> Iterable[Points]:
    names = [name for name in metrics.series() if matches(patterns, name)]
    known = set(metrics.tasks())
    for task in tasks:
        for name in names if task in known else ():
            points = metrics.points(task, name, most=most)
            if points.at:
                yield points


def _append_newer(kept: dict[tuple[str, str], Points], newer: Iterable[Points], most: int) -> None:
    """Append newer points to stored ones."""
    for points in newer:
        key = points.task, points.series
        before = kept.get(key)
        if before is None:
            if points.at:
                kept[key] = points
            continue
        first = next((n for n, at in enumerate(points.at) if at > before.at[-1]), len(points.at))
        kept[key] = Points(
            task=points.task,
            series=points.series,
            every=max(before.every, points.every),
            at=(before.at + points.at[first:])[-most:],
            least=(before.least + points.least[first:])[-most:],
            mean=(before.mean + points.mean[first:])[-most:],
            most=(before.most + points.most[first:])[-most:],
            last=before.last if points.last is None else points.last,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """The steps reported by user programs.

    Attributes:
        now: seconds since the job was accepted, up to which the reports are complete; None if unknown.
    """

    progress: tuple[Progress, ...] = ()
    now: float | None = None


def read_reports(metrics: Metrics) -> Reports:
    """Return the progress reports in a job's metrics file."""
    return Reports(progress=metrics.progress(), now=metrics.known_until)


def find_job_progress(reports: Reports, report: JobReport) -> JobProgress | None:
    """Return a job's progress; None if no program of the current session has reported a step."""
    running, succeeded = _sort_tasks(report)
    session = 0 if report.state.ended else report.session
    return measure_job(reports.progress, reports.now, session, succeeded, running, report.stalled_task)


def find_task_progress(reports: Reports, report: JobReport) -> dict[str, TaskProgress]:
    """Return the progress of each task that has ever reported a step, in any session."""
    running, succeeded = _sort_tasks(report)
    newest: dict[str, Progress] = {}
    for progress in sorted(reports.progress, key=lambda each: (each.session, each.try_)):
        if progress.first_at >= 0:
            newest[progress.task] = progress
    return {
        task: measure_task(
            each,
            reports.now if task in running else None,
            succeeded=task in succeeded,
            stalled_task=report.stalled_task,
        )
        for task, each in newest.items()
    }


def _sort_tasks(report: JobReport) -> tuple[frozenset[str], frozenset[str]]:
    """Return the running tasks and the succeeded ones."""
    done = report.state is JobState.SUCCEEDED
    running = frozenset(task.task for task in report.tasks if task.pid is not None and not report.state.ended)
    succeeded = frozenset(task.task for task in report.tasks if done or task.state is TaskState.SUCCEEDED)
    return running, succeeded

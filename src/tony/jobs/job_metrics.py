"""What was measured of a job: from the file of its record, and from its living application master what is newer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from tony.errors import ConnectionFailed, ProtocolError, RecordError, StorageError
from tony.history import event_log
from tony.history.metrics_reader import Metrics, open_metrics
from tony.jobs.am_client import ask_metrics
from tony.jobs.progress import Reports, read_reports
from tony.linux.threads import to_thread
from tony.model.layout import JobFolder
from tony.model.metrics import OF_PROGRAMS, PROGRAM
from tony.model.progress import Progress
from tony.protocol.messages import MOST_POINTS, Points

#: Tasks that a living master is asked about at one time.
_AT_ONCE = 400


async def measured(
    folder: JobFolder, tasks: Sequence[str], wanted: Sequence[str], most: int, *, live: bool
) -> list[Points]:
    """Series of tasks, in the order of the tasks and of `ordered`; those of which nothing is known are left out.

    Args:
        tasks: all that are meant.
        wanted: names of series, in which `*` and `?` stand for others.
        most: points of each, at most.
        live: ask its application master as well; one that cannot be asked is no error, what was written down counts.
    """
    kept = await to_thread(_kept, folder, tasks, wanted, most)
    if live:
        newer = await newest(folder, tasks, (), min(most, MOST_POINTS))
        _add(kept, [points for points in newer if takes(wanted, points.series)], most)
    places = {task: number for number, task in enumerate(tasks)}
    names = {name: number for number, name in enumerate(ordered({series for _, series in kept}))}
    return sorted(kept.values(), key=lambda points: (places[points.task], names[points.series]))


async def newest(folder: JobFolder, tasks: Sequence[str], series: Sequence[str], points: int) -> list[Points]:
    """The newest points of series, from the living application master; nothing, if it cannot be asked.

    Args:
        series: exact names; none for all.
    """
    found: list[Points] = []
    waiting = [list(tasks[at : at + _AT_ONCE]) for at in range(0, len(tasks), _AT_ONCE)]
    try:
        while waiting:
            asked = waiting.pop(0)
            answer = await ask_metrics(folder, asked, series, points)
            if answer.more and len(asked) > 1:
                half = len(asked) // 2
                waiting[:0] = [asked[:half], asked[half:]]
                continue
            found += answer.points
    except (ConnectionFailed, ProtocolError):  # it ends just now, or is older than this question
        return found
    return found


async def read_progress(folder: JobFolder, tasks: Sequence[str], *, live: bool) -> Reports:
    """Return what programs have reported of their steps: as the living application master has it, or the file.

    Args:
        live: ask the application master.
    """
    found: list[Progress] = []
    now = None
    if live:
        try:
            for at in range(0, len(tasks), _AT_ONCE):
                answer = await ask_metrics(folder, tasks[at : at + _AT_ONCE], ("step",), 1)
                now = answer.now
                found += answer.progress
        except (ConnectionFailed, ProtocolError):  # it ends just now
            found = []
    return Reports(progress=tuple(found), now=now) if found else await to_thread(_read_reports, folder)


def _read_reports(folder: JobFolder) -> Reports:
    with open_metrics(folder.metrics) as metrics:
        return read_reports(metrics)


def last(points: Points | None) -> float | None:
    """The newest value of a series; None without one.

    A point is the mean of some seconds. Steps only grow, so of them the most in it is what was told last, unless the
    program began anew meanwhile.
    """
    if points is None or not points.mean:
        return None
    grows = points.series == "step" and (len(points.most) < 2 or points.least[-1] >= points.most[-2])
    return points.most[-1] if grows else points.mean[-1]


def accepted(folder: JobFolder) -> float | None:
    """When a job was accepted, seconds since 1970; None if nothing of it is known here."""
    try:
        first = next(event_log.read(event_log.segments(folder.path)), None)
    except (RecordError, StorageError):
        return None
    return None if first is None else first.wall - first.at


def takes(wanted: Sequence[str], name: str) -> bool:
    """Whether a series is among those that are wanted."""
    return any(fnmatchcase(name, each) for each in wanted)


def ordered(names: Iterable[str]) -> list[str]:
    """Series as people look for them: of the program, of its devices, its own."""
    places = {name: number for number, name in enumerate(PROGRAM)}

    def key(name: str) -> tuple[int, int, str]:
        return 2 if name.startswith(OF_PROGRAMS) else name not in places, places.get(name, 0), name

    return sorted(names, key=key)


def _kept(folder: JobFolder, tasks: Sequence[str], wanted: Sequence[str], most: int) -> dict[tuple[str, str], Points]:
    with open_metrics(folder.metrics) as metrics:
        return {(each.task, each.series): each for each in _each(metrics, tasks, wanted, most)}


def _each(metrics: Metrics, tasks: Sequence[str], wanted: Sequence[str], most: int) -> Iterable[Points]:
    names = [name for name in metrics.series() if takes(wanted, name)]
    known = set(metrics.tasks())
    for task in tasks:
        for name in names if task in known else ():
            points = metrics.points(task, name, most=most)
            if points.at:
                yield points


def _add(kept: dict[tuple[str, str], Points], newer: Iterable[Points], most: int) -> None:
    """Lays what is newer behind what was written down."""
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
        )

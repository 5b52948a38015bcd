"""`tony metrics JOB [TASK...]`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence

import click

from tony.cli.open_job import fetch_job_dir
from tony.cli.options import Count, job_argument, job_id, json_option, task_option, tasks_argument
from tony.cli.terminal.output import print_json, say_all, warn
from tony.cli.terminal.terminal_text import find_columns, knows_unicode
from tony.cli.text.metrics_text import format_csv_heading, format_csv_lines, format_role_table, format_task_table
from tony.errors import InfraError, UserError
from tony.history.job_record import record_of
from tony.history.metric_buckets import RolePoints
from tony.history.metrics_reader import Metrics, Peak
from tony.jobs.job_metrics import fetch_newest, load_series, matches, read_acceptance_time, sort_series
from tony.jobs.log_files import select_named_tasks
from tony.model.codec import Json, to_plain
from tony.model.ids import parse_role
from tony.model.metric_definitions import Points, find_unit
from tony.model.state_directory import JobFolder

#: The series that are shown by default.
_DEFAULT_SERIES = ("cpu", "rss", "gpu*.util", "gpu*.memory", "step", "user.*")
#: With more tasks the table has rows of roles, not of tasks.
_MAX_TASK_ROWS = 20
#: Tasks whose points are in memory at one time.
_BATCH_SIZE = 100


@click.command("metrics")
@job_argument
@tasks_argument
@task_option
@click.option(
    "--series",
    metavar="NAME,...",
    help="cpu,rss,gpu0.util,user.loss; `*` is a wildcard. Default: CPU, memory, GPUs, steps, user metrics.",
)
@click.option("--points", type=Count(1), default=500, show_default=True, help="Maximum number of points per series.")
@click.option("--csv", "as_csv", is_flag=True, help="Print one CSV line per point.")
@json_option("Print each series with its points as JSON.")
def command(
    job: str,
    tasks: tuple[str, ...],
    more_tasks: tuple[str, ...],
    series: str | None,
    points: int,
    as_csv: bool,
    as_json: bool,
) -> None:
    """Show the metrics of JOB's tasks: CPU, memory, GPUs, steps.

    One row per series and task; with more than 20 tasks, one per series and role, unless you name some: TASK is a
    task such as worker:0, or a role for all of its tasks.
    """
    tasks += more_tasks
    home, name = job_id(job)
    record, folder = record_of(home, name), home.job(name)
    every = tuple(map(str, record.spec.task_ids))
    selected = select_named_tasks(name, record.spec.task_ids, tasks)
    selected_tasks = [task for task in every if selected is None or task in selected]
    named = tuple(filter(None, (series or "").split(",")))
    patterns = named or (("*",) if as_csv or as_json else _DEFAULT_SERIES)
    live = not folder.summary.exists()
    if live:
        _fetch_job_dir(folder)
    _check_series(folder, every, named, live=live)
    unicode = knows_unicode(sys.stdout)
    if not (as_csv or as_json) and selected is None and len(every) > _MAX_TASK_ROWS:
        lines = _format_role_rows(folder, patterns, unicode=unicode)
        if len(lines) > 1:
            say_all(lines)
            return
    measures = [] if as_csv else asyncio.run(load_series(folder, selected_tasks, patterns, points, live=live))
    if not (_print_csv(folder, selected_tasks, patterns, points, live=live) if as_csv else measures):
        _explain_absence(folder, record.spec.metrics_interval, ", ".join(tasks) if named else "", live=live)
        if as_csv:
            print(format_csv_heading())
    if as_json and not as_csv:
        print_json([{"unit": find_unit(measure.series).value, **_build_json(measure)} for measure in measures])
    elif measures:
        say_all(format_task_table(measures, find_columns(), unicode=unicode))


def _build_json(points: Points) -> Mapping[str, Json]:
    plain = to_plain(points)
    assert isinstance(plain, Mapping)
    return plain


def _print_csv(folder: JobFolder, tasks: list[str], patterns: tuple[str, ...], most: int, *, live: bool) -> bool:
    """Print CSV in batches of tasks: all points of ten thousand tasks are too many for memory."""
    since = read_acceptance_time(folder)
    any_line = False
    for first in range(0, len(tasks), _BATCH_SIZE):
        found = asyncio.run(load_series(folder, tasks[first : first + _BATCH_SIZE], patterns, most, live=live))
        if found and not any_line:
            print(format_csv_heading())
        for line in format_csv_lines(found, since):
            print(line)
        any_line = any_line or bool(found)
    return any_line


def _fetch_job_dir(folder: JobFolder) -> None:
    """Fetch the job directory of a remote job; if that fails, warn and use the local copy."""
    try:
        fetch_job_dir(folder.home, folder.job_id)
    except InfraError as error:
        warn(f"{error}; showing the local copy")


def _format_role_rows(folder: JobFolder, patterns: tuple[str, ...], *, unicode: bool) -> list[str]:
    with Metrics(folder.metrics) as metrics:

        def iterate_series() -> Iterator[tuple[RolePoints, Mapping[str, Peak]]]:
            names = [name for name in sort_series(metrics.series()) if matches(patterns, name)]
            for role in dict.fromkeys(parse_role(task) for task in metrics.tasks()):
                peaks = metrics.peaks(role)
                for name in names:
                    of = {task: found[name] for task, found in peaks.items() if name in found}
                    yield metrics.read_role_series(role, name, most=48), of

        return format_role_table(iterate_series(), find_columns(), unicode=unicode)


def _check_series(folder: JobFolder, tasks: Sequence[str], named: Sequence[str], *, live: bool) -> None:
    """Warn about named series that no task has, unless the job has no metrics at all.

    Raises:
        UserError: none of them exists.
    """
    with Metrics(folder.metrics) as metrics:
        available = set(metrics.series())

    def find_missing_series() -> list[str]:
        return [each for each in named if not any(matches((each,), name) for name in available)]

    is_complete = not live
    if find_missing_series() and live:  # the newest series may not be on disk yet
        recent = {points.series for points in asyncio.run(fetch_newest(folder, tasks, (), 1))}
        available, is_complete = available | recent, bool(recent)
    if not available or not (missing := find_missing_series()):
        return
    message = (
        f"job {folder.job_id} has no series {', '.join(map(repr, missing))}; it has {', '.join(sort_series(available))}"
    )
    if not is_complete:
        message = f"{message} on disk; newer ones are unknown because its application master does not answer"
    elif len(missing) == len(named):
        raise UserError(message)
    warn(message)


def _explain_absence(folder: JobFolder, interval: float, tasks: str, *, live: bool) -> None:
    """Explain why there is nothing to show.

    Args:
        tasks: the tasks that were named, if series were named as well.

    Raises:
        UserError: the job has ended, and only other tasks have these series.
    """
    with Metrics(folder.metrics) as metrics:
        available, problem = metrics.series(), metrics.problem
    if tasks and available:
        yet, list_all = " yet" if live else "", f"tony metrics {folder.job_id} --series '*'"
        message = f"{tasks} has none of these series{yet}; list all with: {list_all}"
        if not live:
            raise UserError(message)
        warn(message)
    elif not interval:
        warn("no metrics: metrics_interval is 0s")
    else:
        why = " yet" if live else f": {problem}" if problem and folder.metrics.exists() else ""
        warn(f"no metrics{why}; see: tony status {folder.job_id}")

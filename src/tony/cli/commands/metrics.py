"""`tony metrics JOB`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence

import click

from tony.cli.metrics_table import csv_heading, csv_lines, role_table, task_table
from tony.cli.options import Count, TaskParameter, job_argument, job_id, json_option
from tony.cli.output import print_json, say_all, warn
from tony.cli.report import fetch_job_dir
from tony.cli.sparkline import unit_of
from tony.cli.terminal_text import columns_of, knows_unicode
from tony.errors import InfraError, UserError
from tony.history.job_record import record_of
from tony.history.metrics_reader import Peak, RolePoints, open_metrics
from tony.jobs.job_metrics import accepted, measured, newest, ordered, takes
from tony.jobs.log_names import named_tasks
from tony.model.codec import Json, to_plain
from tony.model.layout import Home, JobFolder
from tony.protocol.messages import Points

#: What is shown if nothing is said.
_USUAL = ("cpu", "rss", "gpu*.util", "gpu*.memory", "step", "user.*")
#: Of more tasks a table shows roles.
_FEW = 20
#: Tasks whose points are in memory at one time.
_BATCH = 100


@click.command("metrics")
@job_argument
@click.option("--task", "tasks", type=TaskParameter(), multiple=True, help="worker:0, or a role; may be repeated.")
@click.option(
    "--series",
    metavar="NAME,...",
    help="cpu,rss,gpu0.util,user.loss; `*` stands for any characters. By default the usual ones.",
)
@click.option("--points", type=Count(1), default=500, show_default=True, help="Of each series, at most.")
@click.option("--csv", "as_csv", is_flag=True, help="Print a line for each point.")
@json_option("Print each series with its points as JSON.")
def command(job: str, tasks: tuple[str, ...], series: str | None, points: int, as_csv: bool, as_json: bool) -> None:
    """Show the metrics of JOB's tasks: CPU, memory, GPUs, steps.

    A row for each series of each task; of more than 20 tasks, unless some are named, one of each role.
    """
    home, name = job_id(job)
    record = record_of(home, name)
    every = tuple(map(str, record.spec.task_ids))
    selected = named_tasks(name, record.spec.task_ids, tasks)
    mine = [task for task in every if selected is None or task in selected]
    named = tuple(filter(None, (series or "").split(",")))
    wanted = named or (("*",) if as_csv or as_json else _USUAL)
    live = not home.job(name).summary.exists()
    if live:
        _bring(home.job(name))
    _check(home.job(name), every, named, live=live)
    unicode = knows_unicode(sys.stdout)
    if not (as_csv or as_json) and selected is None and len(every) > _FEW:
        lines = _roles(home.job(name), wanted, unicode=unicode)
        if len(lines) > 1:
            say_all(lines)
            return
    measures = [] if as_csv else asyncio.run(measured(home.job(name), mine, wanted, points, live=live))
    if not (_print_csv(home.job(name), mine, wanted, points, live=live) if as_csv else measures):
        _say_why(home.job(name), record.spec.metrics_interval, ", ".join(tasks) if named else "", live=live)
        if as_csv:
            print(csv_heading())
    if as_json and not as_csv:
        print_json([{"unit": unit_of(each.series).value, **_plain(each)} for each in measures])
    elif measures:
        say_all(task_table(measures, columns_of(), unicode=unicode))


def _plain(points: Points) -> Mapping[str, Json]:
    """One series as JSON has it."""
    plain = to_plain(points)
    assert isinstance(plain, Mapping)
    return plain


def _print_csv(folder: JobFolder, tasks: list[str], wanted: tuple[str, ...], most: int, *, live: bool) -> bool:
    """Some tasks after others: ten thousand have more points than memory should hold."""
    since = accepted(folder)
    any_line = False
    for first in range(0, len(tasks), _BATCH):
        found = asyncio.run(measured(folder, tasks[first : first + _BATCH], wanted, most, live=live))
        if found and not any_line:
            print(csv_heading())
        for line in csv_lines(found, since):
            print(line)
        any_line = any_line or bool(found)
    return any_line


def _bring(folder: JobFolder) -> None:
    """The record of a job that runs elsewhere is brought here, as far as it can be had."""
    try:
        fetch_job_dir(Home(folder.path.parent.parent), folder.job_id)
    except InfraError as error:
        warn(f"{error}; what is here already is shown")


def _roles(folder: JobFolder, wanted: tuple[str, ...], *, unicode: bool) -> list[str]:
    with open_metrics(folder.metrics) as metrics:

        def each() -> Iterator[tuple[RolePoints, Mapping[str, Peak]]]:
            names = [name for name in ordered(metrics.series()) if takes(wanted, name)]
            for role in dict.fromkeys(task.rpartition(":")[0] for task in metrics.tasks()):
                peaks = metrics.peaks(role)
                for name in names:
                    of = {task: found[name] for task, found in peaks.items() if name in found}
                    yield metrics.of_role(role, name, most=48), of

        return role_table(each(), columns_of(), unicode=unicode)


def _check(folder: JobFolder, tasks: Sequence[str], named: Sequence[str], *, live: bool) -> None:
    """Says which of the named series nobody has, if anything was measured at all.

    Raises:
        UserError: there is none of them.
    """
    with open_metrics(folder.metrics) as metrics:
        there = set(metrics.series())

    def lacking() -> list[str]:
        return [each for each in named if not any(takes((each,), name) for name in there)]

    sure = not live
    if lacking() and live:  # something may be too new to be written down
        recent = {points.series for points in asyncio.run(newest(folder, tasks, (), 1))}
        there, sure = there | recent, bool(recent)
    if not there or not (missing := lacking()):
        return
    said = f"job {folder.job_id} has no series {', '.join(map(repr, missing))}; it has {', '.join(ordered(there))}"
    if not sure:
        said = f"{said}, as far as it is written down: its application master does not answer"
    elif len(missing) == len(named):
        raise UserError(said)
    warn(said)


def _say_why(folder: JobFolder, interval: float, whose: str, *, live: bool) -> None:
    """Why there is nothing to show.

    Args:
        whose: the tasks that were named, if series were named as well.

    Raises:
        UserError: others have what these have not, and never will.
    """
    with open_metrics(folder.metrics) as metrics:
        there, problem = metrics.series(), metrics.problem
    if whose and there:
        yet, all_of_it = " yet" if live else "", f"tony metrics {folder.job_id} --series '*'"
        said = f"none of these series was measured of {whose}{yet}; what was: {all_of_it}"
        if not live:
            raise UserError(said)
        warn(said)
    elif not interval:
        warn("nothing was measured: metrics_interval is 0s")
    else:
        why = " yet" if live else f": {problem}" if problem and folder.metrics.exists() else ""
        warn(f"nothing was measured{why}; see: tony status {folder.job_id}")

"""`tony top JOB`."""

from __future__ import annotations

import asyncio
import sys

import click

from tony import clock
from tony.cli.live_top import Top, count_points
from tony.cli.open_job import load_report
from tony.cli.options import WordParameter, job_argument, job_id, json_option
from tony.cli.terminal.output import knows_sequences, print_json, say_all
from tony.cli.terminal.terminal_text import find_columns, is_terminal, knows_unicode
from tony.cli.text.top_table import TopRow, TopSort, build_rows, format_top_table, list_top_series, sort_rows
from tony.history.job_record import record_of
from tony.jobs.job_metrics import find_job_progress, load_series, read_progress
from tony.model.codec import Json


@click.command("top")
@job_argument
@click.option("--sort", type=WordParameter([each.value for each in TopSort]), default="task", help="Sort key.")
@click.option("--once", is_flag=True, help="Print the table once, even on a terminal.")
@json_option("Print the numbers as JSON, once.")
def command(job: str, sort: str, once: bool, as_json: bool) -> None:
    """Show what JOB's tasks use and their progress; on a terminal, live until the job has ended.

    For a job that has ended, shows the last values.

    Keys: c, m, g, p, t, s sort by CPU, memory, GPUs, progress, task, state; q or Ctrl-C quits. The job continues.
    """
    home, name = job_id(job)
    record = record_of(home, name)
    report = load_report(home, name)
    order = TopSort(sort)
    if is_terminal(sys.stdout) and knows_sequences() and not (once or as_json or report.state.ended):

        async def show() -> None:
            await Top(home, record, sys.stdout, order).run()

        asyncio.run(show())
        return
    tasks = [str(task) for task in record.spec.task_ids]
    series = list_top_series(record.spec)
    live = not report.state.ended
    found = asyncio.run(load_series(home.job(name), tasks, series, count_points(tasks), live=live))
    reports = asyncio.run(read_progress(home.job(name), tasks, live=live))
    rows = build_rows(report, record.spec, found, reports)
    if as_json:
        plain = [_build_json(row) for row in sort_rows(rows, order)]
        print_json({"job": name, "state": report.state.value, "ended": report.ended, "tasks": plain})
        return
    progress = find_job_progress(reports, report)
    unicode = knows_unicode(sys.stdout)
    say_all(
        format_top_table(report, rows, clock.wall(), find_columns(), None, order, progress=progress, unicode=unicode)
    )


def _build_json(row: TopRow) -> Json:
    progress = row.progress
    return {
        "task": row.task,
        "state": row.state,
        "cpu": row.cpu,
        "rss": row.rss,
        "memory": row.limit,
        "gpu": row.gpu,
        "gpu_memory": row.gpu_memory,
        "step": progress and progress.step,
        "total": progress and progress.total,
        "left": progress and progress.left,
        "stalled": progress and progress.stalled,
    }

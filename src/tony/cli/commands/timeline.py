"""`tony timeline JOB [TASK...]`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tony.cli.open_job import find_job
from tony.cli.options import job_argument, json_option, tasks_argument
from tony.cli.terminal.output import has_colours, print_json, say, say_all
from tony.cli.terminal.terminal_text import find_size, knows_unicode
from tony.cli.text.timeline_text import MAX_TASK_ROWS, describe_missing_events, format_headline, format_timeline
from tony.jobs.log_files import select_named_tasks

if TYPE_CHECKING:
    from tony.history.timeline import Timeline
    from tony.model.ids import TaskId
    from tony.model.job_report import JobReport


@click.command("timeline")
@job_argument
@tasks_argument
@click.option("--all", "every", is_flag=True, help="One row per task, however many there are.")
@click.option("--ascii", "plain", is_flag=True, help="Draw with ASCII characters only.")
@json_option("Print spans, sessions and markers as JSON.")
def command(job: str, tasks: tuple[str, ...], every: bool, plain: bool, as_json: bool) -> None:
    """Draw what each task of JOB was doing over time.

    TASK is a task such as worker:0, or a role for all of its tasks; the default is all tasks. With more than 50,
    several share a row.
    """

    async def load() -> tuple[JobReport, Sequence[TaskId], Timeline | None]:
        view = find_job(job)
        return await view.status(), await view.task_ids(), await view.timeline()

    report, all_tasks, line = asyncio.run(load())
    name = report.job
    selected = select_named_tasks(name, all_tasks, tasks)
    if as_json:
        print_json(line)
        return
    if line is None:
        say(f"{describe_missing_events(name, report.state)}; see: tony status {name}")
        return
    coloured = has_colours(sys.stdout)
    say(format_headline(line, report.state.value, report.name))
    picture = format_timeline(
        line,
        find_size(sys.stdout).columns,
        unicode=not plain and knows_unicode(sys.stdout),
        paint=(lambda text, colour: click.style(text, fg=colour)) if coloured else (lambda text, colour: text),
        tasks=selected,
        max_task_rows=None if every else MAX_TASK_ROWS,
    )
    if coloured:
        sys.stdout.write("".join(f"{row}\n" for row in picture))  # its names are already sanitised
    else:
        say_all(picture)
    if line.doubt:
        say(f"the event log is not consistent: {line.doubt}")

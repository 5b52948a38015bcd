"""`tony timeline JOB [TASK...]`."""

from __future__ import annotations

import asyncio
import sys

import click

from tony.cli.options import TaskParameter, job_argument, job_id, json_option
from tony.cli.output import colours, print_json, say, say_all
from tony.cli.terminal_text import knows_unicode, size_of


@click.command("timeline")
@job_argument
@click.argument("tasks", metavar="[TASK]...", type=TaskParameter(), nargs=-1)
@click.option("--all", "every", is_flag=True, help="A row for every task, however many there are.")
@click.option("--ascii", "plain", is_flag=True, help="Draw with letters and signs of ASCII.")
@json_option("Print spans, sessions and marks as JSON.")
def command(job: str, tasks: tuple[str, ...], every: bool, plain: bool, as_json: bool) -> None:
    """Draw what each task of JOB was doing over time.

    TASK is a task such as worker:0, or a role for all of its tasks; without one all are shown. Where there are more
    than 50, several share a row.
    """
    from tony.cli.timeline_text import ALONE, ASCII, UNICODE, headline, timeline_text
    from tony.jobs.log_names import named_tasks
    from tony.jobs.told import load_overview

    home, name = job_id(job)
    told = asyncio.run(load_overview(home, name))
    selected = named_tasks(name, told.record.spec.task_ids, tasks)
    line = told.line
    if as_json:
        print_json(line)
        return
    if line is None:
        say(f"nothing has happened yet: job {name} is {told.report.state.value}; see: tony status {name}")
        return
    coloured = colours(sys.stdout)
    say(headline(line, told.report.state.value, told.report.name))
    picture = timeline_text(
        line,
        size_of(sys.stdout).columns,
        ASCII if plain or not knows_unicode(sys.stdout) else UNICODE,
        (lambda text, colour: click.style(text, fg=colour)) if coloured else (lambda text, colour: text),
        selected,
        None if every else ALONE,
    )
    if coloured:
        sys.stdout.write("".join(f"{row}\n" for row in picture))  # names in it were made harmless
    else:
        say_all(picture)
    if line.doubt:
        say(f"not all of the log makes sense: {line.doubt}")

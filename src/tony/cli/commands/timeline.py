"""`tony timeline JOB [TASK...]`."""

from __future__ import annotations

import asyncio
import sys

import click

from tony.cli.options import TaskParameter, job_argument, job_id, json_option
from tony.cli.terminal.output import colours, print_json, say, say_all
from tony.cli.terminal.terminal_text import knows_unicode, size_of


@click.command("timeline")
@job_argument
@click.argument("tasks", metavar="[TASK]...", type=TaskParameter(), nargs=-1)
@click.option("--all", "every", is_flag=True, help="One row per task, however many there are.")
@click.option("--ascii", "plain", is_flag=True, help="Draw with ASCII characters only.")
@json_option("Print spans, sessions and markers as JSON.")
def command(job: str, tasks: tuple[str, ...], every: bool, plain: bool, as_json: bool) -> None:
    """Draw what each task of JOB was doing over time.

    TASK is a task such as worker:0, or a role for all of its tasks; the default is all tasks. With more than 50,
    several share a row.
    """
    from tony.cli.text.timeline_text import ASCII, MAX_TASK_ROWS, UNICODE, headline, timeline_text
    from tony.jobs.job_overview import load_overview
    from tony.jobs.log_names import named_tasks

    home, name = job_id(job)
    overview = asyncio.run(load_overview(home, name))
    selected = named_tasks(name, overview.record.spec.task_ids, tasks)
    line = overview.line
    if as_json:
        print_json(line)
        return
    if line is None:
        say(f"no events yet: job {name} is {overview.report.state.value}; see: tony status {name}")
        return
    coloured = colours(sys.stdout)
    say(headline(line, overview.report.state.value, overview.report.name))
    picture = timeline_text(
        line,
        size_of(sys.stdout).columns,
        ASCII if plain or not knows_unicode(sys.stdout) else UNICODE,
        (lambda text, colour: click.style(text, fg=colour)) if coloured else (lambda text, colour: text),
        selected,
        None if every else MAX_TASK_ROWS,
    )
    if coloured:
        sys.stdout.write("".join(f"{row}\n" for row in picture))  # its names are already sanitised
    else:
        say_all(picture)
    if line.doubt:
        say(f"the event log is not consistent: {line.doubt}")

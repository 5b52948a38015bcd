"""`tony stacks JOB`."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import aclosing

import click

from tony.cli.options import TaskParameter, job_argument, job_id, json_option
from tony.cli.output import say, say_all, warn
from tony.cli.portal_option import asked, portal_option
from tony.errors import ExitCode
from tony.model.layout import Home
from tony.protocol.messages import Stacks


@click.command("stacks")
@job_argument
@click.option("--task", "tasks", type=TaskParameter(), multiple=True, help="worker:0, or a role; may be repeated.")
@portal_option
@json_option("Print an object for each task.")
def command(job: str, tasks: tuple[str, ...], portal: str | None, as_json: bool) -> int:
    """Show stack traces of every thread of JOB's running tasks; the tasks continue.

    Of all tasks whose programs run, or of those that are named. Said is also what has looked: py-spy, Python's
    faulthandler, or the kernel alone, which is all there is of what is no Python. Kept among the job's logs. The exit
    code is 3 if nothing can be told of any task.
    """
    printer = _Printer(as_json)
    if portal is None:
        home, name = job_id(job)
        asyncio.run(_show(home, name, tasks, printer))
    else:
        _show_at_portal(portal, job, tasks, printer)
    return ExitCode.SUCCEEDED if printer.any else ExitCode.INFRASTRUCTURE


async def _show(home: Home, name: str, tasks: tuple[str, ...], printer: _Printer) -> None:
    from tony.jobs.changing import stacks

    async with aclosing(stacks(home, name, tasks)) as answers:
        async for told in answers:
            printer.print(told)


def _show_at_portal(url: str, job: str, tasks: tuple[str, ...], printer: _Printer) -> None:
    from tony.jobs.portal_stacks import stacks

    with asked(url) as there:
        for told in stacks(there, there.resolve(job), tasks):
            printer.print(told)


class _Printer:
    """Prints what is told of one task after the other.

    Attributes:
        any: whether something could be told of any.
    """

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self.any = False

    def print(self, told: Stacks) -> None:
        """Prints it, and says who has looked, or why nothing can be told."""
        first = not self.any
        self.any = self.any or bool(told.text)
        if self._as_json:
            names = ("task", "text", "how", "problem", "name")
            print(json.dumps({name: getattr(told, name) for name in names}), flush=True)
        elif told.text:
            kept = f"; kept among the logs as {told.name}" if told.name else ""
            if not first:
                say()
            say(f"{told.task}: seen by {'the ' if told.how == 'kernel' else ''}{told.how}{kept}", bold=True)
            if told.problem:
                say(told.problem)
            say_all(told.text.splitlines())
            sys.stdout.flush()
        else:
            warn(f"{told.task}: {told.problem}")

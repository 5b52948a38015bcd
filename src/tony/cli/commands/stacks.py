"""`tony stacks JOB [TASK...]`."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import aclosing
from typing import TYPE_CHECKING

import click

from tony.cli.open_job import open_job, portal_option
from tony.cli.options import job_argument, json_option, task_option, tasks_argument
from tony.cli.terminal.output import say, say_all, warn
from tony.errors import ExitCode
from tony.protocol.shared_messages import Stacks

if TYPE_CHECKING:
    from tony.jobs.job_view import JobView


@click.command("stacks")
@job_argument
@tasks_argument
@task_option
@portal_option
@json_option("Print one JSON object per task.")
def command(job: str, tasks: tuple[str, ...], more_tasks: tuple[str, ...], portal: str | None, as_json: bool) -> int:
    """Show stack traces of every thread of JOB's running tasks; the tasks continue.

    Of a job that has ended, show the last stack traces that were saved among its logs.

    TASK is a task such as worker:0, or a role for all of its tasks; the default is all running tasks. Traces come from
    py-spy, Python's faulthandler, or the kernel (for programs that are not Python); the output says which. They are
    also kept among the job's logs. The exit code is 3 if no task gave a trace.
    """
    printer = _StackPrinter(as_json)
    with open_job(job, portal) as view:
        asyncio.run(_show(view, (*tasks, *more_tasks), printer))
    return ExitCode.SUCCEEDED if printer.any_trace else ExitCode.INFRASTRUCTURE


async def _show(view: JobView, tasks: tuple[str, ...], printer: _StackPrinter) -> None:
    async with aclosing(view.stacks(*tasks)) as answers:
        async for answer in answers:
            printer.print(answer)


class _StackPrinter:
    """Prints the stack traces of one task after the other.

    Attributes:
        any_trace: True if at least one task gave a trace.
    """

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self.any_trace = False

    def print(self, answer: Stacks) -> None:
        """Print the traces of a task and their source, or why there are none."""
        first = not self.any_trace
        self.any_trace = self.any_trace or bool(answer.text)
        if self._as_json:
            names = ("task", "text", "how", "problem", "name")
            print(json.dumps({name: getattr(answer, name) for name in names}), flush=True)
        elif answer.text:
            kept = f"; saved as {answer.name} among the logs" if answer.name else ""
            if not first:
                say()
            say(f"{answer.task}: from {'the ' if answer.how == 'kernel' else ''}{answer.how}{kept}", bold=True)
            if answer.problem:
                say(answer.problem)
            say_all(answer.text.splitlines())
            sys.stdout.flush()
        else:
            warn(f"{answer.task}: {answer.problem}")

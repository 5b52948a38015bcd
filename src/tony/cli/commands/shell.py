"""`tony shell JOB [TASK]`."""

from __future__ import annotations

import asyncio
import sys

import click

from tony.cli.options import TaskParameter, job_argument, job_id
from tony.cli.terminal.terminal_text import is_terminal


@click.command("shell")
@job_argument
@click.argument("task", type=TaskParameter(), required=False)
def command(job: str, task: str | None) -> int:
    """Open a shell in the container of a running task of JOB, in the task's working directory and environment.

    TASK is a task such as worker:0, or a role that has one task; the default is the chief, or the only task. The shell
    is bash, or sh where there is no bash. It ends with this command and with the task, and its memory counts as the
    task's. The exit code is the shell's.
    """
    home, name = job_id(job)
    if sys.stdin is None or not sys.stdin.isatty() or not is_terminal(sys.stdout):
        raise click.UsageError(
            f"standard input and output must be a terminal; without one: tony exec {name} {task or 'TASK'} -- bash"
        )
    # late: help and completion do not wait for what talks to a job
    from tony.cli.remote_program import run_remote_program

    return asyncio.run(run_remote_program(home, name, task, (), has_terminal=True))

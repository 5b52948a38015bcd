"""`tony exec JOB TASK -- COMMAND...`."""

from __future__ import annotations

import asyncio
import os

import click

from tony.cli.options import TaskParameter, job_argument, job_id


@click.command("exec", context_settings={"allow_interspersed_args": False})
@job_argument
@click.argument("task", type=TaskParameter())
@click.argument("words", metavar="-- COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
def command(job: str, task: str, words: tuple[str, ...]) -> int:
    """Run COMMAND in the container of a running task of JOB, in the task's working directory and environment.

    \b
    tony exec last worker:0 -- nvidia-smi
    tony exec last worker:0 -- bash -c 'du -sh /tmp/*'
    tony exec last worker:0 -- tar x < data.tar

    TASK is a task such as worker:0, or a role that has one task. COMMAND is executed unchanged, without a shell. Its
    standard input, output and error are those of this command; so is its exit code, 128 + N if signal N ended it.
    Ctrl-C interrupts COMMAND, a second one ends it. It ends with this command and with the task, and its memory counts
    as the task's. Errors of tony itself have the exit codes of other commands.
    """
    argv = tuple(os.fsencode(word) for word in (words[1:] if words[0] == "--" else words))
    if not argv:
        raise click.UsageError("there is no command after `--`")
    home, name = job_id(job)
    # late: help and completion do not wait for what talks to a job
    from tony.cli.remote_program import run_remote_program

    return asyncio.run(run_remote_program(home, name, task, argv, has_terminal=False))

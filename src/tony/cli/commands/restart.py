"""`tony restart JOB`."""

from __future__ import annotations

import asyncio

import click

from tony.cli.open_job import open_job, portal_option
from tony.cli.options import job_argument, json_option
from tony.cli.terminal.output import print_json, say


@click.command("restart")
@job_argument
@portal_option
@json_option("Print what was done as JSON.")
def command(job: str, portal: str | None, as_json: bool) -> None:
    """Restart all tasks of JOB in a new session; programs resume from their checkpoints, if they save any.

    They get SIGTERM, and SIGKILL after `restart_grace`. Does not count against max_restarts. Returns as soon as the
    restart has begun.
    """
    with open_job(job, portal) as view:
        report = asyncio.run(view.restart())
    if as_json:
        print_json({"job": report.job, "session": report.session, "state": report.state.value})
        return
    say(
        f"Restarting job {report.job} ({report.name}): session {report.session + 1} (does not count against "
        f"max_restarts); check with: tony status {report.job}{f' --portal {portal}' if portal else ''}"
    )

"""`tony log-level JOB LEVEL`."""

from __future__ import annotations

import asyncio

import click

from tony.cli.open_job import open_job, portal_option
from tony.cli.options import WordParameter, job_argument, json_option
from tony.cli.terminal.output import print_json, say
from tony.protocol.messages import LOG_LEVELS


@click.command("log-level")
@job_argument
@click.argument("level", type=WordParameter(LOG_LEVELS))
@portal_option
@json_option("Print what was done as JSON.")
def command(job: str, level: str, portal: str | None, as_json: bool) -> None:
    """Change the log level of JOB's application master and executors; user programs are not affected.

    Their logs are am.log and logs/*.executor.log in the job directory, and on YARN the container logs.
    """
    with open_job(job, portal) as view:
        report = asyncio.run(view.set_log_level(level))
    if as_json:
        print_json({"job": report.job, "level": level, "state": report.state.value})
    else:
        say(f"Log level of job {report.job} ({report.name}) is now {level} (application master and executors)")

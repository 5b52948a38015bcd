"""`tony log-level JOB LEVEL`."""

from __future__ import annotations

import asyncio

import click

from tony.cli.options import job_argument, job_id, json_option
from tony.cli.portal_option import open_portal, portal_option
from tony.cli.terminal.output import print_json, say
from tony.model.job_report import JobReport
from tony.protocol.messages import LOG_LEVELS


@click.command("log-level")
@job_argument
@click.argument("level", type=click.Choice(LOG_LEVELS))
@portal_option
@json_option("Print what was done as JSON.")
def command(job: str, level: str, portal: str | None, as_json: bool) -> None:
    """Change the log level of JOB's application master and executors; user programs are not affected.

    Their logs are am.log and logs/*.executor.log in the job directory, and on YARN the container logs.
    """
    report = _here(job, level) if portal is None else _at_portal(portal, job, level)
    if as_json:
        print_json({"job": report.job, "level": level, "state": report.state.value})
    else:
        say(f"Log level of job {report.job} ({report.name}) is now {level} (application master and executors)")


def _here(job: str, level: str) -> JobReport:
    from tony.jobs.changing import set_log_level

    return asyncio.run(set_log_level(*job_id(job), level))


def _at_portal(url: str, job: str, level: str) -> JobReport:
    from tony.jobs.changing import NOTHING_LOGS, require_running

    with open_portal(url) as there:
        report = there.report(there.resolve(job), tasks=False)
        require_running(report, NOTHING_LOGS)
        there.change(report.job, "log-level", {"level": level})
    return report

"""`tony restart JOB`."""

from __future__ import annotations

import asyncio

import click

from tony.cli.options import job_argument, job_id, json_option
from tony.cli.portal_option import open_portal, portal_option
from tony.cli.terminal.output import print_json, say
from tony.model.job_report import JobReport


@click.command("restart")
@job_argument
@portal_option
@json_option("Print what was done as JSON.")
def command(job: str, portal: str | None, as_json: bool) -> None:
    """Restart all tasks of JOB in a new session; programs resume from their checkpoints, if they save any.

    They get SIGTERM, and SIGKILL after `restart_grace`. Does not count against max_restarts. Returns as soon as the
    restart has begun.
    """
    report = _here(job) if portal is None else _at_portal(portal, job)
    if as_json:
        print_json({"job": report.job, "session": report.session, "state": report.state.value})
        return
    say(
        f"Restarting job {report.job} ({report.name}): session {report.session + 1} (does not count against "
        f"max_restarts); check with: tony status {report.job}{f' --portal {portal}' if portal else ''}"
    )


def _here(job: str) -> JobReport:
    from tony.jobs.changing import restart

    return asyncio.run(restart(*job_id(job)))


def _at_portal(url: str, job: str) -> JobReport:
    from tony.jobs.changing import NOT_RESTARTED, require_running

    with open_portal(url) as there:
        report = there.report(there.resolve(job), tasks=False)
        require_running(report, NOT_RESTARTED)
        there.change(report.job, "restart")
    return report

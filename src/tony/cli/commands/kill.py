"""`tony kill JOB`."""

from __future__ import annotations

import asyncio

import click

from tony.cli.options import home as own_home
from tony.cli.options import job_argument, job_id, json_option
from tony.cli.output import print_json, say
from tony.errors import UnrecordedJobError
from tony.jobs.failure_text import outcome
from tony.model.states import JobState


@click.command("kill")
@job_argument
@click.option("--now", is_flag=True, help="At once, without the grace that programs have to save something.")
@json_option("Print what was done as JSON.")
def command(job: str, now: bool, as_json: bool) -> None:
    """Kill JOB: its programs get SIGTERM, and SIGKILL after `stop_grace`. Also: tony stop, tony cancel.

    Returns as soon as the job is stopping. A job that has already ended is left unchanged.
    """
    from tony.jobs.killing import kill

    try:
        home, name = job_id(job)
    except UnrecordedJobError:
        if not _ended_by_scheduler(job):
            raise
        if as_json:
            print_json({"job": job, "asked": True, "state": JobState.SUBMITTED.value})
        else:
            say(f"job {job} had not begun; it is being ended")
        return
    report = asyncio.run(kill(home, name, now=now))
    if as_json:
        print_json({"job": name, "asked": not report.state.ended, "state": report.state.value})
    elif report.state.ended:
        say(f"nothing to end: {outcome(report)}")
    else:
        say(f"job {name} ({report.name}) is being ended{' at once' if now else ''}; see: tony status {name}")


def _ended_by_scheduler(job: str) -> bool:
    """A job of another machine that has not begun: only its scheduler knows it."""
    from tony.jobs.remote_jobs import end_unrecorded

    return asyncio.run(end_unrecorded(own_home(), job))

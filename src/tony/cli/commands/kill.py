"""`tony kill JOB`."""

from __future__ import annotations

import asyncio

import click

from tony.cli.options import home as own_home
from tony.cli.options import job_argument, job_id, json_option
from tony.cli.terminal.output import print_json, say
from tony.errors import UnrecordedJobError
from tony.jobs.actions import kill
from tony.jobs.failure_text import format_outcome
from tony.jobs.remote.remote_job_sync import kill_foreign
from tony.model.states import JobState


@click.command("kill")
@job_argument
@click.option("--now", is_flag=True, help="Kill at once, without the grace period (stop_grace).")
@json_option("Print what was done as JSON.")
def command(job: str, now: bool, as_json: bool) -> None:
    """Kill JOB: its programs get SIGTERM, and SIGKILL after `stop_grace`.

    Returns as soon as the job is stopping. A job that has already ended is left unchanged.
    """
    try:
        home, name = job_id(job)
    except UnrecordedJobError:
        # Submitted on another machine and not started yet: only its scheduler knows it.
        if not asyncio.run(kill_foreign(own_home(), job)):
            raise
        if as_json:
            print_json({"job": job, "asked": True, "state": JobState.SUBMITTED.value})
        else:
            say(f"Stopping job {job}, which had not started")
        return
    report = asyncio.run(kill(home, name, now=now))
    if as_json:
        print_json({"job": name, "asked": not report.state.ended, "state": report.state.value})
    elif report.state.ended:
        say(f"{format_outcome(report)}; it has already ended")
    else:
        say(f"{'Killing' if now else 'Stopping'} job {name} ({report.name}); check with: tony status {name}")

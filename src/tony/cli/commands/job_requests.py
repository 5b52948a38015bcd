"""`tony kill JOB`, `tony restart JOB`, `tony log-level JOB LEVEL`."""

from __future__ import annotations

import asyncio

import click

from tony.cli.open_job import open_job, portal_option
from tony.cli.options import WordParameter, home, job_argument, job_id, json_option
from tony.cli.terminal.output import print_json, say
from tony.errors import UnrecordedJobError
from tony.jobs.failure_text import format_outcome
from tony.model.states import JobState
from tony.protocol.shared_messages import LOG_LEVELS


@click.command("kill")
@job_argument
@click.option("--now", is_flag=True, help="Kill at once, without the grace period (stop_grace).")
@json_option("Print what was done as JSON.")
def kill(job: str, now: bool, as_json: bool) -> None:
    """Kill JOB: its programs get SIGTERM, and SIGKILL after `stop_grace`.

    Returns as soon as the job is stopping. A job that has already ended is left unchanged.
    """
    # late: help and completion of these commands do not wait for what talks to a job
    from tony.jobs import actions
    from tony.jobs.status.remote_job_sync import kill_foreign

    try:
        place, name = job_id(job)
    except UnrecordedJobError:
        # Submitted on another machine and not started yet: only its scheduler knows it.
        if not asyncio.run(kill_foreign(home(), job)):
            raise
        if as_json:
            print_json({"job": job, "asked": True, "state": JobState.SUBMITTED.value})
        else:
            say(f"Stopping job {job}, which had not started")
        return
    report = asyncio.run(actions.kill(place, name, now=now))
    if as_json:
        print_json({"job": name, "asked": not report.state.ended, "state": report.state.value})
    elif report.state.ended:
        say(f"{format_outcome(report)}; it has already ended")
    else:
        say(f"{'Killing' if now else 'Stopping'} job {name} ({report.name}); check with: tony status {name}")


@click.command("restart")
@job_argument
@portal_option
@json_option("Print what was done as JSON.")
def restart(job: str, portal: str | None, as_json: bool) -> None:
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


@click.command("log-level")
@job_argument
@click.argument("level", type=WordParameter(LOG_LEVELS))
@portal_option
@json_option("Print what was done as JSON.")
def log_level(job: str, level: str, portal: str | None, as_json: bool) -> None:
    """Change the log level of JOB's application master and executors; user programs are not affected.

    Their logs are am.log and logs/*.executor.log in the job directory, and on YARN the container logs.
    """
    with open_job(job, portal) as view:
        report = asyncio.run(view.set_log_level(level))
    if as_json:
        print_json({"job": report.job, "level": level, "state": report.state.value})
    else:
        say(f"Log level of job {report.job} ({report.name}) is now {level} (application master and executors)")

"""`tony status JOB`."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import click

from tony.cli.open_job import fetch_job_dir, load_report, open_portal, portal_option
from tony.cli.options import job_argument, job_id, json_option
from tony.cli.terminal.output import print_json, say_all
from tony.cli.terminal.terminal_text import find_columns
from tony.cli.text.status_text import (
    find_further_sessions,
    find_lone_restarts,
    format_status,
    lacks_reasons,
    lacks_restarts,
)
from tony.errors import ConnectionFailedError, InfraError, SchedulerError, TonyError
from tony.jobs.root_cause import ROOT_CAUSE_FIELDS, build_root_cause
from tony.model.codec import Json, to_plain
from tony.model.job_report import JobReport
from tony.model.state_directory import Home

if TYPE_CHECKING:
    from tony.history.event_queries import EventSource
    from tony.jobs.portal_client.client import PortalClient
    from tony.model.progress import JobProgress


@click.command("status")
@job_argument
@portal_option
@json_option("Print the report as JSON.")
def command(job: str, portal: str | None, as_json: bool) -> None:
    """Show the status of JOB and its tasks.

    The exit code is 0 whatever the state of the job.
    """
    if portal is not None:
        with open_portal(portal) as portal_client:
            report = portal_client.fetch_report(portal_client.resolve(job))
            progress = _fetch_progress(portal_client, report)
            events = () if as_json else _fetch_restart_events(portal_client, report)
        if as_json:
            _print_as_json(report, progress)
        else:
            _show(report, events, progress=progress, portal=portal)
        return
    home, name = job_id(job)
    try:
        report = load_report(home, name)
    except (ConnectionFailedError, SchedulerError) as error:
        raise _show_last_known(home, name, error, shown=not as_json) from error
    progress = _read_progress(home, report)
    if as_json:
        _print_as_json(report, progress)
    else:
        if report.session > 1 and (not report.state.ended or lacks_reasons(home.job(name), report)):
            _fetch_session_reasons(home, name, report)
        alone = find_lone_restarts(home.job(name), report)
        if not report.state.ended and lacks_restarts(report, alone):
            with contextlib.suppress(InfraError):
                alone = find_lone_restarts(fetch_job_dir(home, name), report)
        _show(report, home.job(name), alone, progress)


def _print_as_json(report: JobReport, progress: JobProgress | None) -> None:
    fields = cast(dict[str, Json], to_plain(report))
    cause = cast(dict[str, Json], to_plain(build_root_cause(report)) or {})
    fields |= {name: cause.get(name) for name in ROOT_CAUSE_FIELDS}
    print_json({**fields, "progress": to_plain(progress)})


def _read_progress(home: Home, report: JobReport) -> JobProgress | None:
    """Return the progress of a running job; None if it is unknown."""
    if report.state.ended or not report.session:
        return None
    import asyncio  # late: not needed for jobs that have ended

    from tony.jobs.job_metrics import find_job_progress, read_progress

    tasks = [task.task for task in report.tasks]
    with contextlib.suppress(InfraError):
        return find_job_progress(asyncio.run(read_progress(home.job(report.job), tasks, live=True)), report)
    return None


def _fetch_progress(portal_client: PortalClient, report: JobReport) -> JobProgress | None:
    """Return the progress of a running job from a portal; None if it is unknown."""
    if not report.state.ended and report.session:
        with contextlib.suppress(TonyError):  # there may be no metrics
            return portal_client.fetch_progress(report.job)
    return None


def _fetch_restart_events(portal_client: PortalClient, report: JobReport) -> EventSource:
    """Fetch the events about restarts from a portal; without a request for a job that had none."""
    from tony.history.event_queries import TELLING  # late: it loads the event log

    if report.session > 1 or report.restarts is not None:
        with contextlib.suppress(InfraError):
            return [*portal_client.iterate_events(report.job, TELLING)]
    return ()


def _show(
    report: JobReport,
    events: EventSource,
    alone: Sequence[tuple[int, str]] | None = None,
    progress: JobProgress | None = None,
    portal: str | None = None,
) -> None:
    if alone is None:
        alone = find_lone_restarts(events, report)
    sentence = ""
    if progress is not None:
        from tony.cli.text.metric_values import format_progress  # late: only running jobs have progress

        sentence = format_progress(progress)
    say_all(format_status(report, find_columns(), find_further_sessions(events, report), alone, sentence, portal))


def _show_last_known(home: Home, name: str, error: InfraError, *, shown: bool) -> InfraError:
    """Show the last known status of a job whose AM or scheduler cannot be asked; return the error with what to do."""
    import asyncio  # late: only if one of them does not answer

    from tony.jobs.status.job_status import add_stop_hint, load_last_known_report

    if shown:
        _show(asyncio.run(load_last_known_report(home, name, error)), home.job(name))
    return add_stop_hint(home, name, error) if isinstance(error, ConnectionFailedError) else error


def _fetch_session_reasons(home: Home, name: str, report: JobReport) -> None:
    """Fetch the event log of a remote job, which has the reasons of its sessions; best effort if the job has ended."""
    import asyncio  # late: only after a restart

    from tony.jobs.status.remote_job_sync import load_session_reasons

    ended = report.state.ended
    with contextlib.suppress(*((TonyError, LookupError) if ended else ())):  # its scheduler may be unknown here
        asyncio.run(load_session_reasons(home, name, report.session, ended=ended))

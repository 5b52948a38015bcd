"""`tony status JOB`."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import click

from tony.cli.options import job_argument, job_id, json_option
from tony.cli.output import print_json, say_all
from tony.cli.portal_option import asked, portal_option
from tony.cli.report import fetch_job_dir, load_report
from tony.cli.status_text import further_sessions, lacks_reasons, lacks_restarts, lone_restarts, status_page
from tony.cli.terminal_text import columns_of
from tony.errors import ConnectionFailed, InfraError, TonyError
from tony.model.codec import Json, to_plain
from tony.model.job_report import JobReport
from tony.model.layout import Home

if TYPE_CHECKING:
    from tony.core.events import Event
    from tony.history.session_facts import Told
    from tony.jobs.portal_client import PortalClient
    from tony.model.progress import JobProgress


@click.command("status")
@job_argument
@portal_option
@json_option("Print the report as JSON.")
def command(job: str, portal: str | None, as_json: bool) -> None:
    """Show the status of JOB and its tasks.

    JOB is an id, a part of one that no other job has, or `last`. The exit code is 0 whatever the job's state is.
    """
    if portal is not None:
        with asked(portal) as there:
            report = there.report(there.resolve(job))
            progress = _ask_progress(there, report)
            told = () if as_json else _told_of_restarts(there, report)
        if as_json:
            _print_as_json(report, progress)
        else:
            _show(report, told, progress=progress)
        return
    home, name = job_id(job)
    try:
        report = load_report(home, name)
    except ConnectionFailed as error:
        raise _without_master(home, name, error, shown=not as_json) from error
    progress = _read_progress(home, report)
    if as_json:
        _print_as_json(report, progress)
    else:
        if report.session > 1 and (not report.state.ended or lacks_reasons(home.job(name), report)):
            _bring_reasons(home, name, report)
        alone = lone_restarts(home.job(name), report)
        if not report.state.ended and lacks_restarts(report, alone):
            with contextlib.suppress(InfraError):
                alone = lone_restarts(fetch_job_dir(home, name), report)
        _show(report, home.job(name), alone, progress)


def _print_as_json(report: JobReport, progress: JobProgress | None) -> None:
    fields = cast(dict[str, Json], to_plain(report))
    print_json({**fields, "progress": to_plain(progress)})


def _read_progress(home: Home, report: JobReport) -> JobProgress | None:
    """Return how far a job is that runs; None if that is not known."""
    if report.state.ended or not report.session:
        return None
    import asyncio

    from tony.jobs.job_metrics import read_progress
    from tony.jobs.progress import find_job_progress

    tasks = [task.task for task in report.tasks]
    with contextlib.suppress(InfraError):
        return find_job_progress(asyncio.run(read_progress(home.job(report.job), tasks, live=True)), report)
    return None


def _ask_progress(there: PortalClient, report: JobReport) -> JobProgress | None:
    """Return what a portal knows of how far a job is that runs; None if that is not known."""
    if not report.state.ended and report.session:
        with contextlib.suppress(TonyError):  # nothing need have been measured
            return there.job_progress(report.job)
    return None


def _told_of_restarts(there: PortalClient, report: JobReport) -> Sequence[Event]:
    """What a portal can tell of them; of a job without any it is not asked."""
    from tony.history.session_facts import TELLING

    if report.session > 1 or report.restarts is not None:
        with contextlib.suppress(InfraError):
            return [*there.events(report.job, TELLING)]
    return ()


def _show(
    report: JobReport,
    told: Told,
    alone: Sequence[tuple[int, str]] | None = None,
    progress: JobProgress | None = None,
) -> None:
    if alone is None:
        alone = lone_restarts(told, report)
    sentence = ""
    if progress is not None:
        from tony.cli.sparkline import format_progress

        sentence = format_progress(progress)
    say_all(status_page(report, columns_of(), further_sessions(told, report), alone, sentence))


def _without_master(home: Home, name: str, error: ConnectionFailed, *, shown: bool) -> ConnectionFailed:
    """Shows how a job stood whose application master does not answer; answers the error that says what to do."""
    import asyncio

    from tony.jobs.cached_status import add_stop_hint, last_known

    if shown:
        _show(asyncio.run(last_known(home, name)), home.job(name))
    return add_stop_hint(home, name, error)


def _bring_reasons(home: Home, name: str, report: JobReport) -> None:
    """Why its sessions began is in the log of a job that runs elsewhere; of one that has ended, if it can be had."""
    import asyncio

    from tony.jobs.remote_jobs import sessions

    ended = report.state.ended
    with contextlib.suppress(*((TonyError, LookupError) if ended else ())):  # its scheduler need not be known here
        asyncio.run(sessions(home, name, report.session, ended=ended))

"""`tony logs JOB [TASK...]`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from tony.cli.open_job import open_job, portal_option
from tony.cli.options import Count, job_argument, job_id, json_option, tasks_argument
from tony.cli.terminal.output import warn
from tony.cli.terminal.terminal_text import is_terminal
from tony.cli.text.log_printer import LogPrinter
from tony.errors import UserError
from tony.history.job_record import read_summary, record_of
from tony.jobs.failure_text import format_outcome, format_report
from tony.jobs.log_files import LogLine, Selection, find_log_files, group_lines, open_readers, select_named_tasks
from tony.model.job_report import JobReport
from tony.model.log_name import ERR, OUT, STREAMS
from tony.model.state_directory import JobFolder
from tony.model.submission_record import JobRecord
from tony.schedulers.registry import has_remote_logs
from tony.units import format_exact_size, format_first

if TYPE_CHECKING:
    from tony.jobs.directory.view import DirectoryJobView
    from tony.jobs.job_view import JobView


@click.command("logs")
@job_argument
@tasks_argument
@click.option("-f", "--follow", "following", is_flag=True, help="Print new output until the job has ended.")
@click.option("--stdout", "streams", flag_value="out", help="Only standard output.")
@click.option("--stderr", "streams", flag_value="err", help="Only standard error.")
@click.option("--both", "streams", flag_value="both", default="both", help="Both (the default).")
@click.option("-n", "--tail", type=Count(0), help="Start with the last N lines of each stream.")
@click.option("--session", type=Count(1), help="Only this session.")
@portal_option
@json_option("Print each line as a JSON object.")
def command(
    job: str,
    tasks: tuple[str, ...],
    following: bool,
    streams: str,
    tail: int | None,
    session: int | None,
    portal: str | None,
    as_json: bool,
) -> None:
    """Show the output of JOB's tasks.

    TASK is a task such as worker:0, or a role for all of its tasks; the default is all tasks. With several tasks, each
    line begins with its task.
    """
    chosen = {"out": (OUT,), "err": (ERR,)}.get(streams, STREAMS)
    selection = Selection(streams=chosen, session=session)
    if portal is None and not following:
        home, name = job_id(job)
        report, record = read_summary(home.job(name)), record_of(home, name)
        if report is not None and not has_remote_logs(record.spec.scheduler):
            _print_ended(home.job(name), report, record, tasks, selection, tail, as_json=as_json)
            return
    import asyncio  # late: half the time of the command for a job that has ended

    with open_job(job, portal) as view:
        asyncio.run(_print(view, tasks, selection, tail, following=following, as_json=as_json))


def _print_ended(
    folder: JobFolder,
    report: JobReport,
    record: JobRecord,
    words: Sequence[str],
    selection: Selection,
    tail: int | None,
    *,
    as_json: bool,
) -> None:
    """Print the output of a job that has ended here, without loading what talks to running jobs."""
    every = record.spec.task_ids
    selection = replace(selection, tasks=select_named_tasks(folder.job_id, every, words))
    _check_session(folder, report, selection, following=False)
    printer = LogPrinter(sys.stdout, prefix=len(selection.tasks or every) != 1, as_json=as_json)
    is_empty = True
    for reader in open_readers(folder.logs, find_log_files(folder.logs, selection), tail):
        for lines in group_lines(reader.drain()):
            is_empty = False
            printer.print(lines)
    _warn_rotated(folder, record, selection, tail)
    if is_empty:
        warn(f"no output; see: tony status {folder.job_id}")


async def _print(
    view: JobView, words: Sequence[str], selection: Selection, tail: int | None, *, following: bool, as_json: bool
) -> None:
    from tony.jobs.directory.view import DirectoryJobView  # late: it loads asyncio

    every = await view.task_ids()
    selection = replace(selection, tasks=select_named_tasks(view.id, every, words))
    printer = LogPrinter(sys.stdout, prefix=len(selection.tasks or every) != 1, as_json=as_json)
    if isinstance(view, DirectoryJobView):
        if selection.session is not None:
            _check_session(view.folder, await view.status(), selection, following=following)
        if following:
            live = is_terminal(sys.stdout) and not as_json
            _warn_rotated(view.folder, record_of(view.home, view.id), selection, tail)
            await _follow(view, _OutputViewer(printer), selection, tail, live=live)
            return
    is_empty = True
    async for lines in view.output(selection, follow=following, tail=tail):
        is_empty = False
        printer.print(lines)
    if isinstance(view, DirectoryJobView):  # not before: only now the files of other machines are here
        _warn_rotated(view.folder, record_of(view.home, view.id), selection, tail)
    if is_empty:
        yet = " yet" if isinstance(view, DirectoryJobView) and view.live else ""
        warn(f"no output{yet}; see: tony status {view.id}")


async def _follow(
    view: DirectoryJobView, viewer: _OutputViewer, selection: Selection, tail: int | None, *, live: bool
) -> None:
    from tony.jobs.job_follower import follow  # late: only with --follow

    report = await follow(view.home, view.id, viewer, selection, tail, live=live)
    warn((format_report(report) or [format_outcome(report)])[0])


def _check_session(folder: JobFolder, report: JobReport, selection: Selection, *, following: bool) -> None:
    """Refuse a session that the job does not have; a future one may be followed.

    Raises:
        UserError: the job has no such session.
    """
    session = selection.session
    if session is None or find_log_files(folder.logs, Selection(session=session)):
        return
    if session > report.session and (report.state.ended or not following):
        known_sessions = {0: "no session yet", 1: "session 1 only"}.get(
            report.session, f"sessions 1 to {report.session}"
        )
        raise UserError(f"job {report.job} has no session {session}; it has {known_sessions}")


def _warn_rotated(folder: JobFolder, record: JobRecord, selection: Selection, tail: int | None) -> None:
    """Warn about tasks whose output exceeded `log_limit`, so that the beginning may be missing."""
    if tail is not None:
        return
    logs, limit = folder.logs, record.spec.log_limit
    full = list(
        dict.fromkeys(name.task for name in find_log_files(logs, selection) if name.build_rotated_path(logs).exists())
    )
    if full:
        warn(
            f"the output of {format_first(full, 3)} exceeded log_limit = {format_exact_size(limit)}; its beginning may "
            "have been removed"
        )


class _OutputViewer:
    """Prints the output of a followed job, and nothing else."""

    def __init__(self, printer: LogPrinter) -> None:
        self._printer = printer

    def on_report(self, report: JobReport) -> None:
        """Ignore status changes."""

    def on_session_opened(self, session: int, reason: str) -> None:
        """Ignore new sessions."""

    def on_output(self, lines: Sequence[LogLine]) -> None:
        self._printer.print(lines)

    def on_notice(self, text: str) -> None:
        warn(text)

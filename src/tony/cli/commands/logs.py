"""`tony logs JOB [TASK...]`."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from tony.cli.open_job import open_job, portal_option
from tony.cli.options import Count, TimeParameter, job_argument, job_id, json_option, tasks_argument
from tony.cli.terminal.output import warn
from tony.cli.terminal.terminal_text import is_terminal
from tony.cli.text.log_printer import LogPrinter
from tony.errors import UserError
from tony.history.job_record import read_summary, record_of
from tony.jobs.failure_text import format_outcome, format_report
from tony.jobs.log_files import Selection, find_log_files, select_named_tasks
from tony.jobs.log_lines import LogLine, group_lines, merge_lines
from tony.jobs.log_reader import limit_chunks, open_readers
from tony.jobs.remote.log_mirror import find_missing_bytes
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
@click.option("--timestamps", is_flag=True, help="Put the time in front of each line.")
@click.option(
    "--since", type=TimeParameter(), help="Only lines printed since then: 10m (ago), 18:00 (today), 2026-01-31T18:00."
)
@click.option(
    "--grep",
    "pattern",
    metavar="REGEX",
    callback=lambda context, parameter, value: None if value is None else _compile_pattern(value),
    help="Only lines that match this regular expression.",
)
@click.option("--session", type=Count(1), help="Only this session; the default is each task's newest one.")
@click.option("--all-sessions", is_flag=True, help="All sessions.")
@portal_option
@json_option("Print each line as a JSON object.")
def command(
    job: str,
    tasks: tuple[str, ...],
    following: bool,
    streams: str,
    tail: int | None,
    timestamps: bool,
    since: float | None,
    pattern: re.Pattern[str] | None,
    session: int | None,
    all_sessions: bool,
    portal: str | None,
    as_json: bool,
) -> None:
    """Show the output of JOB's tasks, in the order in which it was printed.

    TASK is a task such as worker:0, or a role for all of its tasks; the default is all tasks. With several tasks, each
    line begins with its task.
    """
    if session is not None and all_sessions:
        raise click.UsageError("--session and --all-sessions exclude each other")
    selection = Selection(
        streams={"out": (OUT,), "err": (ERR,)}.get(streams, STREAMS),
        session=session,
        is_newest_only=session is None and not all_sessions,
        has_times=True,
        since=since,
    )
    options = _PrintOptions(tail=tail, timestamps=timestamps, pattern=pattern, as_json=as_json)
    if portal is None and not following:
        home, name = job_id(job)
        report, record = read_summary(home.job(name)), record_of(home, name)
        if report is not None and not has_remote_logs(record.spec.scheduler):
            _print_ended(home.job(name), report, record, tasks, selection, options)
            return
    import asyncio  # late: half the time of the command for a job that has ended

    with open_job(job, portal) as view:
        asyncio.run(_print(view, tasks, selection, options, following=following))


def _compile_pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise click.BadParameter(f"{text!r} is not a regular expression: {error}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class _PrintOptions:
    """How much is printed, and how."""

    tail: int | None
    timestamps: bool
    pattern: re.Pattern[str] | None
    as_json: bool

    def create_printer(self, *, prefix: bool) -> LogPrinter:
        return LogPrinter(
            sys.stdout, prefix=prefix, as_json=self.as_json, timestamps=self.timestamps, pattern=self.pattern
        )


def _print_ended(
    folder: JobFolder,
    report: JobReport,
    record: JobRecord,
    words: Sequence[str],
    selection: Selection,
    options: _PrintOptions,
) -> None:
    """Print the output of a job that has ended here, without loading what talks to running jobs."""
    every = record.spec.task_ids
    selection = replace(selection, tasks=select_named_tasks(folder.job_id, every, words))
    _check_session(folder, report, selection, following=False)
    printer = options.create_printer(prefix=len(selection.tasks or every) != 1)
    names = find_log_files(folder.logs, selection)
    if len(names) == 1 and not options.timestamps and not options.as_json:
        selection = replace(selection, has_times=False)
    readers = open_readers(folder.logs, names, options.tail, selection)
    limit_chunks(readers)
    for lines in group_lines(merge_lines([reader.drain() for reader in readers])):
        printer.print(lines)
    _warn_rotated(folder, record, selection, options)
    _warn_empty(printer, options, f"see: tony status {folder.job_id}", has_start=selection.since is not None)


async def _print(
    view: JobView, words: Sequence[str], selection: Selection, options: _PrintOptions, *, following: bool
) -> None:
    from tony.jobs.directory.view import DirectoryJobView  # late: it loads asyncio

    every = await view.task_ids()
    selection = replace(selection, tasks=select_named_tasks(view.id, every, words))
    printer = options.create_printer(prefix=len(selection.tasks or every) != 1)
    if isinstance(view, DirectoryJobView):
        if selection.session is not None:
            _check_session(view.folder, await view.status(), selection, following=following)
        if following:
            live = is_terminal(sys.stdout) and not options.as_json
            _warn_rotated(view.folder, record_of(view.home, view.id), selection, options)
            await _follow(view, _OutputViewer(printer), selection, options.tail, live=live)
            return
    async for lines in view.output(selection, follow=following, tail=options.tail):
        printer.print(lines)
    if isinstance(view, DirectoryJobView):  # not before: only now the files of other machines are here
        _warn_rotated(view.folder, record_of(view.home, view.id), selection, options)
    yet = isinstance(view, DirectoryJobView) and view.live
    has_start = selection.since is not None
    _warn_empty(printer, options, f"see: tony status {view.id}", has_start=has_start, yet=yet)


def _warn_empty(printer: LogPrinter, options: _PrintOptions, hint: str, *, has_start: bool, yet: bool = False) -> None:
    """Say why nothing was printed."""
    if not printer.printed_count:
        what = f"no line matches {options.pattern.pattern!r}" if options.pattern else "no output"
        warn(f"{what}{' since then' if has_start else ''}{' yet' if yet else ''}; {hint}")


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


def _warn_rotated(folder: JobFolder, record: JobRecord, selection: Selection, options: _PrintOptions) -> None:
    """Warn about tasks whose output exceeded `log_limit`, so that the beginning may be missing."""
    if options.tail is not None or selection.since is not None:
        return
    logs, limit = folder.logs, record.spec.log_limit
    rotated = [name for name in find_log_files(logs, selection) if name.build_rotated_path(logs).exists()]
    full = list(dict.fromkeys(name.task for name in rotated if not find_missing_bytes(logs, name)))
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

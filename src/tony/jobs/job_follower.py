"""Following a job to its end: its status and its output."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import aclosing
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Protocol

from tony import clock
from tony.errors import (
    ConnectionFailedError,
    InfraError,
    NoClusterError,
    StorageError,
    TonyError,
    get_first_line,
    raise_first_error,
)
from tony.history.job_record import record_of
from tony.jobs.am_client import watch
from tony.jobs.job_output import BATCH_SECONDS
from tony.jobs.log_files import Selection, find_log_files
from tony.jobs.log_lines import LogLine, group_lines
from tony.jobs.log_tail import LogTail
from tony.jobs.remote.log_fetcher import LogFetcher, fetch_current_output, fetch_logs
from tony.jobs.remote.log_mirror import describe_missing_bytes, find_missing_bytes
from tony.jobs.status import job_status, remote_job_sync
from tony.jobs.status.queue_timeout import QueueLimit
from tony.linux.inotify import ChangeWatch
from tony.model.job_report import JobReport
from tony.model.log_name import LogName
from tony.model.state_directory import Home
from tony.model.submission_record import JobRecord
from tony.retry import Backoff
from tony.schedulers import registry

#: Between two polls of a job whose AM cannot be reached.
_LOCAL_BACKOFF = Backoff(first=0.05, most=1.0)
#: On another machine no file change announces a new AM: so it is polled often at first.
_REMOTE_BACKOFF = Backoff(first=0.05, factor=1.03, most=1.0)
#: Seconds for which a scheduler that has accepted the job may be unreachable; Hadoop's own clients wait as long.
_UNREACHABLE_SECONDS = 900.0


class Viewer(Protocol):
    """Receives what happens to a job. Called from the event loop; each call should be quick."""

    def on_report(self, report: JobReport) -> None:
        """Called with every new status."""

    def on_session_opened(self, session: int, reason: str) -> None:
        """Called when a further session opens, before the first report of it."""

    def on_output(self, lines: Sequence[LogLine]) -> None:
        """Called with output lines."""

    def on_notice(self, text: str) -> None:
        """Called with a message about the following itself, such as a lost connection."""


async def follow(
    home: Home,
    job_id: str,
    viewer: Viewer,
    selection: Selection | None = None,
    keep: int | None = None,
    *,
    live: bool = True,
    ages: bool = False,
) -> JobReport:
    """Report everything to `viewer` until the job has ended; return its final report.

    All output is reported before the report that the job has ended.

    Args:
        selection: which output to report; all by default.
        keep: lines of each stream to begin with; None for all.
        live: for display: only the newest state of progress bars, and incomplete lines after a while. Otherwise
            complete lines, byte for byte.
        ages: also report the status when only ages have changed.

    Raises:
        UnknownJobError: there is no such job.
    """
    record = record_of(home, job_id)
    selection = selection or Selection()
    logs = home.job(job_id).logs
    known: Mapping[LogName, int] = {}
    if keep is not None:
        await fetch_current_output(home, record, selection, viewer.on_notice)
        known = {name: find_missing_bytes(logs, name) for name in find_log_files(logs, selection)}
    with LogTail(logs, selection, keep, live=live) as tail:
        async with fetch_logs(home, record, selection, viewer.on_notice) as remote:
            printer = _LinePrinter(tail, viewer)
            with raise_first_error():
                async with asyncio.TaskGroup() as group:
                    printing = group.create_task(printer.run())
                    renewing = group.create_task(_renew_tokens(home, record, viewer.on_notice))
                    last = await _watch(home, job_id, viewer, printer, remote, ages=ages)
                    printing.cancel()
                    renewing.cancel()
            await printer.print_rest()
    if missing := describe_missing_bytes(logs, find_log_files(logs, selection), known):
        viewer.on_notice(f"some output is missing: {missing}")
    return last


async def _renew_tokens(home: Home, record: JobRecord, notice: Callable[[str], None]) -> None:
    """Renew what the job needs of its client; a failure is reported, and does not end the following."""
    try:
        submitter = registry.load_submitter(home, record)
        await submitter.renew_tokens(home.job(record.job_id), notice)
    except TonyError as error:
        notice(f"the job's tokens are not renewed: {get_first_line(error)}")


async def _watch(
    home: Home, job_id: str, viewer: Viewer, printer: _LinePrinter, remote: LogFetcher | None, *, ages: bool
) -> JobReport:
    last: JobReport | None = None
    sessions = _Sessions(home, job_id, viewer)
    async with aclosing(iterate_reports(home, job_id, viewer.on_notice, ages=ages)) as stream:
        async for last in stream:
            await sessions.on_report(last)
            if last.state.ended:
                if remote:
                    await remote.wait_until_finished()
                await printer.print_rest()
            viewer.on_report(last)
    assert last is not None  # the stream ends with a report
    return last


class _Sessions:
    """Reports further sessions. Reasons of sessions that began and ended between two reports come from the log."""

    def __init__(self, home: Home, job_id: str, viewer: Viewer) -> None:
        self._home = home
        self._job_id = job_id
        self._viewer = viewer
        self._reported = 1

    async def on_report(self, report: JobReport) -> None:
        """Report sessions that opened since the last report."""
        session = report.session
        if session <= self._reported:
            return
        reasons = {session: report.session_reason}
        if session > self._reported + 1 or not report.session_reason:
            known = reasons if report.session_reason else {}
            reasons = {**await remote_job_sync.load_session_reasons(self._home, self._job_id, session), **known}
        for number in range(self._reported + 1, session + 1):
            self._viewer.on_session_opened(number, reasons.get(number, ""))
        self._reported = session


async def iterate_reports(
    home: Home, job_id: str, notice: Callable[[str], None], *, ages: bool = False
) -> AsyncGenerator[JobReport, None]:
    """Yield the status now and after every change, reconnecting as necessary; end with the final report.

    Args:
        ages: also yield when only ages have changed.

    Raises:
        UnknownJobError: there is no such job.
        ProtocolError: the AM refused this client.
    """
    folder = home.job(job_id)
    record = record_of(home, job_id)
    submitter = registry.load_submitter(home, record)
    is_remote = not submitter.capabilities.same_host
    backoff = _REMOTE_BACKOFF if is_remote else _LOCAL_BACKOFF
    with ChangeWatch() as changes:
        changes.add(folder.path)
        pauses = iter(backoff)
        poller = _StatusPoller(home, record, notice)
        attempts = _AmAttempts(notice)
        reported_error = ""
        while True:
            last: JobReport | None = None
            broken: ConnectionFailedError | None = None
            try:
                async with aclosing(watch(folder, ages=ages)) as stream:
                    async for message in stream:
                        pauses = iter(backoff)
                        reported_error = ""
                        last = None if message.final else message.report
                        poller.on_answer()
                        attempts.on_report(message.report)
                        if message.final and is_remote:
                            yield await remote_job_sync.build_last_am_report(folder, submitter, message.report)
                        else:
                            yield replace(message.report, folder=str(folder.path))
                        if message.final:
                            return
            except ConnectionFailedError as error:
                broken = None if error.no_listener else error
            finally:
                if last is not None and is_remote:
                    remote_job_sync.cache_report(folder, last)
            report = await poller.poll()
            another = report is not None and attempts.on_report(report)
            if report is not None:
                yield report
                if folder.summary.exists():
                    return  # the job ended, so the broken connection is not worth a message
            if broken is not None and not another and str(broken) != reported_error:
                reported_error = str(broken)
                notice(f"{reported_error}; retrying")
            await _wait_change(changes, next(pauses))


class _AmAttempts:
    """Reports that the AM died and another AM attempt took over."""

    def __init__(self, notice: Callable[[str], None]) -> None:
        self._notice = notice
        self._seen = 0

    def on_report(self, report: JobReport) -> bool:
        """Compare a report with the previous one; return True if there was a new AM attempt."""
        before, self._seen = self._seen, max(self._seen, report.attempt)
        if not before or report.attempt <= before or report.state.ended:
            return False
        self._notice(f"the application master died; AM attempt {report.attempt} took over")
        return True


class _StatusPoller:
    """Polls a job without a connection to its AM, tolerating an unreachable scheduler for a while.

    A job that has waited in the queue for its AM longer than allowed is ended.
    """

    def __init__(self, home: Home, record: JobRecord, notice: Callable[[str], None]) -> None:
        self._home, self._job_id, self._notice = home, record.job_id, notice
        self._give_up = clock.monotonic() + _UNREACHABLE_SECONDS - (clock.wall() - record.submitted)
        self._is_away = False
        self._reported_error = ""
        self._limit = QueueLimit(home.job(record.job_id), record, registry.load_submitter(home, record))

    def on_answer(self) -> None:
        """Reset the deadline: there was an answer."""
        self._give_up = clock.monotonic() + _UNREACHABLE_SECONDS
        self._is_away = False
        self._reported_error = ""

    async def poll(self) -> JobReport | None:
        """Return the status; None if it cannot be determined now."""
        try:
            report = await job_status.load_report(self._home, self._job_id)
            if self._limit.is_exceeded(report):
                await self._limit.end(report)
                report = await job_status.load_report(self._home, self._job_id)
        except ConnectionFailedError as error:
            if str(error) != self._reported_error:
                self._reported_error = str(error)
                self._notice(f"{error}; retrying")
            return None
        except StorageError:
            raise
        except NoClusterError as error:
            raise NoClusterError(f"the status of {self._job_id} is no longer available: {error}") from error
        except InfraError as error:
            if clock.monotonic() > self._give_up:
                raise
            if not self._is_away:
                self._is_away = True
                self._notice(f"{get_first_line(error)}; retrying")
            return None
        self.on_answer()
        return report


async def _wait_change(changes: ChangeWatch, timeout: float) -> None:
    try:
        async with asyncio.timeout(timeout):
            await changes.wait_change()
    except TimeoutError:
        return


class _LinePrinter:
    """Passes lines to a viewer. Lines that were read are passed on even if it is cancelled in between."""

    def __init__(self, tail: LogTail, viewer: Viewer) -> None:
        self._tail = tail
        self._viewer = viewer
        self._lines: Iterator[LogLine] = iter(())
        self._lock = asyncio.Lock()

    async def run(self) -> None:
        """Run until cancelled."""
        await self._tell(self._tail.read_new_lines())
        while True:
            changed = await self._change()
            await self._tell(chain(self._tail.read_new_lines(changed), self._tail.take_due_lines()))
            await asyncio.sleep(BATCH_SECONDS)

    async def print_rest(self) -> None:
        """Report all remaining output, including incomplete lines, after all programs have exited."""
        await self._tell(self._tail.drain())

    async def _change(self) -> AbstractSet[Path] | None:
        """Wait until a log file changed, or an incomplete line is due."""
        due = self._tail.due
        try:
            async with asyncio.timeout(None if due is None else max(0.0, due - clock.monotonic())):
                return await self._tail.wait_change()
        except TimeoutError:  # the end of the line may be there, if this process was suspended
            return self._tail.take_changes()

    async def _tell(self, lines: Iterator[LogLine]) -> None:
        async with self._lock:
            await self._forward()  # lines left by a cancelled call
            self._lines = lines
            await self._forward()

    async def _forward(self) -> None:
        for portion in group_lines(self._lines):
            self._viewer.on_output(portion)
            await asyncio.sleep(0)  # let other tasks run between portions

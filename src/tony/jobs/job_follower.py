"""Following a job to its end: how it stands, and what its programs print."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import aclosing, contextmanager
from itertools import chain
from pathlib import Path
from typing import Protocol

from tony import clock
from tony.errors import ConnectionFailed, InfraError, NoClusterError, StorageError
from tony.history.job_record import record_of
from tony.jobs import cached_status, facts, remote_jobs
from tony.jobs.am_client import watch
from tony.jobs.inotify import FolderWatch
from tony.jobs.log_fetcher import LogFetcher, bring, bringing
from tony.jobs.log_names import Selection
from tony.jobs.log_reader import LogLine, portions
from tony.jobs.log_tail import LogTail
from tony.jobs.queue_timeout import QueueLimit
from tony.model.job_record import JobRecord
from tony.model.job_report import JobReport
from tony.model.layout import Home

#: Seconds for which more lines gather before they are read: who was silent is heard at once, and eight tasks with two
#: hundred lines a second each are read fifty times a second and not fifteen hundred.
_GATHER = 0.02
#: Seconds between two looks at a job whose application master cannot be reached, if nothing happens before: at first,
#: and at most.
_SOON, _LATER = 0.05, 1.0
#: Of a master on another machine nothing tells us that it comes up: for some seconds we look often.
_SLOWER = 1.03
#: Seconds for which a scheduler may be away that has taken the job, or told of it: as long as its own programs bear it.
_AWAY = 900.0


class Viewer(Protocol):
    """Whoever looks on. Called from the event loop; each call should be quick."""

    def saw(self, report: JobReport) -> None:
        """The job stands like this now."""

    def opened(self, session: int, reason: str) -> None:
        """A further session begins. Told before the first report of it."""

    def printed(self, lines: Sequence[LogLine]) -> None:
        """Programs printed these lines."""

    def noticed(self, text: str) -> None:
        """Something about the following itself: the connection broke, for instance."""


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
    """Tells `viewer` everything until the job has ended; answers its last report.

    Every line that was printed has been told before the report that the job has ended.

    Args:
        selection: which lines are told; all by default.
        keep: lines of each stream to begin with; None for all.
        live: tell lines as somebody wants them who looks on: progress bars as they move, and what waits for its line's
            end. Otherwise whole lines, byte for byte.
        ages: tell also how the job stands when nothing but time has passed: for a view that shows since when.

    Raises:
        UnknownJobError: there is no such job.
    """
    record = record_of(home, job_id)
    selection = selection or Selection()
    if keep is not None:
        await bring(home, record, selection, viewer.noticed)
    with LogTail(home.job(job_id).logs, selection, keep, live=live) as tail:
        async with bringing(home, record, selection, viewer.noticed) as remote:
            printer = _Printer(tail, viewer)
            with first_error():
                async with asyncio.TaskGroup() as group:
                    printing = group.create_task(printer.run())
                    last = await _watch(home, job_id, viewer, printer, remote, ages=ages)
                    printing.cancel()
            await printer.rest()
    return last


async def _watch(
    home: Home, job_id: str, viewer: Viewer, printer: _Printer, remote: LogFetcher | None, *, ages: bool
) -> JobReport:
    last: JobReport | None = None
    sessions = _Sessions(home, job_id, viewer)
    async with aclosing(reports(home, job_id, viewer.noticed, ages=ages)) as stream:
        async for last in stream:
            await sessions.tell(last)
            if last.state.ended:
                if remote:
                    await remote.finished()
                await printer.rest()
            viewer.saw(last)
    assert last is not None  # the stream ends with a report
    return last


class _Sessions:
    """Tells of further sessions. A quick one begins and ends between two reports: of that the log says why."""

    def __init__(self, home: Home, job_id: str, viewer: Viewer) -> None:
        self._home = home
        self._job_id = job_id
        self._viewer = viewer
        self._told = 1

    async def tell(self, report: JobReport) -> None:
        """The job stands like this now."""
        session = report.session
        if session <= self._told:
            return
        reasons = {session: report.session_reason}
        if session > self._told + 1 or not report.session_reason:
            known = reasons if report.session_reason else {}
            reasons = {**await remote_jobs.sessions(self._home, self._job_id, session), **known}
        for number in range(self._told + 1, session + 1):
            self._viewer.opened(number, reasons.get(number, ""))
        self._told = session


class _Notice(Protocol):
    def __call__(self, text: str, /) -> None: ...


async def reports(home: Home, job_id: str, notice: _Notice, *, ages: bool = False) -> AsyncGenerator[JobReport, None]:
    """The job as it stands, now and after every change, over all breaks of the connection; ends with the last report.

    Args:
        ages: also when nothing but time has passed.

    Raises:
        UnknownJobError: there is no such job.
        ProtocolError: the application master refuses us.
    """
    folder = home.job(job_id)
    record = record_of(home, job_id)
    submitter = facts.submitter_of(home, record)
    far = not submitter.capabilities.same_host
    with FolderWatch() as changes, cached_status.ReportCache(folder if far else None) as heard:
        changes.add(folder.path)
        pause = _SOON
        asker = _Asker(home, record, notice)
        attempts = _Attempts(notice)
        while True:
            try:
                async with aclosing(watch(folder, ages=ages)) as stream:
                    async for message in stream:
                        pause = _SOON
                        heard.last = None if message.final else message.report
                        asker.heard()
                        attempts.tell(message.report)
                        if message.final and far:
                            yield await remote_jobs.last_am_report(folder, submitter, message.report)
                        else:
                            yield message.report
                        if message.final:
                            return
                broken = None
            except ConnectionFailed as error:
                broken = None if error.gone else error
            heard.keep()
            report = await asker.ask()
            another = report is not None and attempts.tell(report)
            if report is not None:
                yield report
                if folder.summary.exists():
                    return  # a connection that broke with the job's end is no news
            if broken is not None and not another:
                notice(f"{broken}; looking again")
            await _wait_change(changes, pause)
            pause = min(_SLOWER * pause if far else 2 * pause, _LATER)


class _Attempts:
    """Tells that an application master died and another one goes on."""

    def __init__(self, notice: _Notice) -> None:
        self._notice = notice
        self._seen = 0

    def tell(self, report: JobReport) -> bool:
        """The job stands like this now; answers whether there was anything to tell."""
        before, self._seen = self._seen, max(self._seen, report.attempt)
        if not before or report.attempt <= before or report.state.ended:
            return False
        self._notice(f"the application master died; attempt {report.attempt} goes on")
        return True


class _Asker:
    """Asks how a job stands of which nobody tells by himself. A scheduler that was there may be away for a while.

    A job that has waited for its master longer than it may is ended.
    """

    def __init__(self, home: Home, record: JobRecord, notice: _Notice) -> None:
        self._home, self._job_id, self._notice = home, record.job_id, notice
        self._give_up = clock.monotonic() + _AWAY - (clock.wall() - record.submitted)
        self._is_away = False
        self._told = ""
        self._limit = QueueLimit(home.job(record.job_id), record, facts.submitter_of(home, record))

    def heard(self) -> None:
        """Somebody has told how it stands."""
        self._give_up = clock.monotonic() + _AWAY
        self._is_away = False
        self._told = ""

    async def ask(self) -> JobReport | None:
        """How it stands; None if that is not to be known now."""
        try:
            report = await facts.load_report(self._home, self._job_id)
            if self._limit.is_over(report):
                await self._limit.end(report)
                report = await facts.load_report(self._home, self._job_id)
        except ConnectionFailed as error:
            if str(error) != self._told:
                self._told = str(error)
                self._notice(f"{error}; looking again")
            return None
        except StorageError:
            raise
        except NoClusterError as error:
            raise NoClusterError(f"nobody can tell any more how {self._job_id} stands or ended: {error}") from error
        except InfraError as error:
            if clock.monotonic() > self._give_up:
                raise
            if not self._is_away:
                self._is_away = True
                self._notice(f"{str(error).partition(chr(10))[0].rstrip(':')}; looking again")
            return None
        self.heard()
        return report


async def _wait_change(changes: FolderWatch, patience: float) -> None:
    try:
        async with asyncio.timeout(patience):
            await changes.wait_change()
    except TimeoutError:
        return


class _Printer:
    """Hands lines to a viewer. What was read is handed over, even if it is cancelled in the middle."""

    def __init__(self, tail: LogTail, viewer: Viewer) -> None:
        self._tail = tail
        self._viewer = viewer
        self._lines: Iterator[LogLine] = iter(())
        self._turn = asyncio.Lock()

    async def run(self) -> None:
        """Until it is cancelled."""
        await self._tell(self._tail.new_lines())
        while True:
            changed = await self._change()
            await self._tell(chain(self._tail.new_lines(changed), self._tail.due_lines()))
            await asyncio.sleep(_GATHER)

    async def rest(self) -> None:
        """No program runs any more: all that is left, lines without an end included."""
        await self._tell(self._tail.drain())

    async def _change(self) -> AbstractSet[Path] | None:
        """Waits until something was printed, or has waited for its line's end long enough."""
        due = self._tail.due
        try:
            async with asyncio.timeout(None if due is None else max(0.0, due - clock.monotonic())):
                return await self._tail.wait_change()
        except TimeoutError:
            return frozenset()

    async def _tell(self, lines: Iterator[LogLine]) -> None:
        async with self._turn:
            await self._hand_over()  # what was left when it was cancelled
            self._lines = lines
            await self._hand_over()

    async def _hand_over(self) -> None:
        for portion in portions(self._lines):
            self._viewer.printed(portion)
            await asyncio.sleep(0)  # between two portions everything else gets its turn


@contextmanager
def first_error() -> Iterator[None]:
    """Raises what went wrong in a task group as itself: nobody outside cares in how many tasks the work was done."""
    try:
        yield
    except BaseExceptionGroup as several:
        raise _first(several) from None


def _first(several: BaseExceptionGroup[BaseException]) -> BaseException:
    error = several.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error

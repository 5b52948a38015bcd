"""Follows a job to its end, as lines or a live table, and reports the outcome; Ctrl-C stops or kills it meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, ClassVar, Protocol, TextIO

import click

from tony.cli.interrupt_question import InterruptQuestion
from tony.cli.plain_status import PlainView
from tony.cli.submission_signals import TERMINATION_SIGNALS, SignalGuard
from tony.cli.terminal.output import has_live_view, print_json, say, say_all, warn
from tony.cli.terminal.terminal_text import is_terminal
from tony.errors import ExitCode, TonyError, raise_first_error
from tony.history.job_record import record_of
from tony.jobs.actions import kill
from tony.jobs.failure_text import format_ending
from tony.jobs.job_follower import Viewer, follow
from tony.jobs.status.remote_job_sync import refresh
from tony.model.ids import parse_role
from tony.model.job_report import JobReport, TaskReport
from tony.model.job_spec import JobSpec
from tony.model.setting_choices import OnInterrupt
from tony.model.state_directory import Home, JobFolder
from tony.model.states import JobState, TaskState
from tony.schedulers import registry

#: Seconds for which the end of an AM, and the copy of what it has left, are waited for.
_HISTORY_SECONDS = 10.0
#: A coroutine that runs while a job is followed, with the view for its messages; cancelled when the job has ended.
Companion = Callable[[Home, str, Viewer], Coroutine[Any, Any, None]]


def follow_and_report(
    home: Home,
    job_id: str,
    spec: JobSpec,
    *,
    as_json: bool,
    early: SignalGuard | None = None,
    companion: Companion | None = None,
    tail: int | None = None,
) -> int:
    """Follow a job to its end, print where its files are, and return the exit code.

    Args:
        as_json: print the last report as JSON on standard output, everything else on standard error.
        early: see `follow_to_end`.
        companion: see `follow_to_end`.
        tail: lines of each stream to begin with; None for all.
    """
    early = early or SignalGuard()
    stream = sys.stderr if as_json else sys.stdout
    report = follow_to_end(home, job_id, stream, early, companion, tail, spec.on_interrupt)
    if not early.tied and (sentence := _describe_outputs(report, home.job(job_id))):
        say(sentence, to=stream)
    if as_json:
        print_json(report)
    _fetch_history(home, spec, report)
    for name in _find_unmatched_patterns(spec, report, home.job(job_id)):
        warn(f"roles.{name}.progress_pattern matched no line of the output")
    return exit_code(report)


def follow_to_end(
    home: Home,
    job_id: str,
    story: TextIO,
    early: SignalGuard | None = None,
    companion: Companion | None = None,
    tail: int | None = None,
    on_interrupt: OnInterrupt = OnInterrupt.STOP,
) -> JobReport:
    """Follow a job to its end and return its last report. Ctrl-C stops the job, a second one kills it, a third leaves.

    With `OnInterrupt.ASK` the first Ctrl-C on a terminal only asks, with `OnInterrupt.DETACH` it leaves. Neither holds
    for a job that is tied to this process.

    The failure of a job is explained on standard error, the root cause first.

    Args:
        story: the stream for status changes and output.
        early: Ctrl-C pressed before, which counts as well; and whether the job is tied to this process.
        companion: runs meanwhile.
        tail: lines of each stream to begin with; None for all.
        on_interrupt: the effect of the first Ctrl-C.

    Raises:
        KeyboardInterrupt: the user left before the end of the job.
        Exit: a signal ended a job that is tied to this process, or the user has detached from the job.
    """
    early = early or SignalGuard()
    if early.tied or (on_interrupt is OnInterrupt.ASK and not is_terminal(story)):
        on_interrupt = OnInterrupt.STOP
    try:
        with create_view(story) as view:
            report = asyncio.run(_follow(home, job_id, view, early, companion, tail, on_interrupt))
        story.flush()
    except (OSError, click.exceptions.Exit):  # the reader has gone, or the disk is full
        with contextlib.suppress(OSError, ValueError):
            warn(describe_detached(job_id))
        raise
    say_all(format_ending(report), to=sys.stderr)
    if early.ended_by:
        raise click.exceptions.Exit(128 + early.ended_by)
    return report


def _fetch_history(home: Home, spec: JobSpec, report: JobReport) -> None:
    """Fetch the events and metrics of an ended job if its cluster removes them after a while, or a warning needs them.

    A failure is no failure of the job: later commands try again. Ctrl-C skips it.
    """
    with contextlib.suppress(TonyError, OSError, KeyboardInterrupt):
        expires = registry.load_submitter(home, record_of(home, report.job)).capabilities.history_expires
        if expires or (report.state is JobState.SUCCEEDED and _find_patterns(spec)):
            asyncio.run(asyncio.wait_for(refresh(home, report.job), _HISTORY_SECONDS))


def describe_detached(job_id: str) -> str:
    """Return the message that a job continues without its follower."""
    return f"job {job_id} continues; stop it with: tony kill {job_id}, follow it again with: tony attach {job_id}"


def exit_code(report: JobReport) -> int:
    """Return the exit code of a command that followed a job to its end."""
    if report.exit_code is not None:
        return report.exit_code
    return ExitCode.SUCCEEDED if report.state is JobState.SUCCEEDED else ExitCode.BUG


def _describe_outputs(report: JobReport, folder: JobFolder) -> str:
    """Return a sentence with the place of files written to relative paths; empty if no program has run."""
    tasks = [task for task in report.tasks if _has_run(task)]
    if not tasks:
        return ""
    work_folders = [folder.work_of(task.id) for task in tasks]
    if not any(map(os.path.isdir, work_folders)):
        return (
            "Files your program wrote to relative paths were removed with their containers; write results to an"
            " absolute path on a shared file system"
        )
    where = work_folders[0] if len(tasks) == 1 else f"{folder.work}/, one folder per task"
    return f"Files your program wrote to relative paths are in: {where}"


def _find_unmatched_patterns(spec: JobSpec, report: JobReport, folder: JobFolder) -> list[str]:
    """Return the roles of a succeeded job that have a `progress_pattern`, and of which no step is known.

    Without the AM's log the metrics may not be complete.
    """
    if report.state is not JobState.SUCCEEDED or not all(map(os.path.exists, (folder.metrics, folder.am_log))):
        return []
    from tony.history.metrics_reader import Metrics  # late: it loads SQLite

    with Metrics(folder.metrics) as metrics:
        known = {parse_role(progress.task) for progress in metrics.progress()}
    return [name for name in _find_patterns(spec) if name not in known]


def _find_patterns(spec: JobSpec) -> list[str]:
    """Return the roles that have a `progress_pattern`."""
    return [name for name, role in spec.effective_roles.items() if role.progress_pattern is not None]


def _has_run(task: TaskReport) -> bool:
    """Return True if the program of a task was started, or may have been; for a job that has ended."""
    ended = task.exit_code is not None or task.signal is not None
    return ended or task.state in (TaskState.SUCCEEDED, TaskState.LOST)


async def _follow(
    home: Home,
    job_id: str,
    view: TerminalViewer,
    early: SignalGuard,
    companion: Companion | None,
    tail: int | None,
    on_interrupt: OnInterrupt,
) -> JobReport:
    with raise_first_error():
        async with asyncio.TaskGroup() as group:
            with _SignalHandlers(home, job_id, view, group, early, on_interrupt).install():
                others = [group.create_task(companion(home, job_id, view))] if companion else []
                others.append(group.create_task(view.poll_progress(home, job_id)))
                report = await follow(home, job_id, view, keep=tail, ages=view.shows_ages)
                for other in others:
                    other.cancel()
                return report


class _SignalHandlers:
    """Handles Ctrl-C and the termination signals while a job is followed."""

    def __init__(
        self,
        home: Home,
        job_id: str,
        view: TerminalViewer,
        group: asyncio.TaskGroup,
        early: SignalGuard,
        on_interrupt: OnInterrupt,
    ) -> None:
        self._home = home
        self._job_id = job_id
        self._view = view
        self._group = group
        self._early = early
        self._pressed = 0
        self._left_by: signal.Signals | None = None
        self._is_detached = False
        self._on_interrupt = on_interrupt
        self._following = asyncio.current_task()
        stop = partial(self._stop, signal.SIGINT)
        self._question = InterruptQuestion(view, {"s": stop, "d": self._detach, "c": self._continue})

    @contextmanager
    def install(self) -> Iterator[None]:
        """Install the handlers; Ctrl-C counted before is handled first."""
        loop = asyncio.get_running_loop()
        # Signals that the parent set to be ignored (`nohup`, `&` of a shell) stay ignored.
        numbers = (signal.SIGINT, *TERMINATION_SIGNALS)
        handled = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
        for number in handled:
            if number is signal.SIGINT or self._early.tied:
                loop.add_signal_handler(number, self._press, number)
            else:
                loop.add_signal_handler(number, self._leave, number)
        for _ in range(self._early.pressed):
            loop.call_soon(self._press, signal.Signals(self._early.ended_by or signal.SIGINT))
        if self._early.left_by:
            loop.call_soon(self._leave, signal.Signals(self._early.left_by))
        try:
            yield
        except asyncio.CancelledError:
            if self._left_by is signal.SIGINT and not self._is_detached:
                raise KeyboardInterrupt from None
            if self._left_by is not None:
                raise click.exceptions.Exit(128 + self._left_by) from None
            raise
        finally:
            self._question.close()
            for number in handled:
                loop.remove_signal_handler(number)

    def _leave(self, number: signal.Signals) -> None:
        self._left_by = number
        if self._following:
            self._following.cancel()

    def _press(self, number: signal.Signals) -> None:
        """Handle a signal that stops the job, unless the user is to be asked or wants to detach."""
        if self._pressed == 0 and self._on_interrupt is OnInterrupt.DETACH:
            self._detach()
        elif self._pressed or self._on_interrupt is not OnInterrupt.ASK or not self._question.open():
            self._question.close()
            self._stop(number)

    def _detach(self) -> None:
        self._is_detached = True
        self._leave(signal.SIGINT)

    def _continue(self) -> None:
        self._view.on_notice(f"Job {self._job_id} continues")

    def _stop(self, number: signal.Signals) -> None:
        self._pressed += 1
        self._early.note(number)
        on = "" if number is signal.SIGINT else f" on {number.name}"
        advice = "press Ctrl-C again" if number is signal.SIGINT else f"send {number.name} again"
        if self._pressed > 2:
            self._view.on_notice(f"Leaving{on}; job {self._job_id} may still be running: tony status {self._job_id}")
            self._leave(signal.SIGINT)
            return
        if self._pressed == 1:
            self._view.on_notice(f"Stopping job {self._job_id}{on}; {advice} to kill it now")
        else:
            self._view.on_notice(f"Killing job {self._job_id}{on}; {advice} to leave")
        self._group.create_task(self._kill(now=self._pressed == 2))

    async def _kill(self, *, now: bool) -> None:
        try:
            await kill(self._home, self._job_id, now=now)
        except TonyError as error:
            warn(str(error))


class TerminalViewer(Viewer, Protocol):
    """Shows a followed job to the user of a terminal, file or pipe.

    Attributes:
        shows_ages: reports are needed even if only time has passed.
    """

    shows_ages: ClassVar[bool]

    def show_question(self, text: str) -> None:
        """Show a question until it is answered; an empty text removes it."""

    async def poll_progress(self, home: Home, job_id: str) -> None:
        """Keep the displayed progress of the running job current, until cancelled."""


def create_view(stream: TextIO) -> AbstractContextManager[TerminalViewer]:
    """Return the view for a stream, a context manager: at its end a live table is removed."""
    if has_live_view(stream):
        from tony.cli.live_status import LiveView  # late: only on a terminal

        return LiveView(stream)
    plain: AbstractContextManager[Any] = nullcontext(PlainView(stream))
    return plain

"""Following a job from the command line: to its end, or until the person has had enough."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import click

from tony.cli.early import ENDING, SignalGuard
from tony.cli.follow_view import view_for
from tony.cli.output import say_all, warn
from tony.errors import ExitCode, TonyError
from tony.jobs.failure_text import page
from tony.jobs.job_follower import Viewer, first_error, follow
from tony.jobs.killing import kill
from tony.model.job_report import JobReport
from tony.model.layout import Home
from tony.model.states import JobState

#: What is done while a job is followed, given to whom it can tell something. It is cancelled when the job has ended.
Beside = Callable[[Home, str, Viewer], Coroutine[Any, Any, None]]


def follow_to_end(
    home: Home, job_id: str, story: TextIO, early: SignalGuard | None = None, beside: Beside | None = None
) -> JobReport:
    """Follows a job and answers its last report. Ctrl-C ends the job, a second one at once, a third leaves it alone.

    A job that fails is explained on standard error, the first cause first.

    Args:
        story: where states and output go.
        early: each Ctrl-C that came before counts as well; says whether the job is tied to us.
        beside: what to do meanwhile.

    Raises:
        KeyboardInterrupt: the person leaves before the job's end.
        Exit: a signal has ended a job that is tied to us.
    """
    early = early or SignalGuard()
    try:
        with view_for(story) as view:
            report = asyncio.run(_follow(home, job_id, view, early, beside))
        story.flush()
    except (OSError, click.exceptions.Exit):  # nobody reads any more, or a full disk takes nothing any more
        with contextlib.suppress(OSError, ValueError):
            warn(f"job {job_id} goes on; end it with: tony kill {job_id}")
        raise
    say_all(page(report), to=sys.stderr)
    if early.ended_by:
        raise click.exceptions.Exit(128 + early.ended_by)
    return report


def exit_code(report: JobReport) -> int:
    """What a command answers that followed a job to its end."""
    if report.exit_code is not None:
        return report.exit_code
    return ExitCode.SUCCEEDED if report.state is JobState.SUCCEEDED else ExitCode.BUG


async def _follow(home: Home, job_id: str, view: Viewer, early: SignalGuard, beside: Beside | None) -> JobReport:
    with first_error():
        async with asyncio.TaskGroup() as group:
            with _Interrupts(home, job_id, view, group, early).heeded():
                other = group.create_task(beside(home, job_id, view)) if beside else None
                report = await follow(home, job_id, view, ages=getattr(view, "shows_ages", False))
                if other:
                    other.cancel()
                return report


class _Interrupts:
    """What a person's Ctrl-C does, and how often it was pressed; and what other signals do."""

    def __init__(self, home: Home, job_id: str, view: Viewer, group: asyncio.TaskGroup, early: SignalGuard) -> None:
        self._home = home
        self._job_id = job_id
        self._view = view
        self._group = group
        self._early = early
        self._pressed = 0
        self._left_by: signal.Signals | None = None
        self._following = asyncio.current_task()

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """Inside, signals come here, after those that came before."""
        loop = asyncio.get_running_loop()
        # Who was started with a signal ignored (`nohup`, a shell's `&`) is to ignore it.
        heeded = [number for number in (signal.SIGINT, *ENDING) if signal.getsignal(number) is not signal.SIG_IGN]
        for number in heeded:
            if number is signal.SIGINT or self._early.tied:
                loop.add_signal_handler(number, self._press, number)
            else:
                loop.add_signal_handler(number, self._leave, number)
        for _ in range(self._early.pressed):
            loop.call_soon(self._press, signal.Signals(self._early.ended_by or signal.SIGINT))
        try:
            yield
        except asyncio.CancelledError:
            if self._left_by is signal.SIGINT:
                raise KeyboardInterrupt from None
            if self._left_by is not None:
                raise click.exceptions.Exit(128 + self._left_by) from None
            raise
        finally:
            for number in heeded:
                loop.remove_signal_handler(number)

    def _leave(self, number: signal.Signals) -> None:
        self._left_by = number
        if self._following:
            self._following.cancel()

    def _press(self, number: signal.Signals) -> None:
        self._pressed += 1
        self._early.note(number)
        what = "Ctrl-C" if number is signal.SIGINT else number.name
        if self._pressed > 2:
            self._view.noticed(f"leaving; the job may still run: tony status {self._job_id}")
            self._leave(signal.SIGINT)
            return
        if self._pressed == 1:
            self._view.noticed(f"{what}: stopping job {self._job_id} (once more: at once)")
        else:
            self._view.noticed(f"{what} again: ending job {self._job_id} at once")
        self._group.create_task(self._kill(now=self._pressed == 2))

    async def _kill(self, *, now: bool) -> None:
        try:
            await kill(self._home, self._job_id, now=now)
        except TonyError as error:
            warn(str(error))

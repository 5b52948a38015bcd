"""Following a job from the command line: to its end, or until the person has had enough."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import click

from tony.cli.early import EarlyInterrupts
from tony.cli.output import say_all, warn
from tony.cli.views import view_for
from tony.client.failure import page
from tony.client.following import Viewer, first_error, follow
from tony.client.killing import kill
from tony.errors import ExitCode, TonyError
from tony.model.layout import Home
from tony.model.report import JobReport
from tony.model.states import JobState

#: Signals that end the following and not the job: a logged-out terminal, a machine that sends its users home.
_LEAVE = (signal.SIGTERM, signal.SIGHUP)


def follow_to_end(home: Home, job_id: str, story: TextIO, early: EarlyInterrupts | None = None) -> JobReport:
    """Follows a job and answers its last report. Ctrl-C ends the job, a second one at once, a third leaves it alone.

    A job that fails is explained on standard error, the first cause first.

    Args:
        story: where states and output go.
        early: each Ctrl-C that came before counts as well.

    Raises:
        KeyboardInterrupt: the person leaves before the job's end.
    """
    try:
        with view_for(story) as view:
            report = asyncio.run(_follow(home, job_id, view, early or EarlyInterrupts()))
        story.flush()
    except (OSError, click.exceptions.Exit):  # nobody reads any more, or a full disk takes nothing any more
        with contextlib.suppress(OSError, ValueError):
            warn(f"job {job_id} goes on; end it with: tony kill {job_id}")
        raise
    say_all(page(report), to=sys.stderr)
    return report


def exit_code(report: JobReport) -> int:
    """What a command answers that followed a job to its end."""
    if report.exit_code is not None:
        return report.exit_code
    return ExitCode.SUCCEEDED if report.state is JobState.SUCCEEDED else ExitCode.BUG


async def _follow(home: Home, job_id: str, view: Viewer, early: EarlyInterrupts) -> JobReport:
    with first_error():
        async with asyncio.TaskGroup() as group:
            with _Interrupts(home, job_id, view, group).heeded(early):
                return await follow(home, job_id, view, ages=getattr(view, "shows_ages", False))


class _Interrupts:
    """What a person's Ctrl-C does, and how often it was pressed; and what other signals do."""

    def __init__(self, home: Home, job_id: str, view: Viewer, group: asyncio.TaskGroup) -> None:
        self._home = home
        self._job_id = job_id
        self._view = view
        self._group = group
        self._pressed = 0
        self._left_by: signal.Signals | None = None
        self._following = asyncio.current_task()

    @contextmanager
    def heeded(self, early: EarlyInterrupts) -> Iterator[None]:
        """Inside, signals come here, after those that came before."""
        loop = asyncio.get_running_loop()
        # Who was started with a signal ignored (`nohup`, a shell's `&`) is to ignore it.
        heeded = [number for number in (signal.SIGINT, *_LEAVE) if signal.getsignal(number) is not signal.SIG_IGN]
        for number in heeded:
            if number is signal.SIGINT:
                loop.add_signal_handler(number, self._press)
            else:
                loop.add_signal_handler(number, self._leave, number)
        for _ in range(early.pressed):
            loop.call_soon(self._press)
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

    def _press(self) -> None:
        self._pressed += 1
        if self._pressed > 2:
            self._view.noticed(f"leaving; the job may still run: tony status {self._job_id}")
            self._leave(signal.SIGINT)
            return
        if self._pressed == 1:
            self._view.noticed(f"Ctrl-C: stopping job {self._job_id} (once more: at once)")
        else:
            self._view.noticed(f"Ctrl-C again: ending job {self._job_id} at once")
        self._group.create_task(self._kill(now=self._pressed == 2))

    async def _kill(self, *, now: bool) -> None:
        try:
            await kill(self._home, self._job_id, now=now)
        except TonyError as error:
            warn(str(error))

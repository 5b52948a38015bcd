"""What `tony submit` and `tony run` share: from a resolved job to an exit code."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tony.bootstrap import settle
from tony.cli.early import ENDING, InterruptedBySignal, SignalGuard, raise_interrupt
from tony.cli.options import home, json_option
from tony.cli.output import print_json, say, warn
from tony.config.load import Resolved
from tony.dataclass import dataclass
from tony.model.ids import TaskId
from tony.model.job_report import JobReport, TaskReport
from tony.model.layout import Home, JobFolder
from tony.model.states import TaskState

if TYPE_CHECKING:
    from tony.cli.following import Beside

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitOptions:
    """How a job is to be submitted.

    Attributes:
        detach: leave it; print its id and nothing else.
        dry_run: print what would be sent, and send nothing.
        as_json: JSON on standard output, everything else on standard error.
        shows_outputs: at the end, say where files are that the programs wrote to relative paths.
    """

    detach: bool
    dry_run: bool
    as_json: bool
    shows_outputs: bool = False


def manner_options(function: F) -> F:
    """The flags --detach, --dry-run, --json."""
    for option in (
        json_option("Print JSON: the last report, or with --detach the id. The rest goes to standard error."),
        click.option("--dry-run", is_flag=True, help="Print the request that would be sent; start nothing."),
        click.option("-d", "--detach", is_flag=True, help="Print the job's id and leave it running."),
    ):
        function = option(function)
    return function


def setting_options(function: F) -> F:
    """The options --scheduler, --set, --param."""
    for option in (
        click.option("--param", "params", multiple=True, metavar="NAME=VALUE", help="A value for {params.NAME}."),
        click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Any setting: roles.worker.memory=2g."),
        click.option("--scheduler", metavar="NAME", help="Scheduler to use: local or yarn."),
    ):
        function = option(function)
    return function


def submit_and_follow(
    resolved: Resolved, manner: SubmitOptions, *, tied: bool = False, beside: Beside | None = None
) -> int:
    """Submits, follows unless told otherwise; answers the exit code.

    Args:
        tied: the job ends with us, whatever ends us.
        beside: what to do while the job is followed.

    Raises:
        ConfigError: the job can never run. Nothing was started.
    """
    place = home()
    if manner.dry_run:
        from tony.client.submission import rendered

        print_json(rendered(resolved, place), pretty=True)
        return 0
    early = SignalGuard(tied=tied)
    job_id = _submit(resolved, place, early)
    if manner.detach:
        if manner.as_json:
            print_json({"job": job_id, "folder": str(place.job(job_id).path)})
        else:
            say(job_id)
        return 0
    from tony.cli.following import exit_code, follow_to_end

    settle()
    report = follow_to_end(place, job_id, sys.stderr if manner.as_json else sys.stdout, early, beside)
    if manner.shows_outputs and (sentence := _describe_outputs(report, place.job(job_id))):
        say(sentence, to=sys.stderr if manner.as_json else sys.stdout)
    if manner.as_json:
        print_json(report)
    return exit_code(report)


def _describe_outputs(report: JobReport, folder: JobFolder) -> str:
    """Return where files are that the programs wrote to relative paths; empty if no program has run."""
    tasks = [task for task in report.tasks if _has_run(task)]
    if not tasks:
        return ""
    work_folders = [folder.work_of(TaskId(task.role, task.index)) for task in tasks]
    if not any(map(os.path.isdir, work_folders)):
        return (
            "files that the programs wrote to relative paths were removed with their containers; write what is to be "
            "kept to a shared file system, by its absolute path"
        )
    where = work_folders[0] if len(tasks) == 1 else f"{folder.work}/, a folder for each task"
    return f"files that the programs wrote to relative paths: {where}"


def _has_run(task: TaskReport) -> bool:
    """Return True if the program of a task in a job that has ended was started, or may have been."""
    ended = task.exit_code is not None or task.signal is not None
    return ended or task.state in (TaskState.SUCCEEDED, TaskState.LOST)


def _submit(resolved: Resolved, place: Home, early: SignalGuard) -> str:
    from tony.client.submission import prepared

    ready = None
    try:
        # Staging blocks, and outside of an event loop Ctrl-C ends it at once.
        with ending_in_order(), prepared(resolved, place, warn) as ready:
            job_id = asyncio.run(ready.hand_over())
            early.begin()
            return job_id
    except KeyboardInterrupt as interrupt:
        ended = interrupt.number if isinstance(interrupt, InterruptedBySignal) else 0
        if ready is None or not ready.accepted.is_set():
            how = f"told to end ({signal.Signals(ended).name})" if ended else "interrupted"
            warn(f"{how}; nothing was submitted.")
        else:  # it came in the last moment
            job_id = ready.job.record.job_id
            if not ended or early.tied:
                early.begin(pressed=1, ended_by=ended or signal.SIGINT)
                return job_id
            warn(f"job {job_id} goes on; end it with: tony kill {job_id}")
        if ended:
            raise click.exceptions.Exit(128 + ended) from None
        raise


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Inside, SIGTERM and SIGHUP end us as Ctrl-C does: what is half made is removed. Who ignores them still does."""
    before = {number: signal.getsignal(number) for number in ENDING}
    heeded = [number for number, handler in before.items() if handler is signal.SIG_DFL]
    for number in heeded:
        signal.signal(number, raise_interrupt)
    try:
        yield
    finally:
        for number in heeded:
            if signal.getsignal(number) is raise_interrupt:  # or somebody heeds them in another way by now
                signal.signal(number, before[number])

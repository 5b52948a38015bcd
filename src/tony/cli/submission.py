"""Submission for `tony submit` and `tony run`: their common options, and from a resolved job to an exit code."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tony.cli.options import home, json_option
from tony.cli.submission_follower import exit_code, follow_to_end
from tony.cli.submission_signals import InterruptedBySignal, SignalGuard, clean_exit_on_signals
from tony.cli.terminal.output import print_json, say, warn
from tony.client.submission import prepare_submission, render_request
from tony.config.load import Resolved, load
from tony.isolated_interpreter import settle
from tony.model.ids import parse_role
from tony.model.job_report import JobReport, TaskReport
from tony.model.job_spec import JobSpec
from tony.model.state_directory import Home, JobFolder
from tony.model.states import JobState, TaskState
from tony.schedulers.registry import list_built_in_names

if TYPE_CHECKING:
    from tony.cli.submission_follower import Companion

F = TypeVar("F", bound=Callable[..., Any])


def submit_options(function: F) -> F:
    """Add the flags --detach, --dry-run, --json."""
    for option in (
        json_option("Print the last report, or with --detach the id, as JSON; all else on standard error."),
        click.option("--dry-run", is_flag=True, help="Print the request instead of sending it."),
        click.option("-d", "--detach", is_flag=True, help="Print the job id and do not follow the job."),
    ):
        function = option(function)
    return function


def setting_options(function: F) -> F:
    """Add the options --scheduler, --set, --param."""
    for option in (
        click.option("--param", "params", multiple=True, metavar="NAME=VALUE", help="Value of {params.NAME}."),
        click.option(
            "--set", "sets", multiple=True, metavar="KEY=VALUE", help="Override a setting: roles.worker.memory=2g."
        ),
        click.option("--scheduler", metavar="NAME", help=f"Scheduler to use: {' or '.join(list_built_in_names())}."),
    ):
        function = option(function)
    return function


def load_job_file(job_file: str, scheduler: str | None, sets: Iterable[str], params: Iterable[str]) -> Resolved:
    """Load a job file with the options of `setting_options`.

    Raises:
        ConfigError: all errors that were found.
    """
    overrides = {} if scheduler is None else {"scheduler": scheduler}
    return load(job_file, sets=sets, params=params, overrides=overrides, overrides_source="--scheduler")


def submit_and_follow(
    resolved: Resolved,
    *,
    detach: bool = False,
    dry_run: bool = False,
    as_json: bool = False,
    tied: bool = False,
    companion: Companion | None = None,
) -> int:
    """Submit a job, follow it unless detached, and return the exit code.

    Args:
        detach: do not follow the job; print its id and nothing else.
        dry_run: print the request instead of sending it.
        as_json: JSON on standard output, everything else on standard error.
        tied: stop the job whenever this process is stopped.
        companion: runs while the job is followed.

    Raises:
        ConfigError: the job can never run. Nothing was started.
    """
    place = home()
    if dry_run:
        print_json(render_request(resolved, place), pretty=True)
        return 0
    early = SignalGuard(tied=tied)
    job_id = _submit(resolved, place, early)
    if detach:
        if as_json:
            print_json({"job": job_id, "folder": str(place.job(job_id).path)})
        else:
            say(job_id)
        return 0
    settle()
    stream = sys.stderr if as_json else sys.stdout
    report = follow_to_end(place, job_id, stream, early, companion)
    if not tied and (sentence := _describe_outputs(report, place.job(job_id))):
        say(sentence, to=stream)
    for name in _find_unmatched_patterns(resolved.spec, report, place.job(job_id)):
        warn(f"roles.{name}.progress_pattern matched no line of the output")
    if as_json:
        print_json(report)
    return exit_code(report)


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
    """Return the roles of a succeeded job that have a `progress_pattern`, and of which no step is known."""
    names = [name for name, role in spec.effective_roles.items() if role.progress_pattern is not None]
    if not names or report.state is not JobState.SUCCEEDED or not os.path.exists(folder.metrics):
        return []
    from tony.history.metrics_reader import Metrics

    with Metrics(folder.metrics) as metrics:
        known = {parse_role(progress.task) for progress in metrics.progress()}
    return [name for name in names if name not in known]


def _has_run(task: TaskReport) -> bool:
    """Return True if the program of a task was started, or may have been; for a job that has ended."""
    ended = task.exit_code is not None or task.signal is not None
    return ended or task.state in (TaskState.SUCCEEDED, TaskState.LOST)


def _submit(resolved: Resolved, place: Home, early: SignalGuard) -> str:
    ready = None
    try:
        # Staging blocks; outside an event loop Ctrl-C interrupts it at once.
        with clean_exit_on_signals(), prepare_submission(resolved, place, lambda notice: warn(str(notice))) as ready:
            job_id = asyncio.run(ready.submit())
            early.begin()
            return job_id
    except KeyboardInterrupt as interrupt:
        ended = interrupt.number if isinstance(interrupt, InterruptedBySignal) else 0
        if ready is None or not ready.accepted.is_set():
            how = f"terminated by {signal.Signals(ended).name}" if ended else "interrupted"
            warn(f"{how}; nothing was submitted")
        else:  # the job was accepted at the same moment
            job_id = ready.job.record.job_id
            if not ended or early.tied:
                early.begin(pressed=1, ended_by=ended or signal.SIGINT)
                return job_id
            warn(f"job {job_id} continues; stop it with: tony kill {job_id}")
        if ended:
            raise click.exceptions.Exit(128 + ended) from None
        raise

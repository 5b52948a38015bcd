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
from tony.cli.submission_signals import SignalGuard, clean_exit_on_signals
from tony.cli.terminal.output import print_json, say, warn
from tony.cli.text.job_heading import print_heading
from tony.client.submission import prepare_submission, render_request
from tony.config.load import Resolved, load
from tony.errors import InterruptedBySignal
from tony.isolated_interpreter import settle
from tony.model.state_directory import Home
from tony.schedulers.registry import list_built_in_names

if TYPE_CHECKING:
    from tony.cli.submission_follower import Companion
    from tony.client.staged_copy import StagedCopy

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
    scheduler = click.option(
        "--scheduler", metavar="NAME", help=f"Scheduler to use: {' or '.join(list_built_in_names())}."
    )
    return scheduler(changing_options(function))


def changing_options(function: F) -> F:
    """Add the options --set, --param."""
    for option in (
        click.option("--param", "params", multiple=True, metavar="NAME=VALUE", help="Value of {params.NAME}."),
        click.option(
            "--set", "sets", multiple=True, metavar="KEY=VALUE", help="Override a setting: roles.worker.memory=2g."
        ),
    ):
        function = option(function)
    return function


def parse_pair(text: str, option: str, form: str = "NAME=VALUE") -> tuple[str, str]:
    """Return name and value of `NAME=VALUE`.

    Args:
        form: how the option is written.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise click.BadParameter(f"{text!r}: write {form}", param_hint=option)
    return name.strip(), value


def parse_variable(text: str) -> tuple[str, str]:
    """Return name and value of `NAME=VALUE`, or of `NAME` with the value of the present environment."""
    if "=" in text:
        return parse_pair(text, "--env")
    if text not in os.environ:
        message = f"{text!r} is not set in your environment (or not exported). Write NAME=VALUE."
        raise click.BadParameter(message, param_hint="--env")
    return text, os.environ[text]


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
    staged_copy: StagedCopy | None = None,
) -> int:
    """Submit a job, follow it unless detached, and return the exit code.

    Args:
        detach: do not follow the job; print its id and nothing else.
        dry_run: print the request instead of sending it.
        as_json: JSON on standard output, everything else on standard error.
        tied: stop the job whenever this process is stopped.
        companion: runs while the job is followed.
        staged_copy: staged files of an earlier job to use; None to stage those of the job.

    Raises:
        ConfigError: the job can never run. Nothing was started.
    """
    place = home()
    if dry_run:
        print_json(render_request(resolved, place, is_staged=staged_copy is not None), pretty=True)
        return 0
    early = SignalGuard(tied=tied)
    job_id = _submit(resolved, place, early, staged_copy, detach=detach)
    if detach:
        if as_json:
            print_json({"job": job_id, "folder": str(place.job(job_id).path)})
        else:
            say(job_id)
        return 0
    early.defer_termination()
    print_heading("Submitted", resolved.spec, place.job(job_id), to=sys.stderr if as_json else sys.stdout)
    from tony.cli.submission_follower import follow_and_report  # late: the job starts while it is loaded

    settle()
    return follow_and_report(place, job_id, resolved.spec, as_json=as_json, early=early, companion=companion)


def _submit(
    resolved: Resolved, place: Home, early: SignalGuard, staged_copy: StagedCopy | None, *, detach: bool
) -> str:
    ready = None
    try:
        # Staging blocks; outside an event loop Ctrl-C interrupts it at once.
        with (
            clean_exit_on_signals(),
            prepare_submission(resolved, place, lambda notice: warn(str(notice)), staged_copy) as ready,
        ):
            job_id = asyncio.run(ready.submit())
            if detach and (notice := ready.submitter.find_detached_notice()):
                warn(notice)
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
            from tony.cli.submission_follower import describe_detached  # late: see above

            warn(describe_detached(job_id))
        raise

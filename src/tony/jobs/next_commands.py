"""The commands that a person is likely to need next: to look further, and to run a failed job again."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tony.jobs.root_cause import RootCause
from tony.model.diagnosis import FailureKind
from tony.model.failure import RUN_TIME_LIMITS, FailureCause, FailureClass, TimeoutFacts
from tony.model.job_report import JobReport
from tony.model.program_exit import CRASH_SIGNALS
from tony.model.states import JobState
from tony.units import format_exact_duration

#: Kinds of failures that the same job may not meet again.
_PASSING_KINDS = frozenset(
    {
        FailureKind.ACCELERATOR,
        FailureKind.KILLED,
        FailureKind.NETWORK,
        FailureKind.NODE,
        FailureKind.PREEMPTION,
        FailureKind.RENDEZVOUS,
        FailureKind.STORAGE,
    }
)


@dataclass(frozen=True, slots=True)
class NextCommand:
    """A command of `tony`, and what it is for."""

    command: str
    purpose: str


#: Commands that reach a job by its portal.
_PORTAL_COMMANDS = frozenset({"logs", "restart", "stacks", "why"})


def list_next_commands(
    report: JobReport, cause: RootCause | None, *, has_log: bool = True, portal: str | None = None
) -> list[NextCommand]:
    """Return the commands for a job in its present state; none for one that succeeded at once, without a warning.

    Args:
        cause: why the job failed, or why the session before did.
        has_log: the program of the root task printed something.
        portal: address of the portal that the report comes from.
    """
    found = _list_commands(report, cause, has_log=has_log)
    if portal is None:
        return found
    words = f" --portal {shlex.quote(portal)}"
    return [
        replace(each, command=each.command + words) for each in found if each.command.split()[1] in _PORTAL_COMMANDS
    ]


def _list_commands(report: JobReport, cause: RootCause | None, *, has_log: bool) -> list[NextCommand]:
    failure = report.failure
    if report.state is JobState.KILLED:
        return [NextCommand(f"tony rerun {report.job}", "run it again")]
    if report.state is not JobState.FAILED or failure is None or cause is None:
        return _list_for_unfailed(report, cause)
    # of a program that was never started there is no more to see
    seen = [] if failure.cause is FailureCause.LAUNCH else _list_for_failure(report, cause, has_log=has_log)
    rerun = build_rerun_command(report, cause)
    return [*seen, rerun] if rerun else seen


def _list_for_unfailed(report: JobReport, cause: RootCause | None) -> list[NextCommand]:
    job, found = report.job, []
    if cause and cause.root_task:
        found += [NextCommand(f"tony why {job}", f"why session {cause.session} failed")]
        found += [_build_logs(report, cause)]
    if report.stalled:
        task = f" {report.stalled_task}" if report.stalled_task else ""
        found += [
            NextCommand(f"tony stacks {job}{task}", "where its programs are now"),
            NextCommand(f"tony logs {job}{task}", "what it printed last"),
            NextCommand(f"tony restart {job}", "start all tasks again"),
            NextCommand(f"tony kill {job}", "end the job"),
        ]
    elif report.stragglers:
        found += [NextCommand(f"tony top {job}", "the use of each task")]
    elif report.warnings and not found:
        found += [NextCommand(f"tony logs {job}", "the whole output"), build_resubmission_command(report)]
    return found


def _list_for_failure(report: JobReport, cause: RootCause, *, has_log: bool) -> list[NextCommand]:
    is_hang = report.failure is not None and report.failure.cause is FailureCause.HANG
    found = [NextCommand(f"tony stacks {report.job}", "where each task waited")] if is_hang else []
    found += [_build_logs(report, cause)] if cause.root_task and has_log else []
    has_events = report.attempt > 0  # the first AM attempt begins the log
    if has_events and report.failure and report.failure.failure_class is not FailureClass.USER:
        found += [NextCommand(f"tony events {report.job}", "what happened, in order")]
    return found


def _build_logs(report: JobReport, cause: RootCause) -> NextCommand:
    session = f" --session {cause.session}" if report.session > 1 else ""
    return NextCommand(f"tony logs {report.job} {cause.root_task}{session}", "its whole output")


def build_rerun_command(report: JobReport, cause: RootCause) -> NextCommand | None:
    """Return the command that runs a failed job again: as it was, once corrected, or with a change that may help.

    None if that would repeat the failure: of a command that cannot be started, and that no job file has.
    """
    rerun = f"tony rerun {report.job}"
    changes = _list_changes(cause.patch)
    if changes:
        return NextCommand(" ".join((rerun, *changes)), "run it again with this change")
    failure = report.failure
    if failure and failure.cause in RUN_TIME_LIMITS and isinstance(failure.facts, TimeoutFacts):
        change = f"{RUN_TIME_LIMITS[failure.cause]}={format_exact_duration(2 * failure.facts.limit)}"
        return NextCommand(f"{rerun} --set {change}", "run it again with twice the time")
    if cause.exit in CRASH_SIGNALS and not cause.evidence:
        return NextCommand(f"{rerun} --env PYTHONFAULTHANDLER=1", "run it again, to see the line of Python")
    if cause.retry and cause.class_ in _PASSING_KINDS:
        return NextCommand(rerun, "run it again as it was (it may pass)")
    if cause.class_ is FailureKind.LAUNCH and not report.job_file:
        return None
    return build_resubmission_command(report)


def build_resubmission_command(report: JobReport) -> NextCommand:
    """Return the command for a job whose program or job file was corrected."""
    if report.job_file:
        return NextCommand(f"tony submit {shlex.quote(report.job_file)}", "submit it again, once corrected")
    return NextCommand(f"tony rerun {report.job} --restage", "run it again, once the program is corrected")


def _list_changes(patch: Sequence[str]) -> list[str]:
    """Return the lines of a job file as options `--set`; none if they are no settings: the report may be foreign."""
    try:
        settings = list(_list_leaves(tomllib.loads("\n".join(patch))))
    except (tomllib.TOMLDecodeError, RecursionError):
        return []
    if any(name == "source" for name, _ in settings):  # a path of the job file's folder
        return []
    return [f"--set {shlex.quote(f'{name}={value}')}" for name, value in settings]


def _list_leaves(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from _list_leaves(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def format_next_commands(commands: list[NextCommand]) -> list[str]:
    """Return the commands below a heading, one to a line; nothing if there are none."""
    width = max((len(each.command) for each in commands), default=0)
    return ["", "Next:", *(f"  {each.command:{width}}  # {each.purpose}" for each in commands)] if commands else []

"""A job's end in words: the earliest decisive failure first, then the others, then what to type next."""

from __future__ import annotations

from pathlib import Path

from tony.errors import ExitCode, InfraError, KilledError, PlatformError, ProgramError, TonyError, UserError
from tony.jobs.failure_hints import find_hints
from tony.jobs.log_names import ERR, STREAMS
from tony.model.job_report import Failure, FailureClass, JobReport
from tony.model.states import JobState
from tony.units import format_duration

#: The verdict on a job that was never to restart: nobody needs to be told.
_NO_BUDGET = "max_restarts = 0"

_ERRORS: dict[FailureClass, type[TonyError]] = {
    FailureClass.USER: ProgramError,
    FailureClass.INFRASTRUCTURE: InfraError,
    FailureClass.KILLED: KilledError,
    FailureClass.PLATFORM: PlatformError,
}


def outcome(report: JobReport) -> str:
    """One line: which job, how it ended, how long it took."""
    took = ""
    if report.submitted is not None and report.ended is not None:
        took = f" after {format_duration(max(0.0, report.ended - report.submitted))}"
    sessions = f" in session {report.session}" if report.session > 1 else ""
    return f"job {report.job} ({report.name}) {report.state.value}{took}{sessions}"


def page(report: JobReport, here: str = "") -> list[str]:
    """What somebody reads whose job failed; nothing for a job that did not.

    Names and a program's last lines stand in it as they are: whoever prints it must make them harmless.

    Args:
        here: the command that shows it, which need not be typed next.
    """
    failure = report.failure
    if failure is None or report.state is JobState.SUCCEEDED:
        return []
    if failure.failure_class is FailureClass.KILLED:
        return [f"{outcome(report)}: {failure.reason}"]
    return [
        f"{outcome(report)}: {_headline(failure)}",
        *_verdict(failure),
        *_evidence(report, failure),
        *_others(failure),
        "",
        "next:",
        *(f"  {line}" for line in _next(report, failure, here)),
    ]


def error_of(report: JobReport) -> TonyError | None:
    """The error that a failed job is, with the page as its text; None for one that did not fail."""
    if report.failure is None or report.state is JobState.SUCCEEDED:
        return None
    refused = report.exit_code == ExitCode.REFUSED  # by the application master, for a site's rules
    kind = UserError if refused else _ERRORS[report.failure.failure_class]
    return kind("\n".join(page(report)))


def _headline(failure: Failure) -> str:
    """The reason; of a program that ended with an exit code the short form of it."""
    if failure.reason == f"{failure.task} failed with exit code {failure.exit_code} on {failure.host}":
        return f"{failure.task} on {failure.host}: exit code {failure.exit_code}"
    return failure.reason


def _verdict(failure: Failure) -> list[str]:
    known = not failure.verdict or failure.verdict == _NO_BUDGET
    return [] if known else [f"  not started again: {failure.verdict}"]


def _evidence(report: JobReport, failure: Failure) -> list[str]:
    lines: list[str] = []
    if failure.tail:
        lines += ["  its last lines:", *(f"    {line}" for line in failure.tail)]
        lines += [f"  hint: {hint}" for hint in find_hints(failure.tail)]
    files = _output(report, failure)
    if files:
        lines.append(f"  all of it: {' and '.join(map(str, files))}")
    return lines


def _output(report: JobReport, failure: Failure) -> list[Path]:
    """The files that hold what the program printed, as far as it printed anything."""
    if not failure.log:
        return []
    path = Path(report.folder) / failure.log
    streams = [path.with_suffix(f".{stream}") for stream in STREAMS] if path.suffix == f".{ERR}" else [path]
    return [file for file in streams if _is_written(file)]


def _is_written(file: Path) -> bool:
    try:
        return file.stat().st_size > 0
    except OSError:
        return False


def _others(failure: Failure) -> list[str]:
    return ["", "after it:", *(f"  {line}" for line in failure.others)] if failure.others else []


def _next(report: JobReport, failure: Failure, here: str) -> list[str]:
    commands = []
    if failure.task and _output(report, failure):
        session = f" --session {failure.session}" if report.session > 1 else ""
        commands.append(f"tony logs {report.job} {failure.task}{session}")
    if here != "status":
        commands.append(f"tony status {report.job}")
    if failure.failure_class is not FailureClass.USER or not commands:
        commands.append(f"tony events {report.job}")
    return commands

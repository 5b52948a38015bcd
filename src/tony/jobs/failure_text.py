"""The final report of a failed job as text: root cause first, then later failures, then suggested commands."""

from __future__ import annotations

from pathlib import Path

from tony.errors import ExitCode, InfraError, KilledError, PlatformError, ProgramError, TonyError, UserError
from tony.jobs.next_commands import format_next_commands, list_next_commands
from tony.jobs.remote.log_mirror import describe_missing_bytes
from tony.jobs.root_cause import RootCause, build_root_cause
from tony.model.failure import Failure, FailureClass
from tony.model.ids import TaskId, format_task_ranges
from tony.model.job_report import JobReport, TaskReport
from tony.model.log_name import ERR, STREAMS, LogName
from tony.model.states import JobState, TaskState
from tony.units import format_duration

#: Ranges of tasks (`worker:0-6`) listed for each fate.
_SHOWN_RANGES = 3
_ERRORS: dict[FailureClass, type[TonyError]] = {
    FailureClass.USER: ProgramError,
    FailureClass.INFRASTRUCTURE: InfraError,
    FailureClass.KILLED: KilledError,
    FailureClass.PLATFORM: PlatformError,
}


def format_outcome(report: JobReport) -> str:
    """Return one line: the job, how it ended and how long it took."""
    took = "" if report.took is None else f" after {format_duration(report.took)}"
    sessions = f" in session {report.session}" if report.session > 1 else ""
    return f"job {report.job} ({report.name}) {report.state.value}{took}{sessions}"


def format_note(report: JobReport, task: TaskReport) -> str:
    """Return the note of a task, without what the task's exit status or the report's failure says at length."""
    if task.note_repeats_exit:
        return ""
    failure = report.failure
    if failure is None or failure.task is None or str(failure.task) == task.task:
        return task.note
    return task.note.replace(failure.reason, f"{failure.task} failed")


def format_report(report: JobReport, portal: str | None = None) -> list[str]:
    """Return the report of a failed job; nothing for a job that did not fail.

    Names and output lines are not escaped: the caller must remove control characters.

    Args:
        portal: address of the portal that the report comes from.
    """
    failure, root_cause = report.failure, build_root_cause(report)
    if failure is None or root_cause is None:
        return []
    if failure.failure_class is FailureClass.KILLED:
        commands = format_next_commands(list_next_commands(report, root_cause, portal=portal))
        return [f"{format_outcome(report)}: {failure.reason}", *commands]
    has_log = bool(_find_log_files(report, failure))
    return [
        f"{format_outcome(report)}: {failure.reason}",
        *format_decision(root_cause),
        *_format_proof(report, failure, root_cause),
        *_format_other_tasks(report, failure),
        *_format_other_failures(failure),
        *format_next_commands(list_next_commands(report, root_cause, has_log=has_log, portal=portal)),
    ]


def format_warnings(report: JobReport) -> list[str]:
    """Return what is suspicious about a job that has not failed, one line each."""
    return [f"Warning: {text}" for text in report.warnings]


def format_ending(report: JobReport) -> list[str]:
    """Return what there is to say about an ended job: its warnings or why it failed, and the next commands."""
    warnings = format_warnings(report)
    return [*warnings, *(format_report(report) or format_next_commands(list_next_commands(report, None)))]


def build_error(report: JobReport) -> TonyError | None:
    """Return a failed job as an error with the report as its text; None for a job that did not fail."""
    if report.failure is None or report.state is JobState.SUCCEEDED:
        return None
    refused = report.exit_code == ExitCode.REFUSED  # by the AM, because of a site policy
    kind = UserError if refused else _ERRORS[report.failure.failure_class]
    return kind("\n".join(format_report(report)))


def _format_proof(report: JobReport, failure: Failure, root_cause: RootCause) -> list[str]:
    lines = format_evidence(root_cause)
    if not lines and failure.tail:
        lines = ["  Last lines of output:", *(f"    {line}" for line in failure.tail)]
    lines += format_advice(root_cause)
    files = _find_log_files(report, failure)
    if files:
        lines.append(f"  Full log: {' and '.join(map(str, files))}")
        names = filter(None, (LogName.parse(file.name) for file in files))
        if missing := describe_missing_bytes(files[0].parent, names):
            lines.append(f"  Missing: {missing}")
    return lines


def format_decision(root_cause: RootCause) -> list[str]:
    """Return why nothing was restarted; nothing where no restart was considered."""
    return [f"  Not restarted: {root_cause.decision}"] if root_cause.decision else []


def format_advice(root_cause: RootCause) -> list[str]:
    """Return what to do, and the lines of the job file that may help; nothing if there is no advice."""
    lines = [f"  What to do: {root_cause.advice}"] if root_cause.advice else []
    return lines + (["  In the job file:", *(f"    {line}" for line in root_cause.patch)] if root_cause.patch else [])


def format_evidence(root_cause: RootCause) -> list[str]:
    """Return the lines that prove a root cause, each with its place, below a heading; nothing if there are none."""
    lines: list[str] = []
    for line in root_cause.evidence:
        lines.append(f"    {line.place}: {line.text}")
        if line.code_place:
            lines.append(f"      at {line.code_place}")
    return ["  Cause:", *lines] if lines else []


def _format_other_tasks(report: JobReport, failure: Failure) -> list[str]:
    fate = describe_other_tasks(report, failure)
    return [f"  {'Other tasks' if failure.task else 'Tasks'}: {fate}"] if fate else []


def describe_other_tasks(report: JobReport, failure: Failure) -> str:
    """Return the fate of the tasks that did not fail, on one line; empty if all did."""
    fates: dict[str, list[TaskId]] = {}
    for task in report.tasks:
        if task.id != failure.task and task.state is not TaskState.FAILED:
            fates.setdefault(_describe_fate(task), []).append(task.id)
    return "; ".join(f"{format_task_ranges(tasks, _SHOWN_RANGES)} {fate}" for fate, tasks in fates.items())


def _describe_fate(task: TaskReport) -> str:
    if task.state is TaskState.STOPPED:
        return "stopped" if task.session else "never started"
    return str(task.state.value)


def _find_log_files(report: JobReport, failure: Failure) -> list[Path]:
    """Return the non-empty log files of the failed program."""
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


def _format_other_failures(failure: Failure) -> list[str]:
    return ["", "Also failed:", *(f"  {line}" for line in failure.others)] if failure.others else []

"""The outcome of a job whose AM failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tony.errors import (
    AttemptLostError,
    ConfigError,
    ExitCode,
    InfraError,
    SchedulerLostError,
    StorageError,
    TimeLimitExceededError,
    TonyError,
    UserError,
)
from tony.linux import os_errors
from tony.model.failure import Failure, FailureCause, FailureClass
from tony.model.job_report import JobReport, TaskReport
from tony.model.states import ENDED_TASK_STATES, LIVING_TASK_STATES, JobState, TaskState

_CAUSES: Mapping[type[InfraError], FailureCause] = {
    AttemptLostError: FailureCause.AM_LOST,
    SchedulerLostError: FailureCause.SCHEDULER_LOST,
    StorageError: FailureCause.STORAGE,
}


def report_fatal_error(report: JobReport, error: Exception, wall: float) -> JobReport:
    """Return the job's last report: failed because of `error`, with no task running.

    Args:
        report: the report before.
        wall: seconds since 1970.
    """
    failure_class, cause, exit_code = _classify(error)
    reasons = (
        [str(problem) for problem in error.problems] if isinstance(error, ConfigError) else [_format_reason(error)]
    )
    # A scheduler that enforces its time limit also sends a signal: that is not a second cause.
    by_signal = (
        isinstance(error, TimeLimitExceededError)
        and report.failure
        and report.failure.failure_class is FailureClass.KILLED
    )
    if report.failure and not by_signal:
        reasons += [report.failure.reason, *report.failure.others]
    failure = Failure(
        failure_class=failure_class,
        cause=cause,
        reason=reasons[0],
        session=report.session,
        at=max(0.0, wall - (report.submitted or wall)),
        log="am.log",
        others=tuple(reasons[1:]),
    )
    return replace(
        report,
        state=JobState.FAILED,
        exit_code=int(exit_code),
        failure=failure,
        am=None,
        ended=wall,
        waiting="",
        tasks=tuple(_mark_ended(task, wall) for task in report.tasks),
    )


def _classify(error: Exception) -> tuple[FailureClass, FailureCause, ExitCode]:
    if isinstance(error, TimeLimitExceededError):
        return FailureClass.USER, FailureCause.LIFETIME, error.exit_code
    if isinstance(error, UserError):
        return FailureClass.USER, FailureCause.REFUSED, error.exit_code
    if isinstance(error, InfraError):
        cause = next((word for kind, word in _CAUSES.items() if isinstance(error, kind)), FailureCause.REFUSED)
        return FailureClass.INFRASTRUCTURE, cause, error.exit_code
    if os_errors.explain(error):
        return FailureClass.INFRASTRUCTURE, FailureCause.LIMIT, ExitCode.INFRASTRUCTURE
    return FailureClass.PLATFORM, FailureCause.BUG, ExitCode.BUG


def _format_reason(error: Exception) -> str:
    if isinstance(error, TonyError):
        return os_errors.describe_os_error(error)
    if os_errors.explain(error):
        return f"the application master cannot continue: {os_errors.describe_os_error(error)}"
    return f"a bug in the application master: {type(error).__name__}: {error}"


def _mark_ended(task: TaskReport, wall: float) -> TaskReport:
    if task.state in ENDED_TASK_STATES:
        return replace(task, executor_pid=None)
    return replace(
        task,
        state=TaskState.STOPPED,
        pid=None,
        executor_pid=None,
        since=wall,
        last_output_age=None,
        note="stopped when the job was aborted" if task.state in LIVING_TASK_STATES else "never started",
    )

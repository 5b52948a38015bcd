"""The outcome of a job whose AM failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tony.diagnosis.bug_line import build_bug_line, format_bug
from tony.diagnosis.failure_diagnosis import diagnose
from tony.errors import (
    AttemptLostError,
    ConfigError,
    InfraError,
    SchedulerLostError,
    StorageError,
    TimeLimitExceededError,
    TonyError,
    UserError,
)
from tony.linux import os_errors
from tony.model.failure import Failure, FailureCause, FailureClass
from tony.model.job_report import JobReport, end_report
from tony.model.states import LIVING_TASK_STATES

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
    failure_class, cause = _classify(error)
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
    if cause is FailureCause.BUG:
        failure = replace(failure, diagnosis=replace(diagnose(cause, None), evidence=(build_bug_line(error),)))
    last = end_report(
        report, failure, at=wall, note="stopped when the job was aborted", started_states=LIVING_TASK_STATES
    )
    return replace(last, exit_code=int(error.exit_code)) if isinstance(error, UserError) else last


def _classify(error: Exception) -> tuple[FailureClass, FailureCause]:
    if isinstance(error, TimeLimitExceededError):
        return FailureClass.USER, FailureCause.LIFETIME
    if isinstance(error, UserError):
        return FailureClass.USER, FailureCause.REFUSED
    if isinstance(error, InfraError):
        cause = next((word for kind, word in _CAUSES.items() if isinstance(error, kind)), FailureCause.REFUSED)
        return FailureClass.INFRASTRUCTURE, cause
    if os_errors.explain(error):
        return FailureClass.INFRASTRUCTURE, FailureCause.LIMIT
    return FailureClass.PLATFORM, FailureCause.BUG


def _format_reason(error: Exception) -> str:
    if isinstance(error, TonyError):
        return os_errors.describe_os_error(error)
    if os_errors.explain(error):
        return f"the application master cannot continue: {os_errors.describe_os_error(error)}"
    return f"a bug in the application master: {format_bug(error)}"

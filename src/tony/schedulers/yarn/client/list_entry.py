"""An application of the cluster as a job in a list."""

from __future__ import annotations

from collections.abc import Mapping

from tony.errors import ExitCode
from tony.hadoop import ids
from tony.hadoop.remote_text import escape_text
from tony.hadoop.wire.reports import ApplicationReport, ApplicationState
from tony.hadoop.wire.yarn_records import FinalStatus
from tony.model.states import JobState
from tony.schedulers.client_interface import ListEntry
from tony.schedulers.yarn.settings import YarnSettings
from tony.units import format_duration

#: Text in the ResourceManager's diagnostics of an application that it killed for this.
_LIFETIME_TEXT = "exceeded the lifetime"
#: The key in a job file.
KEY = "scheduler.yarn.lifetime"


def is_finished(report: ApplicationReport) -> bool:
    """Return True if YARN killed the application because it exceeded its lifetime."""
    return report.state is ApplicationState.KILLED and _LIFETIME_TEXT in (report.diagnostics or "")


def explain_exceeded_limit(report: ApplicationReport, settings: YarnSettings, source: str | None) -> str:
    """Return which limit was exceeded, as a sentence; empty if YARN did not kill the application for one.

    Args:
        settings: the job's.
        source: where the job sets `lifetime`, if known.
    """
    if not is_finished(report):
        return ""
    submitted, ended = report.submit_time or report.start_time, report.finish_time
    seconds = (ended - submitted) / 1000 if submitted and ended else None
    if settings.lifetime is not None and (seconds is None or seconds >= int(settings.lifetime)):
        limit = f"{KEY}{f', {source}' if source else ''}"
        return (
            f"YARN killed the job: it exceeded its lifetime of {format_duration(settings.lifetime)} ({limit}), "
            "queue time included"
        )
    after = f" after {format_duration(seconds)}" if seconds else ""
    return (
        f"YARN killed the job{after}: it exceeded the application lifetime of its queue. "
        "Ask the cluster's administrator about "
        "yarn.scheduler.capacity.<queue>.maximum-application-lifetime and default-application-lifetime"
    )


_STATES: Mapping[ApplicationState, JobState] = {
    ApplicationState.NEW: JobState.SUBMITTED,
    ApplicationState.NEW_SAVING: JobState.SUBMITTED,
    ApplicationState.SUBMITTED: JobState.SUBMITTED,
    ApplicationState.ACCEPTED: JobState.QUEUED,
    ApplicationState.RUNNING: JobState.RUNNING,
    ApplicationState.FAILED: JobState.FAILED,
    ApplicationState.KILLED: JobState.KILLED,
}
#: State of a FINISHED application, from the outcome that its AM reported.
_ENDS: Mapping[FinalStatus, JobState] = {
    FinalStatus.SUCCEEDED: JobState.SUCCEEDED,
    FinalStatus.KILLED: JobState.KILLED,
}
_EXITS: Mapping[JobState, ExitCode] = {
    JobState.SUCCEEDED: ExitCode.SUCCEEDED,
    JobState.FAILED: ExitCode.PROGRAM_FAILED,
    JobState.KILLED: ExitCode.KILLED,
}


def to_list_entry(report: ApplicationReport) -> ListEntry | None:
    """Convert an application report; None if it has no id.

    If the AM failed, rather than the job in it, the exit code is that of infrastructure.
    """
    if report.id is None:
        return None
    state = _find_state(report)
    exit_code = _EXITS.get(state)
    if report.state is ApplicationState.FAILED:
        exit_code = ExitCode.INFRASTRUCTURE
    diagnostics = "" if report.diagnostics == "N/A" else escape_text(report.diagnostics).strip()
    return ListEntry(
        job=ids.format_application(report.id),
        name=report.name or "",
        state=state,
        user=report.user or "",
        submitted=(report.submit_time or report.start_time or 0) / 1000,
        ended=report.finish_time / 1000 if state.ended and report.finish_time else None,
        exit_code=None if exit_code is None else int(exit_code),
        reason=diagnostics if state in (JobState.FAILED, JobState.KILLED) else "",
    )


def _find_state(report: ApplicationReport) -> JobState:
    if report.state is ApplicationState.FINISHED:
        return _ENDS.get(report.final_status or FinalStatus.UNDEFINED, JobState.FAILED)
    if is_finished(report):
        return JobState.FAILED
    return _STATES.get(report.state, JobState.SUBMITTED) if report.state else JobState.SUBMITTED

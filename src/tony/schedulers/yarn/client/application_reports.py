"""The ResourceManager's report of an application: as its status, as an entry of a list, and its exceeded lifetime."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tony.errors import ExitCode
from tony.hadoop import ids
from tony.hadoop.remote_text import escape_text
from tony.hadoop.wire.application_client import ApplicationReport, ApplicationState
from tony.hadoop.wire.yarn_records import FinalStatus
from tony.hadoop.yarn.application_client import ENDED
from tony.model.states import JobState
from tony.schedulers.client_interface import ApplicationStatus, ListEntry
from tony.schedulers.yarn.settings import YarnSettings
from tony.units import format_duration

#: Text in the ResourceManager's diagnostics of an application that it killed for this.
_LIFETIME_TEXT = "exceeded the lifetime"
#: The key in a job file.
LIFETIME = "scheduler.yarn.lifetime"
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
_RESULTS = {
    FinalStatus.SUCCEEDED: JobState.SUCCEEDED,
    FinalStatus.FAILED: JobState.FAILED,
    FinalStatus.KILLED: JobState.KILLED,
}


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
        limit = f"{LIFETIME}{f', {source}' if source else ''}"
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


def find_tracking_url(report: ApplicationReport) -> str:
    """Return the tracking URL of an application; empty if it has none."""
    address = report.tracking_url or ""
    if "://" not in address and ":" in address:
        address = f"http://{address}"
    return address if address.startswith(("http://", "https://")) else ""


def to_application_status(report: ApplicationReport) -> ApplicationStatus:
    """Convert an application report."""
    alive = report.state is None or report.state not in ENDED
    listens = alive and report.host not in (None, "", "N/A") and (report.rpc_port or -1) > 0
    attempt = report.current_attempt.number if report.current_attempt else None
    return ApplicationStatus(
        alive=alive,
        address=f"tls:{report.host}:{report.rpc_port}" if listens else "",
        host=report.host or "" if listens else "",
        attempt=attempt or 0,
        note=_find_pending_reason(report.diagnostics) if alive else _format_diagnostics(report.diagnostics),
        result=_find_result(report),
        given_up=report.state is ApplicationState.FAILED,
    )


def _format_diagnostics(diagnostics: str) -> str:
    return "" if diagnostics in ("", "N/A") else escape_text(diagnostics).strip()


def _find_pending_reason(diagnostics: str) -> str:
    """Return why an application is pending, without timestamp and queue usage, which change all the time."""
    text = _format_diagnostics(diagnostics).partition(" Details :")[0]
    return re.sub(r"^\[[^\]]*\] ", "", text).strip()


def _find_result(report: ApplicationReport) -> JobState | None:
    if report.state is ApplicationState.KILLED:
        return JobState.KILLED
    final_status = report.final_status if report.state is ApplicationState.FINISHED and report.final_status else None
    return _RESULTS.get(final_status) if final_status else None

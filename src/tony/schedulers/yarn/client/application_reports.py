"""The ResourceManager's reports of applications: as status, list entry and text. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tony.control_characters import escape_text
from tony.errors import ExitCode
from tony.hadoop import ids
from tony.hadoop.wire.application_client import ApplicationReport, ApplicationState
from tony.hadoop.wire.yarn_records import ApplicationId, FinalStatus
from tony.hadoop.yarn.application_client import ENDED
from tony.model.states import JobState
from tony.rpc.am_address import TlsAddress
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
_EXITS: Mapping[JobState, ExitCode] = {
    JobState.SUCCEEDED: ExitCode.SUCCEEDED,
    JobState.FAILED: ExitCode.PROGRAM_FAILED,
    JobState.KILLED: ExitCode.KILLED,
}
#: Outcome that the AM reported.
_RESULTS: Mapping[FinalStatus, JobState] = {
    FinalStatus.SUCCEEDED: JobState.SUCCEEDED,
    FinalStatus.FAILED: JobState.FAILED,
    FinalStatus.KILLED: JobState.KILLED,
}
#: States of applications whose AM is not running yet.
WAITING = (
    ApplicationState.NEW,
    ApplicationState.NEW_SAVING,
    ApplicationState.SUBMITTED,
    ApplicationState.ACCEPTED,
)


def _has_exceeded_lifetime(report: ApplicationReport) -> bool:
    """Return True if YARN killed the application for that."""
    return report.state is ApplicationState.KILLED and _LIFETIME_TEXT in (report.diagnostics or "")


def explain_exceeded_limit(report: ApplicationReport, settings: YarnSettings, source: str | None) -> str:
    """Return which limit was exceeded, as a sentence; empty if YARN did not kill the application for one.

    Args:
        settings: the job's.
        source: where the job sets `lifetime`, if known.
    """
    if not _has_exceeded_lifetime(report):
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
    diagnostics = format_diagnostics(report)
    return ListEntry(
        job=ids.format_application(report.id),
        name=report.name or "",
        state=state,
        user=report.user or "",
        submitted=(report.submit_time or report.start_time or 0) / 1000,
        ended=_find_end_time(report) if state.ended else None,
        exit_code=None if exit_code is None else int(exit_code),
        reason=diagnostics if state in (JobState.FAILED, JobState.KILLED) else "",
    )


def _find_state(report: ApplicationReport) -> JobState:
    if report.state is ApplicationState.FINISHED:
        return _RESULTS.get(report.final_status or FinalStatus.UNDEFINED, JobState.FAILED)
    if _has_exceeded_lifetime(report):
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
    host, port = report.host or "", report.rpc_port or -1
    listens = alive and host not in ("", "N/A") and port > 0
    attempt = report.current_attempt.number if report.current_attempt else None
    return ApplicationStatus(
        alive=alive,
        address=str(TlsAddress(host=host, port=port)) if listens else "",
        host=host if listens else "",
        attempt=attempt or 0,
        note=_find_pending_reason(report) if alive else format_diagnostics(report),
        result=_find_result(report),
        given_up=report.state is ApplicationState.FAILED,
        ended=None if alive else _find_end_time(report),
    )


def _find_end_time(report: ApplicationReport) -> float | None:
    return report.finish_time / 1000 if report.finish_time else None


def format_diagnostics(report: ApplicationReport) -> str:
    """Return YARN's diagnostics, safe for a terminal; empty if there are none."""
    return "" if report.diagnostics in ("", "N/A") else escape_text(report.diagnostics).strip()


def _find_pending_reason(report: ApplicationReport) -> str:
    """Return why an application is pending, without timestamp and queue usage, which change all the time."""
    text = format_diagnostics(report).partition(" Details :")[0]
    return re.sub(r"^\[[^\]]*\] ", "", text).strip()


def _find_result(report: ApplicationReport) -> JobState | None:
    if report.state is ApplicationState.KILLED:
        return JobState.KILLED
    if report.state is ApplicationState.FINISHED and report.final_status:
        return _RESULTS.get(report.final_status)
    return None


def explain_missing_history(report: ApplicationReport, user: str, record: str) -> str:
    """Return why the ResourceManager's report is all that is known of a job, and what to do.

    Args:
        user: the current user.
        record: where the history was looked for.
    """
    job = ids.format_application(report.id) if report.id else "the application"
    name = escape_text(report.name or "")
    if report.user and report.user != user:
        return f"{job} ({name}) belongs to {report.user}, and only they can read its history; you are {user}."
    state = report.state.name if report.state else "in an unknown state"
    diagnostics = format_diagnostics(report)
    kind = escape_text(report.application_type or "")
    begin = f"{job} ({name}, type {kind}) is {state}{diagnostics and f': {diagnostics}'}\n"
    if report.state in ENDED:
        return f"{begin}It has no history in {record}: it ended before writing one, or is not a job of tony."
    if report.state is ApplicationState.RUNNING:
        return f"{begin}It has no history in {record} yet; try again in a moment. It may not be a job of tony."
    return f"{begin}It has no history in {record} until its application master has started."


def describe_queue_position(own: ApplicationReport, waiting: Iterable[ApplicationReport]) -> str:
    """Return `position 2 of 3 pending applications in queue default`. By age; a scheduler may use another order.

    Args:
        waiting: all pending applications, of all queues.
    """
    queue = own.queue or "default"
    ages = [_age(report.id) for report in waiting if report.queue == own.queue and report.id]
    before = sum(age < _age(own.id) for age in ages)
    together = len({*ages, _age(own.id)})
    return f"position {before + 1} of {together} pending applications in queue {queue}"


def _age(application: ApplicationId | None) -> tuple[int, int]:
    """Return a sort key: ids are allocated in the order of submissions."""
    return (application.cluster_timestamp or 0, application.number or 0) if application else (0, 0)

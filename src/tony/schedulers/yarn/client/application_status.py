"""Converts the ResourceManager's report of an application to its status."""

from __future__ import annotations

import re

from tony.hadoop.remote_text import escape_text
from tony.hadoop.wire.reports import ApplicationReport, ApplicationState
from tony.hadoop.wire.yarn_records import FinalStatus
from tony.hadoop.yarn.application_client import ENDED
from tony.model.states import JobState
from tony.schedulers.client_interface import ApplicationStatus


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


_RESULTS = {
    FinalStatus.SUCCEEDED: JobState.SUCCEEDED,
    FinalStatus.FAILED: JobState.FAILED,
    FinalStatus.KILLED: JobState.KILLED,
}

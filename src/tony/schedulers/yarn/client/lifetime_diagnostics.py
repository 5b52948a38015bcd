"""YARN's application lifetime limit: whether it has been exceeded, and which setting it is. Pure."""

from __future__ import annotations

from tony.hadoop.wire.reports import ApplicationReport, ApplicationState
from tony.schedulers.yarn.settings import YarnSettings
from tony.units import format_duration

#: Text in the ResourceManager's diagnostics of an application that it killed for this.
_SAID = "exceeded the lifetime"
#: The key in a job file.
KEY = "scheduler.yarn.lifetime"


def is_over(report: ApplicationReport) -> bool:
    """Return True if YARN killed the application because it exceeded its lifetime."""
    return report.state is ApplicationState.KILLED and _SAID in (report.diagnostics or "")


def overdue(report: ApplicationReport, settings: YarnSettings, source: str | None) -> str:
    """Return which limit was exceeded, as a sentence; empty if YARN did not kill the application for one.

    Args:
        settings: the job's.
        source: where the job sets `lifetime`, if known.
    """
    if not is_over(report):
        return ""
    began, ended = report.submit_time or report.start_time, report.finish_time
    took = (ended - began) / 1000 if began and ended else None
    if settings.lifetime is not None and (took is None or took >= int(settings.lifetime)):
        limit = f"{KEY}{f', {source}' if source else ''}"
        return (
            f"YARN killed the job: it exceeded its lifetime of {format_duration(settings.lifetime)} ({limit}), "
            "queue time included"
        )
    return (
        f"YARN killed the job{f' after {format_duration(took)}' if took else ''}: it exceeded the application lifetime "
        "of its queue. Ask the cluster's administrator about "
        "yarn.scheduler.capacity.<queue>.maximum-application-lifetime and default-application-lifetime"
    )

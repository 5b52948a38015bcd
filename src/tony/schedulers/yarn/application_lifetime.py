"""The most time that YARN gives an application: whether that was over, and whose limit it was. Pure."""

from __future__ import annotations

from tony.hadoop.wire.reports import ApplicationReport, ApplicationState
from tony.schedulers.yarn.settings import YarnSettings
from tony.units import format_duration

#: What a ResourceManager says of an application that it has ended for that.
_SAID = "exceeded the lifetime"
#: The key in a job file.
KEY = "scheduler.yarn.lifetime"


def is_over(report: ApplicationReport) -> bool:
    """Whether YARN has ended the application because its time was over."""
    return report.state is ApplicationState.KILLED and _SAID in (report.diagnostics or "")


def overdue(report: ApplicationReport, settings: YarnSettings, source: str | None) -> str:
    """Which limit it was, in a sentence; empty if YARN has not ended the application for one.

    Args:
        settings: the job's.
        source: where the job says `lifetime`, if it is known.
    """
    if not is_over(report):
        return ""
    began, ended = report.submit_time or report.start_time, report.finish_time
    took = (ended - began) / 1000 if began and ended else None
    if settings.lifetime is not None and (took is None or took >= int(settings.lifetime)):
        limit = f"{KEY}{f', {source}' if source else ''}"
        return (
            f"the job ran longer than {format_duration(settings.lifetime)} ({limit}), its wait included: YARN ended it"
        )
    return (
        f"the job ran longer than its queue allows: YARN ended it{f' after {format_duration(took)}' if took else ''}. "
        "Ask who runs the cluster about the lifetime of the queue's applications "
        "(yarn.scheduler.capacity.<queue>.maximum-application-lifetime, default-application-lifetime)"
    )

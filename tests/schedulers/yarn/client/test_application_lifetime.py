"""An application whose time had ended: whose limit it was."""

from __future__ import annotations

import pytest

from tony.hadoop.wire.application_client import ApplicationReport, ApplicationState
from tony.schedulers.yarn.client.application_reports import explain_exceeded_limit
from tony.schedulers.yarn.settings import YarnSettings

SAID = "Application is killed by ResourceManager as it has exceeded the lifetime period."


def ended(took: float | None, said: str = SAID, state: ApplicationState = ApplicationState.KILLED) -> ApplicationReport:
    """One that YARN has ended after so many seconds."""
    finish = None if took is None else int(1_000_000 + 1000 * took)
    return ApplicationReport(state=state, diagnostics=said, submit_time=1_000_000, finish_time=finish)


@pytest.mark.parametrize(
    ("report", "limit", "source", "told"),
    [
        (
            ended(4.5),
            3.0,
            "job.toml:6",
            "it exceeded its lifetime of 3 s (scheduler.yarn.lifetime, job.toml:6), queue time included",
        ),
        (ended(None), 3.0, None, "exceeded its lifetime of 3 s (scheduler.yarn.lifetime), queue time included"),
        (
            ended(60.0),
            3600.0,
            "--set",
            "YARN killed the job after 1 m 00 s: it exceeded the application lifetime of its queue",
        ),
        (ended(60.0), None, None, "maximum-application-lifetime"),
        (ended(None), None, None, "YARN killed the job: it exceeded the application lifetime of its queue. Ask"),
    ],
)
def test_the_origin_of_a_lifetime_limit(
    report: ApplicationReport, limit: float | None, source: str | None, told: str
) -> None:
    """The job's, with its place, or the queue's where the application has not run as long as the job allows."""
    assert told in explain_exceeded_limit(report, YarnSettings(lifetime=limit), source)


@pytest.mark.parametrize("report", [ended(9.0, "killed by user bob"), ended(9.0, state=ApplicationState.RUNNING)])
def test_ended_for_another_reason(report: ApplicationReport) -> None:
    assert explain_exceeded_limit(report, YarnSettings(lifetime=3.0), None) == ""

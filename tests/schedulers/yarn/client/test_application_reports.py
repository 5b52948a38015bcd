"""The cluster's applications as jobs, and where its own pages show a job."""

from __future__ import annotations

import pytest

from tony.hadoop import ids
from tony.hadoop.wire.application_client import ApplicationReport, ApplicationState
from tony.hadoop.wire.yarn_records import FinalStatus
from tony.model.states import JobState
from tony.schedulers.client_interface import ListEntry
from tony.schedulers.yarn.client.application_reports import find_tracking_url, to_list_entry

ID = ids.parse_application_id("application_1795000000000_0007")


def report(state: ApplicationState | None, final: FinalStatus | None = None, **more: object) -> ApplicationReport:
    given = {"name": "digits", "user": "ann", "submit_time": 1000, "start_time": 900, **more}
    return ApplicationReport(id=ID, state=state, final_status=final, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("state", "final", "expected", "exit_code"),
    [
        (ApplicationState.NEW_SAVING, FinalStatus.UNDEFINED, JobState.SUBMITTED, None),
        (ApplicationState.ACCEPTED, FinalStatus.UNDEFINED, JobState.QUEUED, None),
        (ApplicationState.RUNNING, FinalStatus.UNDEFINED, JobState.RUNNING, None),
        (ApplicationState.FINISHED, FinalStatus.SUCCEEDED, JobState.SUCCEEDED, 0),
        (ApplicationState.FINISHED, FinalStatus.FAILED, JobState.FAILED, 1),
        (ApplicationState.FINISHED, FinalStatus.KILLED, JobState.KILLED, 4),
        (ApplicationState.FINISHED, None, JobState.FAILED, 1),
        (ApplicationState.FAILED, FinalStatus.FAILED, JobState.FAILED, 3),
        (ApplicationState.KILLED, FinalStatus.KILLED, JobState.KILLED, 4),
        (None, None, JobState.SUBMITTED, None),
    ],
)
def test_states(
    state: ApplicationState | None, final: FinalStatus | None, expected: JobState, exit_code: int | None
) -> None:
    """Each has one of ours, and an end an exit code: that of infrastructure where the master itself failed."""
    job = to_list_entry(report(state, final))
    assert job is not None
    assert (job.state, job.exit_code) == (expected, exit_code)


def test_all_of_it() -> None:
    """Times are seconds; why it failed is told without odd characters, and an end only of what has ended."""
    done = to_list_entry(report(ApplicationState.FINISHED, FinalStatus.FAILED, finish_time=5500, diagnostics=" boom\n"))
    assert done == ListEntry(
        job="application_1795000000000_0007",
        name="digits",
        state=JobState.FAILED,
        user="ann",
        submitted=1.0,
        ended=5.5,
        exit_code=1,
        reason="boom",
    )
    living = to_list_entry(report(ApplicationState.RUNNING, finish_time=0, submit_time=None, diagnostics="waits"))
    assert living is not None
    assert (living.submitted, living.ended, living.reason) == (0.9, None, "")


def test_its_time_was_over() -> None:
    """YARN's state is killed, but no user has killed it."""
    said = "Application is killed by ResourceManager as it has exceeded the lifetime period."
    job = to_list_entry(report(ApplicationState.KILLED, FinalStatus.KILLED, diagnostics=said))
    assert job is not None
    assert (job.state, job.exit_code, job.reason) == (JobState.FAILED, 1, said)


def test_without_an_id() -> None:
    """It could not be used in any command."""
    assert to_list_entry(ApplicationReport(name="x")) is None


@pytest.mark.parametrize(
    ("tracking", "page"),
    [
        ("http://rm:8088/proxy/application_1_0001/", "http://rm:8088/proxy/application_1_0001/"),
        ("rm:8088/proxy/application_1_0001/", "http://rm:8088/proxy/application_1_0001/"),
        ("https://rm:8090/cluster/app/application_1_0001", "https://rm:8090/cluster/app/application_1_0001"),
        ("N/A", ""),
        ("ftp://rm/", ""),
        ("", ""),
        (None, ""),
    ],
)
def test_the_tracking_address(tracking: str | None, page: str) -> None:
    """As the ResourceManager tells it, with a scheme, or nothing."""
    assert find_tracking_url(ApplicationReport(tracking_url=tracking)) == page

"""Reports of applications: as jobs, as texts, and what is known of one without a history."""

from __future__ import annotations

import re

import pytest

from tests.facts import mentions
from tony.hadoop import ids
from tony.hadoop.wire.application_client import ApplicationReport, ApplicationState
from tony.hadoop.wire.yarn_records import ApplicationId, FinalStatus
from tony.model.states import JobState
from tony.schedulers.client_interface import ListEntry
from tony.schedulers.yarn.client.application_reports import (
    describe_queue_position,
    explain_exceeded_limit,
    explain_missing_history,
    find_tracking_url,
    to_application_status,
    to_list_entry,
)
from tony.schedulers.yarn.settings import YarnSettings

JOB = "application_1795000000000_0007"
ID = ids.parse_application_id(JOB)


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


def pending(number: int, queue: str = "default", cluster: int = 7) -> ApplicationReport:
    return ApplicationReport(id=ApplicationId(number=number, cluster_timestamp=cluster), queue=queue)


def test_the_older_ones_of_its_queue_are_before_it() -> None:
    """Others do not count; those of an earlier life of the ResourceManager are older."""
    waiting = [pending(9), pending(3), pending(2, "other"), pending(4), pending(100, cluster=6)]
    assert mentions(describe_queue_position(pending(4), waiting), "3 of 4", "pending", "default")


def test_alone() -> None:
    """Also if it is not in the list any longer."""
    assert mentions(describe_queue_position(pending(4), []), "1 of 1", "pending", "default")


def foreign(state: ApplicationState | None, **more: object) -> ApplicationReport:
    given = {
        "id": ID,
        "name": "digits\x1b",
        "user": "ann",
        "application_type": "TONY",
        **more,
    }
    return ApplicationReport(state=state, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (
            foreign(ApplicationState.ACCEPTED, diagnostics="Queue is full"),
            rf"{JOB} \(digits.*, type TONY\) is ACCEPTED: Queue is full\nIt has no history .* until its application",
        ),
        (foreign(ApplicationState.RUNNING), r"is RUNNING\nIt has no history in hdfs://nn/x yet; try again"),
        (
            foreign(ApplicationState.FAILED, diagnostics="no python3", application_type="SPARK"),
            r"type SPARK\) is FAILED: no python3\nIt has no history in hdfs://nn/x: it ended before",
        ),
        (
            foreign(ApplicationState.RUNNING, user="bob"),
            r"belongs to bob, and only they can read its history; you are ann\.",
        ),
        (foreign(None, name=None, application_type=None), r"\(, type \) is in an unknown state\n"),
    ],
)
def test_a_job_without_a_record(found: ApplicationReport, told: str) -> None:
    """How it stands, in YARN's words, and why nothing more is known."""
    text = explain_missing_history(found, "ann", "hdfs://nn/x")
    assert re.search(told, text), text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("host", "port", "address"),
    [
        ("node-1", 5000, "tls:node-1:5000"),
        ("fe80::1", 5000, "tls:[fe80::1]:5000"),
        ("N/A", -1, ""),
        (None, None, ""),
        ("node-1", 0, ""),
    ],
)
def test_the_address_of_the_am(host: str | None, port: int | None, address: str) -> None:
    status = to_application_status(report(ApplicationState.RUNNING, host=host, rpc_port=port))
    assert (status.address, status.host) == (address, host if address else "")

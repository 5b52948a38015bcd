"""The commands that a job's present state suggests."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.jobs.fake_am import FAILURE, JOB, failed, recorded, succeeded
from tony.jobs.next_commands import list_next_commands
from tony.jobs.root_cause import build_root_cause, describe_root_cause
from tony.model.diagnosis import Diagnosis, FailureKind, LineMeaning
from tony.model.failure import FailureCause, TimeoutFacts
from tony.model.job_report import JobReport
from tony.model.state_directory import Home
from tony.model.states import JobState


def commands(report: JobReport) -> list[str]:
    return [each.command for each in list_next_commands(report, build_root_cause(report))]


def with_failure(home: Home, kind: FailureKind, *, retry: bool, patch: tuple[str, ...] = ()) -> JobReport:
    found = Diagnosis(kind=kind, meaning=LineMeaning.CAUSE, retry=retry, patch=patch)
    return replace(failed(*recorded(home)), failure=replace(FAILURE, diagnosis=found))


@pytest.mark.parametrize(
    ("kind", "retry", "patch", "rerun"),
    [
        (FailureKind.USER_CODE, False, (), f"tony rerun {JOB} --restage"),
        (FailureKind.TIMEOUT, True, (), f"tony rerun {JOB} --restage"),
        (FailureKind.NODE, True, (), f"tony rerun {JOB}"),
        (
            FailureKind.MEMORY,
            True,
            ("[roles.worker]", 'memory = "3g"'),
            f"tony rerun {JOB} --set roles.worker.memory=3g",
        ),
        (FailureKind.USER_CODE, False, ('name = "my job"',), f"tony rerun {JOB} --set 'name=my job'"),
        (FailureKind.USER_CODE, False, ('source = "."',), f"tony rerun {JOB} --restage"),
        (FailureKind.MEMORY, True, ("not TOML",), f"tony rerun {JOB} --restage"),
        (FailureKind.MEMORY, True, ("a" + ".a" * 5000 + " = 1",), f"tony rerun {JOB} --restage"),
    ],
)
def test_a_failed_job_is_run_again_as_its_failure_requires(
    home: Home, kind: FailureKind, retry: bool, patch: tuple[str, ...], rerun: str
) -> None:
    """As it was, once corrected, or with the change that the advice names."""
    assert commands(with_failure(home, kind, retry=retry, patch=patch)) == [f"tony logs {JOB} worker:1", rerun]


def test_a_limit_that_passed_is_raised(home: Home) -> None:
    report = with_failure(home, FailureKind.TIMEOUT, retry=True)
    assert report.failure
    cause, facts = FailureCause.EXECUTION_TIMEOUT, TimeoutFacts(limit=5400.0)
    late = replace(report, failure=replace(report.failure, cause=cause, facts=facts))
    assert commands(late)[-1] == f"tony rerun {JOB} --set execution_timeout=3h"


def test_a_job_file_is_submitted_again(home: Home) -> None:
    """A rerun would take the settings as they were: one of them may be wrong."""
    report = replace(with_failure(home, FailureKind.USER_CODE, retry=False), job_file="my jobs/job.toml")
    assert commands(report)[-1] == "tony submit 'my jobs/job.toml'"


def test_a_crash_is_run_again_with_what_shows_its_line(home: Home) -> None:
    report = with_failure(home, FailureKind.USER_CODE, retry=False)
    assert report.failure
    crashed = replace(report, failure=replace(report.failure, exit_code=None, signal="SIGSEGV"))
    assert commands(crashed)[-1] == f"tony rerun {JOB} --env PYTHONFAULTHANDLER=1"


def test_a_job_that_a_user_stopped_can_be_run_again(home: Home) -> None:
    killed = replace(succeeded(*recorded(home)), state=JobState.KILLED, failure=FAILURE)
    assert commands(killed) == [f"tony rerun {JOB}"]


def test_a_hang_has_stack_traces(home: Home) -> None:
    report = with_failure(home, FailureKind.HANG, retry=True)
    assert report.failure
    hung = replace(report, failure=replace(report.failure, cause=FailureCause.HANG))
    assert commands(hung)[0] == f"tony stacks {JOB}"


def test_a_program_that_was_never_started_has_no_output(home: Home) -> None:
    report = with_failure(home, FailureKind.LAUNCH, retry=False)
    assert report.failure
    never = replace(report, failure=replace(report.failure, cause=FailureCause.LAUNCH))
    assert commands(never) == [], "it would only be repeated"
    assert commands(replace(never, job_file="/j/job.toml")) == ["tony submit /j/job.toml"]


def test_a_job_that_makes_no_progress(home: Home) -> None:
    """Look where it waits, then start it again or end it."""
    ended = succeeded(*recorded(home))
    stalled = replace(ended, state=JobState.RUNNING, stalled=True, stalled_task="worker:1")
    assert commands(stalled) == [
        f"tony stacks {JOB} worker:1",
        f"tony logs {JOB} worker:1",
        f"tony restart {JOB}",
        f"tony kill {JOB}",
    ]


def test_a_job_that_restarted_shows_why(home: Home) -> None:
    running = replace(succeeded(*recorded(home)), state=JobState.RUNNING, session=2)
    found = list_next_commands(running, describe_root_cause(FAILURE))
    assert [each.command for each in found] == [f"tony why {JOB}", f"tony logs {JOB} worker:1 --session 1"]


def test_a_job_that_ended_well_needs_none(home: Home) -> None:
    """Unless something about it is suspicious."""
    report = succeeded(*recorded(home))
    assert commands(report) == []
    assert commands(replace(report, warnings=("its output ends with a traceback",))) == [
        f"tony logs {JOB}",
        f"tony rerun {JOB} --restage",
    ]


def test_commands_for_a_job_of_a_portal_reach_it_there(home: Home) -> None:
    report = with_failure(home, FailureKind.NODE, retry=True)
    found = list_next_commands(report, build_root_cause(report), portal="https://jobs.example")
    assert [each.command for each in found] == [f"tony logs {JOB} worker:1 --portal https://jobs.example"]

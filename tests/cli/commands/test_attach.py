"""`tony attach`: the live view again, or the end of a job that is no longer there to be followed."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Tony
from tests.cli.in_process_am import Beside, living
from tests.jobs.fake_am import JOB, failed, recorded, running, succeeded, write_log
from tony.history.job_record import write_summary
from tony.model.state_directory import Home, JobFolder
from tony.model.submission_record import JobRecord

Recorded = tuple[JobFolder, JobRecord]


@pytest.fixture
def job(home: Home) -> Recorded:
    return recorded(home)


def test_a_running_job_is_followed(tony: Tony, job: Recorded) -> None:
    """Output from the beginning, then the outcome and the exit code, as after a submission."""
    folder, _ = job
    write_log(folder, "worker-0.s1.t1.out", "one\ntwo\n")

    def tell(beside: Beside) -> None:
        beside.wait(lambda: beside.master.watched)
        beside.finish(failed(*job))

    with living(folder, running(*job)) as beside, beside.story(tell):
        answer = tony("attach", "last")
    assert answer.code == 1
    assert "worker:0 | one\n" in answer.out
    assert "worker:0 | two\n" in answer.out
    assert answer.err.startswith(f"job {JOB} (digits) failed after 8 s: worker:1 on here: exit code 3\n")


def test_the_end_of_the_output(tony: Tony, job: Recorded) -> None:
    folder, _ = job
    write_log(folder, "worker-0.s1.t1.out", "one\ntwo\n")

    def tell(beside: Beside) -> None:
        beside.wait(lambda: beside.master.watched)
        beside.finish(succeeded(*job))

    with living(folder, running(*job)) as beside, beside.story(tell):
        answer = tony("attach", JOB, "--tail", "1", "--json")
    assert (answer.code, answer.json["state"]) == (0, "succeeded")
    assert "worker:0 | two\n" in answer.err
    assert "| one" not in answer.err


def test_an_ended_job(tony: Tony, job: Recorded) -> None:
    """Its outcome, without its output."""
    write_log(job[0], "worker-0.s1.t1.out", "one\n")
    write_summary(job[0], succeeded(*job))
    answer = tony("attach", "last")
    assert (answer.code, answer.out, answer.err) == (0, f"job {JOB} (digits) succeeded after 8 s\n", "")


def test_a_failed_job(tony: Tony, job: Recorded) -> None:
    """The final report, and the exit code of the job."""
    write_summary(job[0], failed(*job))
    answer = tony("attach", "last", "--json")
    assert (answer.code, answer.json["state"]) == (1, "failed")
    assert answer.err.startswith(f"job {JOB} (digits) failed after 8 s: worker:1 on here: exit code 3\n")


def test_an_unknown_job(tony: Tony, home: Home) -> None:
    answer = tony("attach", "nowhere")
    assert (answer.code, answer.out) == (2, "")

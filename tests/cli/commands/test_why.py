"""`tony why`: the root cause of a job, for people and programs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.cli.conftest import Tony
from tests.facts import mention_each, mentions
from tests.jobs.fake_am import FAILURE, JOB, failed, recorded, succeeded
from tony.history.job_record import write_summary
from tony.model.diagnosis import Diagnosis, EvidenceLine, FailureKind, LineMeaning
from tony.model.ids import TaskId
from tony.model.state_directory import Home

LINE = EvidenceLine(stream="err", number=7, text="KeyError: '\x1b[2Jlabel'", ago=0.1, rule="python-code")
DIAGNOSIS = Diagnosis(
    kind=FailureKind.USER_CODE, meaning=LineMeaning.CAUSE, retry=False, advice="look at the data", evidence=(LINE,)
)


def write_failed_job(home: Home) -> None:
    failure = replace(FAILURE, diagnosis=DIAGNOSIS, consequences=(TaskId("worker", 0),))
    folder, record = recorded(home)
    write_summary(folder, failed(folder, record, failure))


def test_a_job_that_failed(tony: Tony, home: Home) -> None:
    write_failed_job(home)
    answer = tony("why", JOB)
    assert answer.code == 0
    assert mention_each(
        answer.out.splitlines(),
        ("worker:1", "exit code 3"),
        ("user-code",),
        (),
        ("worker-1.s1.t1.err:7", "KeyError"),
        ("worker:0",),
        ("look at the data",),
        (),
        (),
        (f"tony logs {JOB} worker:1",),
        (f"tony rerun {JOB}",),
    )
    assert "\x1b" not in answer.out


def test_the_rules_that_were_met(tony: Tony, home: Home) -> None:
    write_failed_job(home)
    assert mentions(tony("why", JOB, "--explain").out, "python-code", "cpython")


def test_as_json(tony: Tony, home: Home) -> None:
    write_failed_job(home)
    answer = tony("why", JOB, "--json").json
    assert {name: answer[name] for name in ("class", "root_task", "retry", "consequences")} == {
        "class": "user-code",
        "root_task": "worker:1",
        "retry": False,
        "consequences": ["worker:0"],
    }
    assert answer["evidence"][0]["line"] == 7


def test_a_job_that_restarted_and_succeeded(tony: Tony, home: Home) -> None:
    folder, record = recorded(home)
    before = replace(FAILURE, diagnosis=DIAGNOSIS)
    write_summary(folder, replace(succeeded(folder, record), previous_failure=before, session=2))
    answer = tony("why", JOB).out
    assert mentions(answer.splitlines()[0], "succeeded", "session 1", "worker:1")
    assert f"tony logs {JOB} worker:1 --session 1" in answer
    assert tony("why", JOB, "--json").json["class"] == "user-code"


@pytest.mark.parametrize(("kind", "is_shown"), [(FailureKind.USER_CODE, True), (FailureKind.NODE, False)])
def test_a_restart_is_all_that_a_lost_node_needs(tony: Tony, home: Home, kind: FailureKind, *, is_shown: bool) -> None:
    folder, record = recorded(home)
    before = replace(FAILURE, diagnosis=replace(DIAGNOSIS, kind=kind))
    write_summary(folder, replace(succeeded(folder, record), previous_failure=before, session=2))
    assert ("look at the data" in tony("why", JOB).out) is is_shown


def test_nothing_failed(tony: Tony, home: Home) -> None:
    folder, record = recorded(home)
    write_summary(folder, succeeded(folder, record))
    assert mentions(tony("why", JOB).out, JOB, "succeeded")
    assert tony("why", JOB, "--json").out == "null\n"

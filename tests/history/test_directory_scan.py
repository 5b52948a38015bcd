"""Listing a home reads each ended job's record once, and whatever lies around does not disturb it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.jobs.fake_am import FAILURE, JOB, LONG_AGO, failed, job_of, recorded, succeeded
from tony.history.directory_scan import scan
from tony.history.job_record import write_summary
from tony.history.json_files import write_json
from tony.model.diagnosis import Diagnosis, EvidenceLine, FailureKind, LineMeaning
from tony.model.failure import FailureCause, FailureClass
from tony.model.job_spec import JobSpec
from tony.model.job_summary import JobHead, head_of_report
from tony.model.state_directory import Home, JobFolder
from tony.model.states import JobState

OTHER = "local-20260102-000000-0a1b2c"


def head(job_id: str = JOB, **more: object) -> JobHead:
    """What is listed of a job that `recorded` made and that succeeded."""
    known = {
        "job": job_id,
        "name": "digits",
        "state": JobState.SUCCEEDED,
        "user": "tester",
        "scheduler": "local",
        "framework": "none",
        "tasks": 2,
        "submitted": LONG_AGO,
        "ended": LONG_AGO + 8.0,
        "exit_code": 0,
        "sessions": 1,
    }
    return JobHead(**{**known, **more})  # type: ignore[arg-type]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home with one job that succeeded."""
    place = Home(tmp_path)
    folder, record = recorded(place)
    write_summary(folder, succeeded(folder, record))
    return place


def test_no_home_has_no_jobs(tmp_path: Path) -> None:
    """Listing before the first job makes nothing and finds nothing."""
    listing = scan(Home(tmp_path / "nowhere"))
    assert (listing.ended, listing.open, listing.unreadable) == ((), (), {})
    assert not (tmp_path / "nowhere").exists()


def test_ended_and_open_jobs(home: Home) -> None:
    """A job without a summary is open; one that failed says why."""
    recorded(home, OTHER)
    folder, record = recorded(home, "local-20260103-000000-0a1b2c")
    write_summary(folder, failed(folder, record))
    listing = scan(home)
    why = "worker:1 on here: exit code 3"
    assert sorted(listing.ended, key=lambda h: h.job) == [
        head(),
        head(
            "local-20260103-000000-0a1b2c",
            state=JobState.FAILED,
            exit_code=1,
            reason=why,
            failure_class=FailureClass.USER,
            cause="program",
        ),
    ]
    assert listing.open == (head(OTHER, state=JobState.SUBMITTED, ended=None, exit_code=None, sessions=0),)


def test_an_ended_job_is_read_once(home: Home) -> None:
    """The second time the index answers, even if the record is gone."""
    assert scan(home).ended == (head(),)
    home.job(JOB).summary.write_text("{")
    home.job(JOB).job.write_text("{")
    assert scan(home).ended == (head(),)


def test_closing_a_job_directory_adds_it_to_the_index(home: Home) -> None:
    """So the first list after a thousand jobs reads no job directory either; no job is counted twice."""
    home.job(JOB).summary.write_text("{")
    home.job(JOB).job.write_text("{")
    assert scan(home).ended == (head(),)
    folder, record = recorded(home, OTHER)
    write_summary(folder, failed(folder, record))
    assert {each.job for each in scan(home).ended} == {JOB, OTHER}
    assert home.index.read_text().count("{") == 2


def test_a_copied_job_directory_has_no_index(tmp_path: Path) -> None:
    """A copy of a job's folder is read and closed without leaving a file beside it."""
    folder, record = recorded(Home(tmp_path / "home"))
    copy = JobFolder(tmp_path / "copy" / JOB)
    copy.path.mkdir(parents=True)
    write_summary(copy, succeeded(folder, record))
    assert [path.name for path in tmp_path.rglob("index.jsonl")] == []


def test_a_removed_job_is_not_listed(home: Home) -> None:
    scan(home)
    home.job(JOB).path.rename(home.path / "elsewhere")
    assert scan(home).ended == ()


@pytest.mark.parametrize("tail", [b"", b'{"job": "loc', b"\xff\xfe\n", b"[1]\n", b"null\n"])
def test_a_damaged_index_is_mended(home: Home, tail: bytes) -> None:
    """Torn or senseless lines are passed over, and later ones are still understood."""
    home.index.write_bytes(tail)
    assert scan(home).ended == (head(),)
    assert scan(home).ended == (head(),)
    folder, record = recorded(home, OTHER)
    write_summary(folder, succeeded(folder, record))
    scan(home)
    folder.job.write_text("{")
    assert len(scan(home).ended) == 2


def test_an_index_of_removed_jobs_is_rewritten(home: Home) -> None:
    """It does not grow for ever."""
    line = json.dumps({"job": "x"})
    home.index.write_text(f"{line}\n" * 1100)
    scan(home)
    assert len(home.index.read_text().splitlines()) == 1
    assert scan(home).ended == (head(),)


def test_unreadable_records_are_named(home: Home) -> None:
    """One damaged record does not hide the others."""
    folder, _ = recorded(home, OTHER)
    write_json(folder.job, {**job_of(folder), "version": 99})
    listing = scan(home)
    assert listing.ended == (head(),)
    assert list(listing.unreadable) == [OTHER]
    assert "version 99" in listing.unreadable[OTHER]


def test_other_entries_are_skipped(home: Home) -> None:
    """An unrelated file, a hidden folder, a job that is only being made."""
    (home.jobs / ".hidden").mkdir()
    (home.jobs / "unrelated").write_text("x")
    (home.jobs / "half-made").mkdir()
    assert scan(home) == replace(scan(home), ended=(head(),), open=(), unreadable={})


def test_a_job_without_roles_has_one_task(home: Home) -> None:
    recorded(home, OTHER, JobSpec(name="one", command="true"))
    assert [(h.name, h.tasks) for h in scan(home).open] == [("one", 1)]


def test_a_home_that_cannot_be_written_is_listed(home: Home) -> None:
    """The index is a help, not a need."""
    home.index.unlink()
    home.index.mkdir()
    assert scan(home).ended == (head(),)


def test_the_head_of_a_report_equals_that_of_the_summary(home: Home) -> None:
    """A running job looks in a list as it will when it has ended."""
    folder = home.job(JOB)
    _, record = recorded(home)
    assert head_of_report(succeeded(folder, record)) == head()


def test_a_hang_names_the_task_and_where_it_waits(home: Home) -> None:
    """In the same words, whether its report or its directory is read."""
    folder, record = recorded(home, OTHER)
    line = EvidenceLine(stream="stacks", number=0, text="recv at train.py:88", ago=0.0, rule="")
    found = Diagnosis(kind=FailureKind.HANG, meaning=LineMeaning.CAUSE, retry=True, evidence=(line,))
    report = failed(folder, record, replace(FAILURE, cause=FailureCause.HANG, diagnosis=found))
    write_summary(folder, report)
    (listed,) = (each for each in scan(home).ended if each.job == OTHER)
    for each in (listed, head_of_report(report)):
        assert each.short_reason == "hang: worker:1 in recv at train.py:88"
        assert not each.is_stalled


def test_a_running_job_that_hangs_is_stalled(home: Home) -> None:
    running = replace(succeeded(*recorded(home, OTHER)), state=JobState.RUNNING, waiting="no step for 41 s")
    assert not head_of_report(running).is_stalled
    hung = head_of_report(replace(running, stalled=True))
    assert (hung.is_stalled, hung.short_reason) == (True, "no step for 41 s")

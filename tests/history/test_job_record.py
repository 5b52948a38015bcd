"""A job's record is read for what it is, and refused when a newer version wrote it; so is a kill request."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.jobs.fake_am import JOB, job_of, recorded, succeeded
from tony.errors import RecordError
from tony.history.job_record import (
    KillRequest,
    build_pending_report,
    load_kill_request,
    read_job,
    read_summary,
    save_kill_request,
    write_summary,
)
from tony.history.json_files import write_json
from tony.model.state_directory import Home, JobFolder
from tony.model.states import JobState, TaskState
from tony.model.submission_record import RECORD_VERSION


def test_a_record_makes_the_round_trip(tmp_path: Path) -> None:
    """What the client wrote is what a reader gets."""
    folder, record = recorded(Home(tmp_path))
    assert read_job(folder) == record


def test_no_job_is_none(tmp_path: Path) -> None:
    """A folder that does not exist holds no record and no summary."""
    folder = Home(tmp_path).job("x")
    assert read_job(folder) is None
    assert read_summary(folder) is None


def test_a_newer_record_is_refused(tmp_path: Path) -> None:
    """An older reader could misread it, so it says which version is needed."""
    folder, _ = recorded(Home(tmp_path))
    write_json(folder.job, {**job_of(folder), "version": RECORD_VERSION + 1, "tony_version": "9.9"})
    with pytest.raises(RecordError, match=r"written by tony 9\.9; this tony reads up to 1\. Use a newer tony"):
        read_job(folder)


def test_an_unknown_field_is_passed_over(tmp_path: Path) -> None:
    """A newer tony of the same record version may add fields."""
    folder, record = recorded(Home(tmp_path))
    write_json(folder.job, {**job_of(folder), "colour": "blue"})
    assert read_job(folder) == record


@pytest.mark.parametrize("content", ["[]", "{}", '{"version": "1"}', '{"version": true}'])
def test_something_else_is_refused(tmp_path: Path, content: str) -> None:
    """A file without a version is no record."""
    folder, _ = recorded(Home(tmp_path))
    folder.job.write_text(content)
    with pytest.raises(RecordError, match="it has no version"):
        read_job(folder)


def test_a_file_that_is_there_is_not_missing(tmp_path: Path) -> None:
    """An empty or truncated file is damaged: the job counts neither as missing nor as running."""
    folder, record = recorded(Home(tmp_path))
    write_summary(folder, succeeded(folder, record))
    for path, read in ((folder.summary, read_summary), (folder.job, read_job)):
        path.write_text("null\n")
        with pytest.raises(RecordError, match=rf"{path.name} contains only null"):
            read(folder)


def test_a_damaged_record_is_refused(tmp_path: Path) -> None:
    """The message says which field of which file."""
    folder, _ = recorded(Home(tmp_path))
    write_json(folder.job, {**job_of(folder), "submitted": "yesterday"})
    with pytest.raises(RecordError, match=r"job\.json is invalid: \.submitted: expected a number"):
        read_job(folder)


def test_tasks_without_end_are_refused(tmp_path: Path) -> None:
    """A few characters could otherwise fill the reader's memory."""
    folder, _ = recorded(Home(tmp_path))
    plain = job_of(folder)
    for tasks, why in ((10**9, "has 1,000,000,000 tasks; the limit is 200,000"), (-5, "has -5 tasks")):
        plain["spec"]["roles"]["worker"]["instances"] = tasks
        write_json(folder.job, plain)
        with pytest.raises(RecordError, match=why):
            read_job(folder)


def test_a_summary_makes_the_round_trip(tmp_path: Path) -> None:
    """The last report is read as it was written."""
    folder, record = recorded(Home(tmp_path))
    report = replace(succeeded(folder, record), name="a\n<b>")
    write_summary(folder, report)
    assert read_summary(folder) == report


def test_before_anything_runs_every_task_is_pending(tmp_path: Path) -> None:
    """A job that was only recorded has all its tasks, no application master and no exit code."""
    folder, record = recorded(Home(tmp_path))
    report = build_pending_report(folder, record)
    assert (report.job, report.state, report.session, report.attempt) == (JOB, JobState.SUBMITTED, 0, 0)
    assert (report.am, report.exit_code, report.failure) == (None, None, None)
    assert [(t.task, t.state, t.session) for t in report.tasks] == [
        ("worker:0", TaskState.PENDING, 0),
        ("worker:1", TaskState.PENDING, 0),
    ]


def test_kept_and_read(tmp_path: Path) -> None:
    """For its owner alone; nothing is kept unasked."""
    folder = JobFolder(tmp_path)
    assert load_kill_request(folder) is None
    save_kill_request(folder, KillRequest(actor="ann"))
    assert load_kill_request(folder) == KillRequest(actor="ann", now=False)
    assert folder.kill_request.stat().st_mode & 0o777 == 0o600


def test_the_first_one_counts_and_the_one_without_patience(tmp_path: Path) -> None:
    """Who asked first stays known; a later one takes the grace away, and none gives it back."""
    folder = JobFolder(tmp_path)
    save_kill_request(folder, KillRequest(actor="ann"))
    save_kill_request(folder, KillRequest(actor="bob"))
    assert load_kill_request(folder) == KillRequest(actor="ann")
    save_kill_request(folder, KillRequest(actor="bob", now=True))
    assert load_kill_request(folder) == KillRequest(actor="bob", now=True)
    save_kill_request(folder, KillRequest(actor="ann"))
    assert load_kill_request(folder) == KillRequest(actor="bob", now=True)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null", '{"actor": 1}', '{"actor": "ann", "now": "yes"}'])
def test_an_invalid_kill_request_is_ignored(tmp_path: Path, text: str) -> None:
    folder = JobFolder(tmp_path)
    folder.kill_request.write_text(text)
    assert load_kill_request(folder) is None


def test_a_name_is_made_fit_to_be_shown(tmp_path: Path) -> None:
    """On one line, of a sane length."""
    folder = JobFolder(tmp_path)
    folder.kill_request.write_text(json.dumps({"actor": "a\nb\x1b[31m" + "c" * 1000}))
    request = load_kill_request(folder)
    assert request is not None
    assert request.actor == "ab[31m" + "c" * 194

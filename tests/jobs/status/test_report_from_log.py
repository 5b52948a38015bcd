"""How a job of others stands, its log says, which is read on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jobs.fake_am import logged, recorded, succeeded
from tony.core.events import AttemptStarted, Event, Granted, Queued, SessionOpened
from tony.errors import RecordError, UnknownJobError
from tony.history.event_log import settings_digest
from tony.history.job_record import write_summary
from tony.jobs.status.report_from_log import StatusFromLog, build_last_report
from tony.model.state_directory import Home, JobFolder
from tony.model.states import JobState
from tony.model.submission_record import JobRecord
from tony.schedulers.client_interface import ApplicationStatus


@pytest.fixture
def job(tmp_path: Path) -> tuple[JobFolder, JobRecord]:
    return recorded(Home(tmp_path))


def begun(folder: JobFolder, record: JobRecord) -> None:
    """Its application master lives, and waits for room."""
    first = AttemptStarted(attempt=1, wall=record.submitted, settings=settings_digest(record.spec))
    logged(folder, [first, Queued(reason="no room")])


def test_it_follows_the_log(job: tuple[JobFolder, JobRecord]) -> None:
    """From before there is a log to the summary: the same state as from reading all of it at once."""
    folder, record = job
    standing = StatusFromLog(folder)
    assert standing.load_report().state is JobState.SUBMITTED
    begun(folder, record)
    assert standing.load_report().state is JobState.QUEUED
    more: list[Event] = [
        SessionOpened(session=1, reason="begun"),
        Granted(container="c-1", role="worker", host="there"),
    ]
    logged(folder, more, attempt=2, first_seq=3)
    told, afresh = standing.load_report(), StatusFromLog(folder).load_report()
    assert (told.state, told.tasks[0].host) == (JobState.STARTING, "there")
    assert (told.tasks, told.session) == (afresh.tasks, afresh.session)
    write_summary(folder, succeeded(folder, record))
    assert standing.load_report().state is JobState.SUCCEEDED


def test_it_reads_nothing_twice(job: tuple[JobFolder, JobRecord]) -> None:
    """What was read may even be gone from the file: however large it is, each look costs what is new."""
    folder, record = job
    begun(folder, record)
    standing = StatusFromLog(folder)
    before = standing.load_report()
    log = folder.events(1)
    log.write_bytes(b"?" * log.stat().st_size)
    assert standing.load_report().tasks == before.tasks


def test_a_replaced_log_is_read_from_its_start(job: tuple[JobFolder, JobRecord]) -> None:
    """A job directory may be removed, and come back."""
    folder, record = job
    begun(folder, record)
    standing = StatusFromLog(folder)
    assert standing.load_report().state is JobState.QUEUED
    folder.events(1).unlink()
    assert standing.load_report().state is JobState.SUBMITTED
    begun(folder, record)
    assert standing.load_report().state is JobState.QUEUED
    folder.events(1).unlink()
    folder.job.unlink()
    with pytest.raises(UnknownJobError):
        standing.load_report()


def test_a_damaged_log_is_damaged_each_time(job: tuple[JobFolder, JobRecord]) -> None:
    folder, record = job
    begun(folder, record)
    with folder.events(1).open("ab") as log:
        log.write(b"nonsense\n")
    standing = StatusFromLog(folder)
    for _ in range(3):
        with pytest.raises(RecordError):
            standing.load_report()


@pytest.mark.parametrize(
    ("result", "note"),
    [
        (JobState.KILLED, "never started"),
        (JobState.FAILED, "lost with the application master"),
        (JobState.SUCCEEDED, "the end of its event log is missing"),
    ],
)
def test_tasks_of_a_job_of_which_nothing_was_read(
    job: tuple[JobFolder, JobRecord], result: JobState, note: str
) -> None:
    """One that was killed while it waited has started none; of one that is gone that is not known."""
    status = ApplicationStatus(alive=False, result=result, note="its Job was removed")
    report = build_last_report(*job, status)
    assert {task.note for task in report.tasks} == {note}
    assert report.state is result
    assert result is JobState.SUCCEEDED or (report.failure and report.failure.reason.startswith("its Job was removed"))

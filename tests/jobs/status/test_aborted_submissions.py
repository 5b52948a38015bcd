"""What a killed submission has left is told from what a living one is just making."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tony.jobs.state_dir import prepare
from tony.jobs.status.aborted_submissions import mark_submission, remove_aborted_submissions
from tony.model.state_directory import Home, JobFolder

ONE, TWO = "local-20260131-000000-aaaaaa", "local-20260131-000000-bbbbbb"


def half_made(home: Home, job_id: str) -> JobFolder:
    folder = home.job(job_id)
    folder.secret.mkdir(parents=True)
    (folder.secret / "job.json").touch()
    return folder


def killed_in_the_midst(home: Home, job_id: str, *, with_record: bool = False) -> JobFolder:
    """A process that fills a job's folder and is killed."""
    child = os.fork()
    if child == 0:
        with mark_submission(home, job_id):
            folder = half_made(home, job_id)
            if with_record:
                folder.job.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    return home.job(job_id)


def test_the_folder_of_a_killed_submission_is_removed(home: Home) -> None:
    prepare(home)
    other = half_made(home, TWO)  # not marked: not ours to judge
    folder = killed_in_the_midst(home, ONE)
    assert folder.path.exists()
    remove_aborted_submissions(home)
    assert not folder.path.exists()
    assert other.path.exists()
    assert os.listdir(home.submitting) == []


def test_a_living_submission_is_left_alone(home: Home) -> None:
    prepare(home)
    with mark_submission(home, ONE):
        folder = half_made(home, ONE)
        remove_aborted_submissions(home)
        assert (folder.secret / "job.json").exists()
        assert os.listdir(home.submitting) == [ONE]
    assert os.listdir(home.submitting) == []


def test_a_job_that_is_whole_stays(home: Home) -> None:
    """Its job directory is complete, so it is listed, and its status can be requested."""
    prepare(home)
    folder = killed_in_the_midst(home, ONE, with_record=True)
    remove_aborted_submissions(home)
    assert folder.job.exists()
    assert os.listdir(home.submitting) == []


def test_other_entries_are_skipped(home: Home, tmp_path: Path) -> None:
    """Names that are no job's are left alone; a state directory that lacks the folder, or cannot be written, is no
    error."""
    prepare(home)
    remove_aborted_submissions(home)
    home.submitting.mkdir()
    for name in ("..x", "a b", ".local-20260131-000000-cccccc"):
        (home.submitting / name).touch()
    remove_aborted_submissions(home)
    assert len(os.listdir(home.submitting)) == 3
    (tmp_path / "file").touch()
    elsewhere = Home(tmp_path / "file")
    remove_aborted_submissions(elsewhere)
    with mark_submission(elsewhere, ONE):
        pass

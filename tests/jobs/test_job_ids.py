"""A person names a job by any part of its id that is enough."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.jobs.fake_am import recorded
from tony.errors import UnknownJobError
from tony.jobs.job_ids import create_job_id, find_unique_suffix, list_job_ids, remember, resolve
from tony.jobs.status import remote_job_sync
from tony.model.ids import JOB_ID
from tony.model.job_spec import JobSpec, Role
from tony.model.state_directory import Home

A = "local-20260101-000000-aaaaaa"
B = "local-20260101-000001-bbbbbb"
C = "local-20260201-000000-cccccc"


@pytest.fixture
def jobs(home: Home) -> Home:
    for job_id in (C, A, B):
        recorded(home, job_id)
    return home


def test_a_new_id_has_scheduler_and_time() -> None:
    """It is safe as a folder's name, and unique."""
    ids = {create_job_id("local", 1_767_225_599.9) for _ in range(20)}
    assert len(ids) == 20
    assert all(re.fullmatch("local-20251231-235959-[0-9a-f]{6}", i) and JOB_ID.fullmatch(i) for i in ids)


def test_known_jobs_are_sorted_by_age(jobs: Home) -> None:
    (jobs.jobs / "local-20270101-000000-dddddd").mkdir()
    (jobs.jobs / ".hidden").mkdir()
    assert list_job_ids(jobs) == [A, B, C]
    assert list_job_ids(Home(jobs.path / "nowhere")) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (A, A),
        ("bbbbbb", B),
        ("b", B),
        ("01-bbb", B),
        ("0201", C),
        ("local-202602", C),
        ("last", C),
    ],
)
def test_a_part_is_enough(jobs: Home, text: str, expected: str) -> None:
    """From anywhere in the id, or the word for the newest."""
    assert resolve(jobs, text) == expected


def test_the_newest_was_submitted_last(home: Home) -> None:
    """Whatever its id says: a cluster's ids have another order."""
    recorded(home, A, submitted=300.0)
    recorded(home, C, submitted=200.0)
    assert resolve(home, "last") == A


def test_a_clock_that_was_set_back_does_not_make_another_job_the_last(home: Home) -> None:
    """What was noted at its submission counts, until its record is gone or the note makes no sense."""
    recorded(home, A, submitted=7200.0)
    recorded(home, C, submitted=3600.0)
    remember(home, C)
    assert resolve(home, "last") == C
    home.last.write_text("../../etc/passwd")
    assert resolve(home, "last") == A
    home.last.write_bytes(b"\xff")
    assert resolve(home, "last") == A
    remember(home, B)
    assert resolve(home, "last") == A
    assert [path.name for path in home.path.iterdir() if path.name.startswith(".")] == []


def test_a_home_that_cannot_be_written_has_no_note(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    remember(Home(tmp_path / "file"), A)


def test_the_end_of_an_id_that_is_enough() -> None:
    """As much of it as tells it from the others, wherever they have the same characters."""
    ids = [A, "local-20260101-000001-aaaaaa", "local-20260301-222222-000001"]
    assert [find_unique_suffix(job_id, ids) for job_id in ids] == ["000000-aaaaaa", "000001-aaaaaa", "222222-000001"]
    assert find_unique_suffix(B, [B]) == "bbbbbb"
    assert find_unique_suffix("x", ["x"]) == "x"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("local-20260101", r"2 jobs match 'local-20260101': .*bbbbbb, .*aaaaaa. Write more of the id."),
        ("local-20260101-000000-aaaaab", "did you mean local-20260101-000000-aaaaaa"),
        ("2026", "3 jobs match '2026'"),
        ("0b", "there is no job '0b'"),
        ("zzz", "there is no job 'zzz' in .*; the newest are .*cccccc, .*bbbbbb, .*aaaaaa"),
        ("", "there is no job ''"),
        ("*", r"there is no job '\*'"),
        ("x" * 5000, "there is no job 'xxx"),
        ("../jobs", "there is no job"),
        ("a\x1b[2Jb", r"there is no job 'a\\x1b\[2Jb'"),
    ],
)
def test_an_unknown_id_gets_a_suggestion(jobs: Home, text: str, said: str) -> None:
    """The message helps to write the right one, and shows no control character."""
    with pytest.raises(UnknownJobError, match=said):
        resolve(jobs, text)


def test_a_unique_name_is_enough(home: Home) -> None:
    """If several jobs have it, the message names them, the newest first. A name precedes a part of another id."""
    recorded(home, C)
    recorded(home, A, JobSpec(name="oom", command="true", roles={"worker": Role()}))
    assert resolve(home, "oom") == A
    recorded(home, B, JobSpec(name="oom", command="true", roles={"worker": Role()}))
    recorded(home, "local-20270101-000000-dddddd", JobSpec(name="b", command="true", roles={"worker": Role()}))
    assert resolve(home, "b") == "local-20270101-000000-dddddd"
    assert resolve(home, "bbb") == B
    with pytest.raises(
        UnknownJobError, match=rf"2 jobs have the name 'oom': {B} \(not ended\), {A} \(not ended\). Write an id"
    ):
        resolve(home, "oom")


def test_an_unknown_application_id_names_both_places(jobs: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """An application id may belong to a job of another machine; if it is unknown there too, the message says both."""

    async def unknown(*_: object) -> bool:
        return False

    monkeypatch.setattr(remote_job_sync, "adopt", unknown)
    with pytest.raises(UnknownJobError, match=r"there is no job 'application_1_0001', .* nor in the cluster"):
        resolve(jobs, "application_1_0001")


def test_an_empty_state_directory_has_its_message(home: Home) -> None:
    for text in ("x", "last"):
        with pytest.raises(UnknownJobError, match="has no jobs"):
            resolve(home, text)

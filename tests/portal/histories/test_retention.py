"""Old records go, by the rules and by no others; what runs and what is pinned stays."""

from __future__ import annotations

import os
import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.jobs.fake_am import LONG_AGO, recorded, succeeded
from tests.portal.index_entries import NOW, head
from tony.errors import StorageError
from tony.history.job_record import write_summary
from tony.model.state_directory import Home, JobFolder
from tony.model.states import JobState
from tony.portal.histories.history_layouts import RecordLocation
from tony.portal.histories.retention import (
    RECENT_SECONDS,
    RemovedRecord,
    RetentionCandidate,
    RetentionRules,
    carry_out,
    decide,
    pin,
    plan,
    unpin,
)
from tony.storage.stores.fsspec_store import FsspecStore
from tony.storage.stores.local_store import LocalStore
from tony.storage.stores.store_interface import FileStore, Item


def job(home: Home, number: int, *, ended: bool = True, size: int = 1000) -> JobFolder:
    name = f"local-20260101-0000{number:02d}-0a1b2c"
    folder, record = recorded(home, name, submitted=LONG_AGO + number)
    folder.logs.mkdir(exist_ok=True)
    (folder.logs / "worker-0.s1.t1.out").write_bytes(b"x" * size)
    if ended:
        write_summary(folder, succeeded(folder, record))
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """With five jobs, the third of which has not ended."""
    place = Home(tmp_path / "home")
    for number in range(5):
        job(place, number, ended=number != 2)
    return place


def names(going: tuple[RemovedRecord, ...]) -> list[int]:
    return [int(each.record.head.job[19:21]) for each in going]


def test_less_is_read_of_records_of_other_users(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that costs too much to read stays."""
    monkeypatch.setattr("tony.portal.histories.record_reader.MAX_FOREIGN_JSON_BYTES", 100)
    store = LocalStore(home.path)
    assert plan(store, RetentionRules(age=60.0)).damaged == 5
    found = plan(store, RetentionRules(age=60.0), own=True)
    assert found.damaged == 0
    assert not carry_out(store, found.going[0])
    assert carry_out(store, found.going[0], own=True)


def test_a_plan_removes_nothing(home: Home) -> None:
    store = LocalStore(home.path)
    before = sorted(str(path) for path in home.path.rglob("*"))
    found = plan(store, RetentionRules(age=60.0))
    assert names(found.going) == [0, 1, 3, 4]
    assert (found.stays, found.unended, found.pinned, found.damaged) == (1, 1, 0, 0)
    assert found.size > 4000
    assert "it ended" in found.going[0].why
    assert sorted(str(path) for path in home.path.rglob("*")) == before


def test_it_is_done(home: Home) -> None:
    """Nothing is left of them; the others are as they were."""
    store = LocalStore(home.path)
    found = plan(store, RetentionRules(jobs=1))
    assert names(found.going) == [0, 1, 3]
    assert [each.why for each in found.going] == ["tester has 1 newer jobs"] * 3
    assert all(carry_out(store, each) for each in found.going)
    assert sorted(path.name[19:21] for path in home.jobs.iterdir()) == ["02", "04"]
    assert plan(store, RetentionRules(jobs=1)).going == ()


def test_by_size(home: Home) -> None:
    """The newest stay, as long as there is room."""
    store = LocalStore(home.path)
    one = plan(store, RetentionRules(age=0.0)).going[0].record.size
    assert names(plan(store, RetentionRules(size=2 * one + 100)).going) == [0, 1]
    assert names(plan(store, RetentionRules(size=0)).going) == [0, 1, 3, 4]


def test_jobs_of_other_owners_do_not_push_out_a_users_jobs() -> None:
    """Job directories that another user has written under a user's name do not count as that user's newer ones."""
    records = [
        RetentionCandidate(
            head=replace(head(number), user="ann", ended=NOW + number),
            place=RecordLocation(path=f"jobs/{number}", item=Item(name=str(number), folder=True, owner=owner)),
            size=1,
        )
        for number, owner in enumerate(["ann", "ann", *["mallory"] * 5])
    ]
    going = decide(records, RetentionRules(jobs=2), NOW + 1e6).going
    assert {each.record.place.item.owner for each in going} == {"mallory"}


def test_a_pin_keeps_it(home: Home) -> None:
    """Also one that was set after the plan was made; without it, it goes."""
    store = LocalStore(home.path)
    first, second = (f"jobs/local-20260101-00000{number}-0a1b2c" for number in (0, 1))
    assert pin(store, first, "ann")
    assert not pin(store, first, "ann")
    found = plan(store, RetentionRules(age=60.0))
    assert (names(found.going), found.pinned) == ([1, 3, 4], 1)
    assert pin(store, second, "ann")
    assert [carry_out(store, each) for each in found.going] == [False, True, True]
    assert unpin(store, second)
    assert not unpin(store, second)
    assert names(plan(store, RetentionRules(age=60.0)).going) == [1]


def test_a_damaged_record_is_left_to_people(home: Home) -> None:
    """It may be of a newer version, and run."""
    home.job("local-20260101-000000-0a1b2c").job.write_text("{")
    found = plan(LocalStore(home.path), RetentionRules(age=0.0))
    assert (names(found.going), found.damaged) == ([1, 3, 4], 1)


@pytest.mark.parametrize("kind", ["folder", "store"])
def test_they_are_moved_by_date(home: Home, tmp_path: Path, kind: str) -> None:
    """Without work and secrets; then they are a history of their own, from which they can go as well."""
    folder = home.job("local-20260101-000000-0a1b2c")
    (folder.work / "worker-0").mkdir(parents=True)
    (folder.work / "worker-0" / "big").write_bytes(b"x")
    folder.credentials.parent.mkdir(exist_ok=True)
    folder.credentials.write_text("secret")
    store = LocalStore(home.path)
    to: FileStore = LocalStore(tmp_path / "old") if kind == "folder" else FsspecStore(f"memory://old-{uuid.uuid4()}")
    going = plan(store, RetentionRules(jobs=3)).going
    assert [carry_out(store, each, to) for each in going] == [True]
    assert not folder.path.exists()
    target = f"2023/11/14/{folder.job_id}"
    assert {item.name for item in to.list(target)} == {"job.json", "summary.json", "logs"}
    assert to.read(f"{target}/logs/worker-0.s1.t1.out", 2000) == b"x" * 1000
    assert names(plan(to, RetentionRules(age=0.0)).going) == [0]


@pytest.mark.parametrize("kind", ["folder", "store"])
def test_nothing_but_the_record_is_moved(home: Home, tmp_path: Path, kind: str) -> None:
    """The target of a link in it would become readable there for the user who made the link."""
    folder = home.job("local-20260101-000000-0a1b2c")
    (tmp_path / "treasure").mkdir()
    (tmp_path / "treasure" / "key").write_text("secret")
    (folder.logs / "worker-0.s1.t1.err").symlink_to(tmp_path / "treasure" / "key")
    (folder.logs / "more").symlink_to(tmp_path / "treasure")
    os.mkfifo(folder.logs / "worker-0.s2.t1.out")
    store = LocalStore(home.path)
    to: FileStore = LocalStore(tmp_path / "old") if kind == "folder" else FsspecStore(f"memory://old-{uuid.uuid4()}")
    (going,) = plan(store, RetentionRules(jobs=3)).going
    assert carry_out(store, going, to)
    assert not folder.path.exists()
    assert [item.name for item in to.list(f"2023/11/14/{folder.job_id}/logs")] == ["worker-0.s1.t1.out"]
    assert (tmp_path / "treasure" / "key").read_text() == "secret"


def test_a_directory_that_is_replaced_while_it_is_moved(home: Home, tmp_path: Path) -> None:
    """Neither is anything of the other one moved, nor is it removed."""
    folder = home.job("local-20260101-000000-0a1b2c")
    other = tmp_path / "other"
    (other / "logs").mkdir(parents=True)
    for name in ("job.json", "logs/worker-0.s1.t1.out"):
        (other / name).write_text("of another user")

    class Swapping(LocalStore):
        def write(self, path: str, content: bytes | Path) -> None:
            if other.exists():
                folder.path.rename(tmp_path / "aside")
                other.rename(folder.path)
            super().write(path, content)

    store, to = LocalStore(home.path), Swapping(tmp_path / "old")
    (going,) = plan(store, RetentionRules(jobs=3)).going
    with pytest.raises(StorageError, match="cannot remove"):
        carry_out(store, going, to)
    assert to.read(f"2023/11/14/{folder.job_id}/logs/worker-0.s1.t1.out", 2000) == b"x" * 1000
    assert folder.job.read_text() == "of another user"


def test_a_move_into_the_same_history_removes_nothing(home: Home, tmp_path: Path) -> None:
    """A history that is moved by date into itself, by whatever name, stays unchanged."""
    place = tmp_path / "archive"
    for going in plan(LocalStore(home.path), RetentionRules(jobs=0)).going:
        assert carry_out(LocalStore(home.path), going, LocalStore(place))
    (tmp_path / "alias").symlink_to(place)
    before = {str(path): path.stat().st_size for path in place.rglob("*") if path.is_file()}
    for other in (place, tmp_path / "alias"):
        moving = plan(LocalStore(place), RetentionRules(jobs=0)).going
        assert len(moving) == 4
        assert not any(carry_out(LocalStore(place), going, LocalStore(other)) for going in moving)
        assert {str(path): path.stat().st_size for path in place.rglob("*") if path.is_file()} == before


def test_a_failed_move_leaves_the_job_directory_whole(home: Home, tmp_path: Path) -> None:
    """And the next run continues."""

    class Full(LocalStore):
        room = 1

        def write(self, path: str, content: bytes | Path) -> None:
            if not self.room:
                raise StorageError("no space left")
            self.room -= 1
            super().write(path, content)

    store, to = LocalStore(home.path), Full(tmp_path / "old")
    going = plan(store, RetentionRules(jobs=3)).going[0]
    with pytest.raises(StorageError, match="no space"):
        carry_out(store, going, to)
    assert home.job(going.record.head.job).summary.exists()
    assert to.find(f"2023/11/14/{going.record.head.job}/summary.json") is None
    to.room = 100
    assert carry_out(store, going, to)


def kept(
    number: int, user: str, age: float, size: int, state: JobState, *, pinned: bool, damaged: bool
) -> RetentionCandidate:
    ended = NOW - age if state.ended else None
    made = head(number, user=user, state=state, ended=ended, pinned=pinned, damaged="torn" if damaged else "")
    item = Item(name=made.job, folder=True)
    return RetentionCandidate(head=made, place=RecordLocation(path=made.job, item=item), size=size)


records = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob"]),
        st.floats(0, 10 * RECENT_SECONDS),
        st.integers(0, 100),
        st.sampled_from(JobState),
        st.booleans(),
        st.booleans(),
    ),
    max_size=20,
).map(
    lambda rows: [
        kept(number, user, age, size, state, pinned=pinned, damaged=damaged)
        for number, (user, age, size, state, pinned, damaged) in enumerate(rows)
    ]
)
rules = st.builds(
    RetentionRules,
    age=st.none() | st.floats(0, 10 * RECENT_SECONDS),
    jobs=st.none() | st.integers(0, 10),
    size=st.none() | st.integers(0, 500),
    user=st.sampled_from(["", "", "ann"]),
)


@given(records, rules)
def test_retention_rules_hold_for_any_history(made: list[RetentionCandidate], asked: RetentionRules) -> None:
    """What must not go stays; what stays obeys the rules; the counts add up."""
    found = decide(made, asked, NOW)
    going = {each.record.head.job for each in found.going}
    for each in made:
        if each.head.job in going:
            assert each.head.ended is not None
            assert each.head.ended < NOW - RECENT_SECONDS
            assert not each.head.pinned
            assert not each.head.damaged
            assert asked.user in ("", each.head.user)
    assert found.stays + len(going) == len(made)
    assert found.stays_size + found.size == sum(each.size for each in made)
    assert all(each.why for each in found.going)
    if asked == replace(asked, age=None, jobs=None, size=None):
        assert going == set()
    for user in ("ann", "bob"):
        free = [
            each
            for each in made
            if each.head.job not in going
            and each.head.user == user
            and asked.user in ("", user)
            and each.head.ended is not None
            and each.head.ended < NOW - RECENT_SECONDS
            and not each.head.pinned
            and not each.head.damaged
        ]
        assert asked.jobs is None or len(free) <= asked.jobs
        assert asked.size is None or sum(each.size for each in free) <= asked.size
        assert asked.age is None or all(NOW - (each.head.ended or 0) <= asked.age for each in free)

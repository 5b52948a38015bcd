"""The index follows a location: what is new, what ends, what is damaged, what goes."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.facts import mentions
from tests.jobs.fake_am import TWO_WORKERS, failed, logged, recorded, succeeded
from tests.portal import legacy_histories
from tony.core.events import ContainersFound, Event, Granted, ReconcileClosed, SessionOpened, Started
from tony.errors import StorageError
from tony.history.job_record import write_summary
from tony.history.json_files import write_json
from tony.model.ids import TaskId
from tony.model.job_query import Query
from tony.model.state_directory import Home, JobFolder
from tony.model.states import JobState
from tony.portal.histories import record_reader, scanner
from tony.portal.histories.history_layouts import build_dated_path
from tony.portal.histories.scanner import Scanner
from tony.portal.job_index.index import JobIndex
from tony.storage.stores.fsspec_store import FsspecStore
from tony.storage.stores.local_store import JobDirectory, LocalStore
from tony.storage.stores.store_interface import FileStore, Item

JOBS = [f"local-2026010{day}-000000-0a1b2c" for day in range(1, 8)]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    place = Home(tmp_path / "home")
    place.jobs.mkdir(parents=True)
    return place


@pytest.fixture
def index(tmp_path: Path) -> Iterator[JobIndex]:
    made = JobIndex(tmp_path / "index.db")
    assert made.claim()
    yield made
    made.close()


def ended(home: Home, job: str) -> JobFolder:
    folder, made = recorded(home, job)
    write_summary(folder, succeeded(folder, made))
    return folder


def states(index: JobIndex) -> dict[str, str]:
    """Last digits of the day -> its status."""
    heads = index.query_page(Query(most=1000)).heads
    return {head.job[13:14]: "damaged" if head.damaged else head.state.value for head in heads}


def test_a_home(home: Home, index: JobIndex) -> None:
    """Jobs that have ended, that run, that begin; what else lies there is none."""
    ended(home, JOBS[0])
    folder, made = recorded(home, JOBS[1], replace(TWO_WORKERS, tags=("ads",)))
    write_summary(folder, failed(folder, made))
    recorded(home, JOBS[2])
    running, _ = recorded(home, JOBS[3])
    events: list[Event] = [
        SessionOpened(session=1, reason="begun"),
        Granted(container="c", role="worker", host="h"),
        Started(task=TaskId("worker", 0), session=1, try_=1, pid=1),
    ]
    logged(running, events)
    (home.jobs / JOBS[4]).mkdir()
    (home.jobs / "not a job").mkdir()
    home.cache.mkdir(exist_ok=True)
    scan = Scanner(LocalStore(home.path), index)
    scan.scan_fully()
    assert states(index) == {"1": "succeeded", "2": "failed", "3": "submitted", "4": "running"}
    (head,) = index.query_page(Query(text="exit code 3", tag="ads", state="failed")).heads
    assert head.user == "tester"
    assert mentions(head.reason, "worker:1 on here: exit code 3")


def test_changes_of_jobs_are_found(home: Home, index: JobIndex) -> None:
    """A job appears, becomes complete, runs, ends, is pinned, disappears; each scan reads only what may have
    changed."""
    scan = Scanner(LocalStore(home.path), index)
    scan.scan_fully()
    (home.jobs / JOBS[0]).mkdir()
    scan.scan_quickly()
    assert states(index) == {}
    folder, made = recorded(home, JOBS[0])
    scan.scan_quickly()
    assert states(index) == {"1": "submitted"}
    logged(folder, [SessionOpened(session=1, reason="begun")])
    scan.scan_quickly()
    assert states(index) == {"1": "starting"}
    write_summary(folder, succeeded(folder, made))
    scan.scan_quickly()
    assert states(index) == {"1": "succeeded"}
    folder.job.write_text("not read again")
    scan.scan_fully()
    assert states(index) == {"1": "succeeded"}
    remove(folder)
    scan.scan_quickly()
    assert states(index) == {}


def test_a_job_whose_am_was_restarted_is_still_running(home: Home, index: JobIndex) -> None:
    """The log of the new AM attempt says nothing about the tasks that continue."""
    folder, _ = recorded(home, JOBS[0])
    events: list[Event] = [
        SessionOpened(session=1, reason="begun"),
        SessionOpened(session=2, reason="a task failed"),
        Started(task=TaskId("worker", 0), session=2, try_=1, pid=1),
    ]
    logged(folder, events)
    logged(folder, [ContainersFound(containers=("c",)), ReconcileClosed()], attempt=2, first_seq=4)
    Scanner(LocalStore(home.path), index).scan_fully()
    (head,) = index.query_page(Query()).heads
    assert (head.state, head.sessions, head.restarts) == (JobState.RUNNING, 2, 1)


def remove(folder: JobFolder) -> None:
    LocalStore(folder.path.parent).remove(folder.job_id)


def test_a_pin_is_seen(home: Home, index: JobIndex) -> None:
    folder = ended(home, JOBS[0])
    scan = Scanner(LocalStore(home.path), index)
    scan.scan_fully()
    write_json(folder.pinned, {"actor": "ann"})
    scan.scan_fully()
    (head,) = index.query_page(Query()).heads
    assert head.pinned


BAD: Sequence[tuple[str, Any]] = [
    ("is not JSON", "{"),
    ("is not JSON", b"\xff\xfe"),
    ("has no version", "[]"),
    ("has version 99", '{"version": 99, "tony_version": "9"}'),
    ("is not a valid job", '{"version": 1}'),
    ("nested", "[" * 100_000),
    ("larger than 8 MiB", b" " * ((8 << 20) + 1)),
]


@pytest.mark.parametrize(("why", "content"), BAD)
def test_a_damaged_job_directory_is_listed_and_stops_no_scan(
    home: Home, index: JobIndex, why: str, content: str | bytes
) -> None:
    """With its reason, and its owner as far as the file system knows; repaired, it is as any other."""
    for job in JOBS[:3]:
        ended(home, job)
    folder = home.job(JOBS[1])
    whole = folder.job.read_bytes()
    folder.job.write_bytes(content if isinstance(content, bytes) else content.encode())
    scan = Scanner(LocalStore(home.path), index)
    scan.scan_fully()
    assert states(index) == {"1": "succeeded", "2": "damaged", "3": "succeeded"}
    (head,) = index.query_page(Query(state="damaged")).heads
    assert why in head.damaged or why == "nested"
    assert head.user != ""
    folder.job.write_bytes(whole)
    scan.scan_fully()
    assert states(index)["2"] == "succeeded"


def test_entries_that_cannot_be_job_directories(home: Home, index: JobIndex) -> None:
    """A pipe, a folder, a link in place of a file: nothing hangs, nothing is followed."""
    for job in JOBS[:4]:
        ended(home, job)
        home.job(job).job.unlink()
    os.mkfifo(home.job(JOBS[0]).job)
    home.job(JOBS[1]).job.mkdir()
    home.job(JOBS[2]).job.symlink_to("/etc/passwd")
    (home.jobs / JOBS[6]).symlink_to(home.jobs / JOBS[3])
    Scanner(LocalStore(home.path), index).scan_fully()
    assert states(index) == {"1": "damaged", "2": "damaged", "3": "damaged", "4": "damaged"}
    assert "root:" not in " ".join(head.damaged for head in index.query_page(Query()).heads)


def test_one_that_hangs(home: Home, index: JobIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said to, and the rest is shown."""
    for job in JOBS[:6]:
        ended(home, job)
    free = threading.Event()

    class Hanging(LocalStore):
        def hold(self, path: str) -> JobDirectory | None:
            if JOBS[2] in path:
                free.wait()
            return super().hold(path)

    monkeypatch.setattr(scanner, "MAX_PAUSE_SECONDS", 0.3)
    try:
        Scanner(Hanging(home.path), index).scan_fully()
    finally:
        free.set()
    assert {day for day, state in states(index).items() if state == "damaged"} == {"3"}
    assert len(states(index)) == 6


def test_a_location_that_does_not_answer_damages_nothing(home: Home, index: JobIndex) -> None:
    """What is known stays as it is; the scan says what is wrong."""
    ended(home, JOBS[0])
    recorded(home, JOBS[1])

    class Away(LocalStore):
        away = False

        def _answer(self) -> None:
            if self.away:
                raise StorageError("no daemon answers")

        def list(self, path: str = "") -> Sequence[Item]:
            self._answer()
            return super().list(path)

        def find(self, path: str) -> Item | None:
            self._answer()
            return super().find(path)

    store = Away(home.path)
    scan = Scanner(store, index)
    scan.scan_fully()
    before = states(index)
    store.away = True
    for look in (scan.scan_fully, scan.scan_quickly):
        with pytest.raises(StorageError, match="no daemon answers"):
            look()
    assert states(index) == before == {"1": "succeeded", "2": "submitted"}


def test_folders_by_date_and_of_the_original(tmp_path: Path, index: JobIndex) -> None:
    """All of these may lie in one location."""
    place = Home(tmp_path / "elsewhere")
    root = tmp_path / "shared"
    for number, job in enumerate(JOBS[:3]):
        folder = ended(place, job)
        target = root / build_dated_path(job, 1_700_000_000.0 + number * 86_400 * 40)
        target.parent.mkdir(parents=True)
        folder.path.rename(target)
    apps = [f"application_1528151234567_{number:04d}" for number in range(3)]
    legacy_histories.lay_down(
        root / "intermediate" / apps[0],
        legacy_histories.whole(),
        f"{apps[0]}-{legacy_histories.BEGAN}-bo.jhist.inprogress",
    )
    legacy_histories.lay_down(
        root / "finished/2018/06/05" / apps[1], legacy_histories.whole(), legacy_histories.ended_name(app=apps[1])
    )
    legacy_histories.lay_down(
        root / "finished/2018/06/05" / apps[2], [], legacy_histories.ended_name(app=apps[2]), "<x"
    )
    scan = Scanner(LocalStore(root), index)
    scan.scan_fully()
    heads = {head.job: head for head in index.query_page(Query()).heads}
    assert set(heads) == {*JOBS[:3], *apps}
    assert [heads[app].state for app in apps[:2]] == [JobState.RUNNING, JobState.SUCCEEDED]
    assert [bool(heads[app].damaged) for app in apps] == [False, False, True]
    assert index.find_entry(JOBS[1]).path == f"2023/12/24/{JOBS[1]}"  # type: ignore[union-attr]
    new = ended(place, JOBS[5])
    target = root / build_dated_path(JOBS[5], 1_800_000_000.0)
    target.parent.mkdir(parents=True)
    new.path.rename(target)
    scan.scan_quickly()
    assert JOBS[5] in {head.job for head in index.query_page(Query()).heads}


def test_a_store_of_fsspec(tmp_path: Path, index: JobIndex) -> None:
    """Where folders have no times, jobs that have ended are read once."""
    place = Home(tmp_path / "elsewhere")
    store: FileStore = FsspecStore(f"memory://history-{uuid.uuid4()}")
    for job in JOBS[:2]:
        folder = ended(place, job)
        for file in (folder.job, folder.summary):
            store.write(f"2026/01/0{job[13]}/{job}/{file.name}", file)
    scan = Scanner(store, index)
    scan.scan_fully()
    assert states(index) == {"1": "succeeded", "2": "succeeded"}
    store.write(f"2026/01/01/{JOBS[0]}/job.json", b"not read again")
    scan.scan_fully()
    scan.scan_quickly()
    assert states(index)["1"] == "succeeded"
    store.remove(f"2026/01/01/{JOBS[0]}")
    scan.scan_fully()
    assert states(index) == {"2": "succeeded"}


class Counting(FsspecStore):
    """A store in memory that records its calls. A folder in `goes` disappears as soon as it has been listed."""

    def __init__(self) -> None:
        super().__init__(f"memory://history-{uuid.uuid4()}")
        self.listed: list[str] = []
        self.found: list[str] = []
        self.opened: list[str] = []
        self.goes = ""

    def list(self, path: str = "") -> Sequence[Item]:
        self.listed.append(path)
        found = super().list(path)
        if path and path == self.goes:
            self.remove(path)
        return found

    def find(self, path: str) -> Item | None:
        self.found.append(path)
        return super().find(path)

    def read_pieces(self, path: str, offset: int = 0) -> Iterator[bytes]:
        self.opened.append(path)
        return super().read_pieces(path, offset)

    def asked_by(self, look: Callable[[], None]) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
        """What a look listed, looked for and opened."""
        self.listed, self.found, self.opened = [], [], []
        look()
        return [*self.listed], [*self.found], [*self.opened]


class Bucket:
    """A store in which folders have no times, with records made here."""

    def __init__(self, tmp_path: Path) -> None:
        self.store = Counting()
        self._home = Home(tmp_path / "elsewhere")
        self._records: dict[bool, JobFolder] = {}

    def lay_down(self, parent: str, *jobs: str, over: bool = True) -> None:
        if over not in self._records:
            folder = ended(self._home, JOBS[0]) if over else recorded(self._home, JOBS[1])[0]
            logged(folder, [Started(task=TaskId("worker", 0), session=1, try_=1, pid=1)])
            self._records[over] = folder
        for job in jobs:
            for file in self._records[over].path.iterdir():
                if file.is_file():
                    self.store.write(f"{parent}/{job}/{file.name}", file)


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """An empty one. That time passes is no reason to look for days in it."""
    monkeypatch.setattr(scanner, "_DAYS_FRESH_SECONDS", 1e9)
    return Bucket(tmp_path)


def all_states(index: JobIndex) -> dict[str, str]:
    """Job -> how it stands."""
    heads = index.query_page(Query(most=1000)).heads
    return {head.job: "damaged" if head.damaged else head.state.value for head in heads}


def many(number: int, day: int = 1) -> list[str]:
    return [f"local-202601{day:02d}-{each:06d}-0a1b2c" for each in range(number)]


def test_the_cost_of_a_quick_scan_does_not_grow_with_old_jobs(bucket: Bucket, index: JobIndex) -> None:
    """Where requests cost money: one for each folder in which something new can be, and a few for running jobs."""
    bucket.lay_down("jobs", *many(2))
    bucket.lay_down("jobs", *many(2, day=20), over=False)
    bucket.lay_down("2025/12/31", *many(2, day=2))
    scan = Scanner(bucket.store, index)
    scan.scan_fully()
    scan.scan_quickly()
    few = bucket.store.asked_by(scan.scan_quickly)
    assert sorted(few[0]) == ["", "2025/12/31", "jobs", *(f"jobs/{job}" for job in many(2, day=20))]
    bucket.lay_down("jobs", *many(60))
    bucket.store.write(f"jobs/{many(1, day=25)[0]}/am.log", b"its job.json is missing")
    for day in range(10, 20):
        bucket.lay_down(f"2025/11/{day}", *many(3, day=day))
    scan.scan_fully()
    scan.scan_quickly()
    before = scan.requests
    listed, found, opened = bucket.store.asked_by(scan.scan_quickly)
    assert sorted(listed) == sorted([*few[0], f"jobs/{many(1, day=25)[0]}"])  # which may become whole yet
    assert (found, opened) == ([], [])
    assert scan.requests - before == len(listed)


def test_a_quick_scan_finds_new_jobs(bucket: Bucket, index: JobIndex) -> None:
    """Running or ended, in a state directory or a day's folder; each is read once."""
    bucket.lay_down("jobs", *many(3))
    bucket.lay_down("2026/01/01", *many(2, day=5))
    scan = Scanner(bucket.store, index)
    scan.scan_fully()
    (new,), (moved,), (late,) = many(1, day=8), many(1, day=9), many(1, day=10)
    bucket.lay_down("jobs", new, over=False)
    bucket.lay_down("2026/01/01", moved)
    listed, _, opened = bucket.store.asked_by(scan.scan_quickly)
    assert (listed.count(f"jobs/{new}"), opened.count(f"jobs/{new}/job.json")) == (1, 1)
    assert all_states(index) == dict.fromkeys([*many(3), *many(2, day=5), moved], "succeeded") | {new: "running"}
    assert bucket.store.asked_by(scan.scan_quickly)[2] == []
    bucket.lay_down("jobs", new)
    bucket.lay_down("intermediate", late, over=False)
    scan.scan_quickly()
    assert (all_states(index)[new], all_states(index)[late]) == ("succeeded", "running")


def test_an_empty_store_gets_its_first_job(bucket: Bucket, index: JobIndex) -> None:
    """Its folders are there at once."""
    scan = Scanner(bucket.store, index)
    scan.scan_fully()
    scan.scan_quickly()
    bucket.lay_down("jobs", JOBS[0], over=False)
    scan.scan_quickly()
    assert states(index) == {"1": "running"}


def test_an_incomplete_job_directory_is_read_again_when_it_grows(bucket: Bucket, index: JobIndex) -> None:
    """It is damaged, and listed again, but read again only when there is more of it."""
    scan = Scanner(bucket.store, index)
    scan.scan_fully()
    bucket.store.write(f"jobs/{JOBS[0]}/work/model", b"of no record yet")
    scan.scan_quickly()
    assert states(index) == {}
    bucket.store.write(f"jobs/{JOBS[0]}/am.log", b"x")
    scan.scan_quickly()
    assert states(index) == {"1": "damaged"}
    bucket.store.write(f"jobs/{JOBS[0]}/job.json", b"{")
    assert bucket.store.asked_by(scan.scan_quickly)[2] == [f"jobs/{JOBS[0]}/job.json"]
    assert bucket.store.asked_by(scan.scan_quickly)[2] == []
    bucket.lay_down("jobs", JOBS[0], over=False)
    scan.scan_quickly()
    assert states(index) == {"1": "running"}
    assert bucket.store.asked_by(scan.scan_quickly)[2] == []


def test_many_that_run_take_turns(bucket: Bucket, index: JobIndex) -> None:
    """None is forgotten, and one look asks for a few."""
    jobs = many(25)
    bucket.lay_down("jobs", *jobs, over=False)
    for job in many(25, day=2):
        bucket.store.write(f"jobs/{job}/work/model", b"of no record")
    scan = Scanner(bucket.store, index)
    scan.scan_fully()
    for _ in range(5):
        scan.scan_quickly()
    bucket.lay_down("jobs", *jobs)
    for _ in range(5):
        listed, *_ = bucket.store.asked_by(scan.scan_quickly)
        assert len(listed) == 2 + 10
    assert all_states(index) == dict.fromkeys(jobs, "succeeded")


def test_the_end_of_the_oldest_of_very_many_is_seen(bucket: Bucket, index: JobIndex) -> None:
    """By looks for what is new alone, though all newer ones still run."""
    jobs = many(scanner._MAX_POLLED_REMOTE + 5)
    bucket.lay_down("jobs", *jobs, over=False)
    scan = Scanner(bucket.store, index)
    scan.scan_fully()
    oldest = set(jobs) - set(index.find_still_open(bucket.store.address, scanner._MAX_POLLED_REMOTE))
    assert len(oldest) == 5
    bucket.lay_down("jobs", *oldest)
    for _ in range(-(-len(jobs) // scanner._POLLED_PER_SCAN)):
        listed, *_ = bucket.store.asked_by(scan.scan_quickly)
        assert len(listed) <= 2 + scanner._POLLED_PER_SCAN
    assert all_states(index) == dict.fromkeys(jobs, "running") | dict.fromkeys(oldest, "succeeded")


def test_one_that_becomes_whole_does_not_wait_for_those_that_run(bucket: Bucket, index: JobIndex) -> None:
    """Its turn comes before all of them had theirs."""
    bucket.lay_down("jobs", *many(60), over=False)
    scan = Scanner(bucket.store, index)
    scan.scan_fully()
    (new,) = many(1, day=8)
    bucket.store.write(f"jobs/{new}/am.log", b"its job.json is missing")
    scan.scan_quickly()
    assert all_states(index)[new] == "damaged"
    bucket.lay_down("jobs", new, over=False)
    scan.scan_quickly()
    assert all_states(index)[new] == "running"


def test_a_damaged_record_that_was_known_before(bucket: Bucket, index: JobIndex) -> None:
    """A portal that begins looks for a while whether it has been mended."""
    bucket.lay_down("jobs", JOBS[0])
    bucket.store.write(f"jobs/{JOBS[1]}/job.json", b"{")
    Scanner(bucket.store, index).scan_fully()
    scan = Scanner(bucket.store, index)
    scan.scan_fully()
    scan.scan_quickly()
    assert states(index) == {"1": "succeeded", "2": "damaged"}
    bucket.lay_down("jobs", JOBS[1])
    scan.scan_quickly()
    assert states(index) == {"1": "succeeded", "2": "succeeded"}


@pytest.mark.parametrize("over", [True, False])
def test_a_job_directory_removed_while_it_is_read(bucket: Bucket, index: JobIndex, over: bool) -> None:
    """It is gone, not damaged, whatever else was in it."""
    bucket.lay_down("jobs", *JOBS[:2], over=over)
    bucket.store.write(f"jobs/{JOBS[0]}/am.log", b"x")
    bucket.store.goes = f"jobs/{JOBS[0]}"
    Scanner(bucket.store, index).scan_fully()
    assert states(index) == {"2": "succeeded" if over else "running"}


def test_a_full_scan_reads_no_ended_job_again(bucket: Bucket, index: JobIndex) -> None:
    """Only folders, and jobs that run or are damaged."""
    bucket.lay_down("jobs", *many(30))
    bucket.lay_down("jobs", *many(3, day=2), over=False)
    scan = Scanner(bucket.store, index)
    scan.scan_fully()
    first, lasting = scan.requests, scan.lasting
    scan.scan_fully()
    assert (first - 30, scan.requests - first) == (lasting, lasting)


def test_a_job_that_moves_to_a_new_day(bucket: Bucket, index: JobIndex) -> None:
    """Without an event: it is found as soon as it is missed, without a full scan."""
    bucket.lay_down("finished/2026/01/01", JOBS[5])
    bucket.lay_down("intermediate", JOBS[0], over=False)
    scan = Scanner(bucket.store, index)
    scan.scan_fully()
    scan.scan_quickly()
    bucket.store.remove(f"intermediate/{JOBS[0]}")
    bucket.lay_down("finished/2026/01/02", JOBS[0])
    scan.scan_quickly()
    scan.scan_quickly()
    assert states(index) == {"1": "succeeded", "6": "succeeded"}


def test_a_new_job_does_not_wait_for_the_end_of_a_look_at_everything(bucket: Bucket, index: JobIndex) -> None:
    """Nor is it forgotten at that end."""
    bucket.lay_down("jobs", JOBS[0])
    bucket.lay_down("2026/01/01", JOBS[1])
    scan = Scanner(bucket.store, index)
    scan.scan_fully()
    seen = []

    def between() -> None:
        bucket.lay_down("jobs", JOBS[2], over=False)
        scan.scan_quickly()
        seen.append(states(index).get("3"))

    scan.scan_fully(between)
    assert seen == ["running", "running"]
    assert states(index) == {"1": "succeeded", "2": "succeeded", "3": "running"}


def test_one_job_in_two_locations(tmp_path: Path, index: JobIndex) -> None:
    """It is there once, as the one says who knows how it ended."""
    first, second = Home(tmp_path / "a"), Home(tmp_path / "b")
    recorded(first, JOBS[0])
    ended(second, JOBS[0])
    scans = [Scanner(LocalStore(each.path), index) for each in (first, second)]
    for _ in range(2):
        for scan in scans:
            scan.scan_fully()
            scan.scan_quickly()
        assert states(index) == {"1": "succeeded"}
    assert index.find_entry(JOBS[0]).place == str(second.path)  # type: ignore[union-attr]


def test_the_text_read_from_a_job_is_bounded(home: Home, index: JobIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    running, _ = recorded(home, JOBS[0])
    logged(
        running,
        [SessionOpened(session=1, reason="x" * 200_000), Started(task=TaskId("a", 0), session=1, try_=1, pid=1)],
    )
    monkeypatch.setattr(record_reader, "_TAIL_BYTES", 300)
    Scanner(LocalStore(home.path), index).scan_fully()
    assert states(index) == {"1": "running"}

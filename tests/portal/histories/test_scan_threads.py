"""How often a location is looked through."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tony.errors import StorageError
from tony.portal.histories import scan_threads
from tony.portal.histories.scan_threads import (
    FULL_SCAN_SECONDS,
    ScanThreads,
    compute_full_pause,
    compute_quick_pause,
)
from tony.portal.histories.scanner import Scanner
from tony.portal.job_index.index import JobIndex
from tony.storage.stores.fsspec_store import FsspecStore
from tony.storage.stores.local_store import LocalStore
from tony.storage.stores.store_interface import FileStore, Item

#: Seconds that a test waits for what must happen.
CEILING = 30.0


class Refusing(FsspecStore):
    """One of whose folders may not be read. It knows how often it was asked for that, and for everything's top."""

    def __init__(self, refused: str) -> None:
        super().__init__(f"memory://watched-{uuid.uuid4()}")
        self.refused = refused
        self.tries = self.looks = 0
        self.looked = threading.Condition()

    def list(self, path: str = "") -> Sequence[Item]:
        with self.looked:
            self.tries += path == self.refused
            self.looks += not path
            self.looked.notify_all()
        if path == self.refused:
            raise StorageError("AccessDenied")
        return super().list(path)

    def wait_looks(self, number: int) -> None:
        """Until so many more have begun: then all but the last have ended."""
        with self.looked:
            wanted = self.looks + number
            assert self.looked.wait_for(lambda: self.looks >= wanted, CEILING)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[JobIndex]:
    made = JobIndex(tmp_path / "index.db")
    yield made
    made.close()


@pytest.fixture
def paid() -> FileStore:
    return FsspecStore(f"memory://watched-{uuid.uuid4()}")


def test_new_jobs_are_found_within_five_seconds(tmp_path: Path, paid: FileStore) -> None:
    """In every kind of store, if a scan has its usual cost: one request a folder, and ten for running jobs."""
    for store in (LocalStore(tmp_path), paid):
        assert compute_quick_pause(store, took=0.5, requests=14) < 5.0


def test_looks_that_cost_much_come_seldom(tmp_path: Path, paid: FileStore) -> None:
    """Requests for names have a price: four a second for what is new, and one for everything."""
    for requests in (100, 1_000):
        assert requests / compute_quick_pause(paid, 0.0, requests) <= 4.0
        assert compute_quick_pause(LocalStore(tmp_path), 0.0, requests) < 5.0
    assert compute_full_pause(paid, 4_000) == 4_000.0
    assert compute_full_pause(paid, 10) == compute_full_pause(LocalStore(tmp_path), 1_000_000) == FULL_SCAN_SECONDS
    assert compute_full_pause(paid, 1_000_000) < 86_400.0


def test_looks_that_take_long_leave_time_for_others(tmp_path: Path, paid: FileStore) -> None:
    """A folder here is read with our processor, so it rests longer than one that is waited for."""
    assert compute_quick_pause(LocalStore(tmp_path), 10.0, 0) > compute_quick_pause(paid, 10.0, 0) > 10.0


def test_a_look_at_everything_that_fails_is_not_repeated_at_once(
    index: JobIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests have a price then, too. What is new is seen meanwhile, and people are told why not all is known."""
    store = Refusing("2026/01/01")
    for day in range(1, 6):
        store.write(f"2026/01/0{day}/local-2026010{day}-000000-0a1b2c/am.log", b"x")
    monkeypatch.setattr(scan_threads, "_RETRY_SECONDS", 0.0)
    monkeypatch.setattr(scan_threads, "_COSTLY_SECONDS", 0.0)
    monkeypatch.setattr(scan_threads, "_QUICK_SCANS_PER_SECOND", 1e9)
    monkeypatch.setattr(scan_threads, "_FULL_SCANS_PER_SECOND", 1e-9)
    watches = ScanThreads(index, [store])
    watches.start()
    try:
        store.wait_looks(4)
        store.write("2026/01/05/local-20260105-000001-0a1b2c/am.log", b"x")
        store.wait_looks(4)
        assert store.tries == 1
        assert len([*index.iterate_ids(store.address)]) == 5
        assert watches.problems == (f"{store.address}: AccessDenied",)
    finally:
        watches.close()


def test_a_failed_scan_has_its_cost(index: JobIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    """As any other, if a folder fails after others were listed."""
    monkeypatch.setattr(scan_threads, "_QUICK_SCANS_PER_SECOND", 1e-9)
    store = Refusing("intermediate")
    store.write("jobs/x/am.log", b"x")
    store.write("intermediate/x/am.log", b"x")
    assert index.claim()
    watch = scan_threads._WatchedLocation(Scanner(store, index))
    with pytest.raises(StorageError, match="AccessDenied"):
        ScanThreads(index, [])._scan_quickly(watch)
    assert watch.quick_at > 1e8


def test_a_failed_scan_is_repeated_as_soon_as_its_cost_allows(tmp_path: Path, paid: FileStore) -> None:
    """At once, if it made few requests: the whole store may have been away for a moment."""
    assert compute_full_pause(paid, 1, failed=True) == 5.0
    assert compute_full_pause(LocalStore(tmp_path), 1_000_000, failed=True) == 5.0
    assert compute_full_pause(paid, 4_000, failed=True) == 4_000.0
    assert compute_full_pause(paid, 1_000_000, failed=True) < 86_400.0

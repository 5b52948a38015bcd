"""Copies of records from elsewhere: what is copied is bounded before anything of it is written."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.portal.histories.test_scanner import JOBS, ended
from tony.errors import RecordError, StorageError
from tony.model.state_directory import Home, JobFolder
from tony.portal.histories import job_dir_copies as module
from tony.portal.histories.history_layouts import RecordLocation
from tony.portal.histories.job_dir_copies import RecordCache
from tony.portal.histories.record_reader import read
from tony.portal.job_index.index_schema import IndexEntry
from tony.storage.stores.local_store import LocalStore
from tony.storage.stores.store_interface import Item


@pytest.fixture
def record(tmp_path: Path) -> JobFolder:
    return ended(Home(tmp_path / "theirs"), JOBS[0])


def fetch(record: JobFolder, tmp_path: Path, store: LocalStore | None = None) -> JobFolder:
    brought, entry, store = RecordCache(tmp_path / "brought"), entry_of(record), store or store_of(record)
    folder = brought.find_folder(entry)
    brought.fetch(store, entry, folder)
    return folder


def store_of(record: JobFolder) -> LocalStore:
    return LocalStore(record.path.parent.parent)


def entry_of(record: JobFolder) -> IndexEntry:
    store, path = store_of(record), f"jobs/{record.job_id}"
    item = store.find(path)
    assert item is not None
    found = read(store, RecordLocation(path=path, item=item))
    assert found is not None
    return found


def allocated(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_a_long_event_log_is_refused_before_it_is_copied(record: JobFolder, tmp_path: Path) -> None:
    """Sparse files cost their writer nothing; the copy would fill the disk of the portal."""
    for number in range(1, 5):
        with record.events(number).open("ab") as file:
            file.truncate(300 << 20)
    with pytest.raises(RecordError, match=r"1,200 MiB in 4 files\. .* 1,024 MiB in 1,000 files"):
        fetch(record, tmp_path)
    assert allocated(tmp_path / "brought") == 0


def test_many_files_of_an_event_log_are_refused(
    record: JobFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes a place in the table of files."""
    monkeypatch.setattr(module, "_MAX_SEGMENTS", 2)
    for number in range(1, 4):
        record.events(number).touch()
    with pytest.raises(RecordError, match="in 3 files"):
        fetch(record, tmp_path)


def test_files_that_grow_after_they_were_listed_are_bounded(
    record: JobFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Growing(LocalStore):
        def list(self, path: str = "") -> Sequence[Item]:
            found = super().list(path)
            for number in range(1, 5):
                with record.events(number).open("ab") as file:
                    file.truncate(1000)
            return found

    monkeypatch.setattr(module, "MAX_FOREIGN_LISTED_LOG_BYTES", 1500)
    for number in range(1, 5):
        record.events(number).write_bytes(b"x")
    folder = fetch(record, tmp_path, Growing(record.path.parent.parent))
    assert sum(path.stat().st_size for path in folder.path.glob("events.*")) == 1500


def test_removed_event_log_files_are_removed_from_the_cache(record: JobFolder, tmp_path: Path) -> None:
    """Otherwise a file that is renamed again and again fills the disk."""
    record.summary.unlink()
    record.events(1).write_bytes(b"x")
    fetch(record, tmp_path)
    os.rename(record.events(1), record.events(7))
    folder = fetch(record, tmp_path)
    assert [path.name for path in folder.path.glob("events.*")] == ["events.7.jsonl"]


def test_logs_are_bounded(record: JobFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one task, and of all tasks that were looked at: the others come again when they are looked at."""
    monkeypatch.setattr(module, "_MAX_TASK_LOG_BYTES", 1000)
    monkeypatch.setattr(module, "_MAX_RECORD_LOG_BYTES", 2500)
    record.logs.mkdir(exist_ok=True)
    for number in range(4):
        for stream in ("out", "err"):
            (record.logs / f"worker-{number}.s1.t1.{stream}").write_bytes(b"x" * 700)
    brought, entry = RecordCache(tmp_path / "brought"), entry_of(record)
    folder = brought.find_folder(entry)
    for number in range(4):
        brought.fetch_logs(store_of(record), entry, folder, f"worker:{number}")
        assert sum(path.stat().st_size for path in folder.logs.glob(f"worker-{number}.*")) == 1000
        assert allocated(folder.logs) <= 2500


def test_times_are_copied_with_their_logs(record: JobFolder, tmp_path: Path) -> None:
    """And no other hidden file."""
    record.logs.mkdir(exist_ok=True)
    for name in ("worker-3.s1.t1.out", ".worker-3.s1.t1.out.times", ".worker-3.s1.t1.out.start", ".lock"):
        (record.logs / name).write_bytes(b"x" * 10)
    brought, entry = RecordCache(tmp_path / "brought"), entry_of(record)
    folder = brought.find_folder(entry)
    brought.fetch_logs(store_of(record), entry, folder, "worker:3")
    assert sorted(path.name for path in folder.logs.glob("*worker-3*")) == [
        ".worker-3.s1.t1.out.times",
        "worker-3.s1.t1.out",
    ]
    assert not (folder.logs / ".lock").exists()


def test_an_unreadable_folder_of_logs(record: JobFolder, tmp_path: Path) -> None:
    class Refusing(LocalStore):
        def list(self, path: str = "") -> Sequence[Item]:
            if path.endswith("/logs"):
                raise StorageError(f"cannot read {path}: Permission denied") from PermissionError()
            return super().list(path)

    record.logs.mkdir(exist_ok=True)
    assert fetch(record, tmp_path, Refusing(record.path.parent.parent)).summary.exists()


def test_indexes_of_times_take_no_place_of_logs(
    record: JobFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit counts logs; each that is copied has its index."""
    monkeypatch.setattr(module, "_MAX_LOGS", 2)
    record.logs.mkdir(exist_ok=True)
    for path in record.logs.iterdir():
        path.unlink()
    logs = [f"worker-3.s{session}.t1.out" for session in (1, 2, 3)]
    for name in logs:
        (record.logs / name).write_bytes(b"x")
        (record.logs / f".{name}.times").write_bytes(b"x")
    brought, entry = RecordCache(tmp_path / "brought"), entry_of(record)
    folder = brought.find_folder(entry)
    brought.fetch_logs(store_of(record), entry, folder, "worker:3")
    copied = {path.name for path in folder.logs.iterdir()}
    kept = copied & {*logs}
    assert len(kept) == 2
    assert copied == kept | {f".{name}.times" for name in kept}

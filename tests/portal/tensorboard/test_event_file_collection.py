"""Where event files are: in working directories, and where settings say; of others only what is theirs."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.portal.tensorboard.test_tensorboard_manager import JOB, OTHER, write_events
from tests.web.sample_jobs import keep
from tony.errors import StorageError
from tony.history.job_record import read_job
from tony.model.job_spec import Role
from tony.model.state_directory import Home, JobFolder
from tony.model.submission_record import JobRecord
from tony.portal.histories.job_dir_location import JobDirLocation, find_owner
from tony.portal.tensorboard import event_file_collection
from tony.portal.tensorboard.event_file_collection import find, gather
from tony.storage.stores.local_store import LocalStore
from tony.storage.stores.store_interface import FileStore

#: The user id of another user, who is in no password file.
THEIRS = 54321


def no_store(address: str) -> FileStore:
    raise AssertionError(address)


def any_address(address: str) -> bool:
    return True


def held(folder: JobFolder) -> JobDirLocation:
    """The record of another user, as a portal has it that was started with the history in which it lies."""
    history = LocalStore(folder.path.parent.parent)
    return JobDirLocation(folder=folder, store=history.hold(f"jobs/{folder.job_id}"), path=f"jobs/{folder.job_id}")


def job_of(folder: JobFolder) -> JobRecord:
    record = read_job(folder)
    assert record is not None
    return record


def test_where_settings_say(tmp_path: Path) -> None:
    """`progress_summaries` and `TB_LOG_DIR`, placeholders filled in, each place once."""
    folder = keep(Home(tmp_path / "home"), JOB)
    for index in range(2):
        write_events(tmp_path / "runs" / JOB / str(index))
    write_events(tmp_path / "logs" / "eval")
    record = job_of(folder)
    role = Role(
        instances=2,
        command="true",
        progress_summaries=f"{tmp_path}/runs/{{job_id}}/{{index}}",
        env={"TB_LOG_DIR": f"{tmp_path}/logs"},
    )
    record = replace(record, spec=replace(record.spec, roles={"worker": role}))
    found = find(JobDirLocation(folder=folder, own=True), record, no_store, any_address)
    assert ["eval", "worker:0", "worker:1"] == sorted(file.run for file in found.files)
    assert len(found.searched) == len(set(found.searched)) == 4
    assert () == found.problems
    gather({JOB: found}, tmp_path / "one")
    shown = sorted(str(path.relative_to(tmp_path / "one").parent) for path in (tmp_path / "one").rglob("*tfevents*"))
    assert ["eval", "worker:0", "worker:1"] == shown
    assert all(path.is_symlink() for path in (tmp_path / "one").rglob("*tfevents*"))


def test_in_ones_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`~` is the home directory of the portal's user, and not that of other jobs' owners."""
    folder = keep(Home(tmp_path / "home"), JOB)
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    write_events(tmp_path / "me" / "runs")
    record = job_of(folder)
    record = replace(record, spec=replace(record.spec, env={"TB_LOG_DIR": "~/runs"}))
    assert len(find(JobDirLocation(folder=folder, own=True), record, no_store, any_address).files) == 1
    assert find(held(folder), record, no_store, any_address).searched == ("work",)


def test_in_another_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copied from there, only what belongs to the owner of a record that is not ours, and not without end."""
    place = "hdfs:///user/ann/logs"
    there = LocalStore(tmp_path / "there")
    content = write_events(tmp_path / "there" / "train").read_bytes()
    (tmp_path / "there" / "train" / "projector_config.pbtxt").write_text("no event file")
    folder = keep(Home(tmp_path / "home"), JOB, env={"TB_LOG_DIR": place})
    asked: list[str] = []

    def store_of(address: str) -> FileStore:
        asked.append(address)
        return there

    found = find(JobDirLocation(folder=folder, own=True), job_of(folder), store_of, any_address)
    assert ([place], ["train"], len(content)) == (asked, [file.run for file in found.files], found.size)
    gather({JOB: found, OTHER: found}, tmp_path / "both")
    copies = [path for path in (tmp_path / "both").rglob("*") if path.is_file()]
    assert [content, content] == [path.read_bytes() for path in copies]
    assert {JOB, OTHER} == {path.relative_to(tmp_path / "both").parts[0] for path in copies}

    monkeypatch.setattr(event_file_collection, "find_owner", lambda store, path: "another")
    assert () == find(held(folder), job_of(folder), store_of, any_address).files
    monkeypatch.setattr(event_file_collection, "_MAX_BYTES", 100)
    with pytest.raises(StorageError, match="the limit for copies"):
        gather({JOB: found}, tmp_path / "bounded")


def test_records_of_others(tmp_path: Path) -> None:
    """What lies in the record is copied, so that no link can be put in its place; no other folder is looked into."""
    secret = tmp_path / "secret"
    folder = keep(Home(tmp_path / "home"), JOB, env={"TB_LOG_DIR": str(secret)})
    own = write_events(folder.work / "worker-0" / "logs")
    write_events(secret)
    found = find(held(folder), job_of(folder), no_store, any_address)
    at = own.relative_to(folder.path.parent.parent)
    assert [str(at)] == [file.path for file in found.files]
    assert len(found.problems) == 1
    assert found.problems[0].startswith(f"{secret}: it is outside of the job directory.")
    gather({JOB: found}, tmp_path / "shown")
    copies = list((tmp_path / "shown").rglob("*tfevents*"))
    assert [(False, own.read_bytes())] == [(path.is_symlink(), path.read_bytes()) for path in copies]
    content = own.read_bytes()
    own.unlink()
    own.symlink_to(secret / own.name)
    with pytest.raises(StorageError):
        gather({JOB: found}, tmp_path / "swapped")
    if os.geteuid() == 0:
        own.unlink()
        own.write_bytes(content)
        for path in (folder.path, folder.work, own.parent.parent, own.parent):
            os.chown(path, THEIRS, THEIRS)
        assert find(held(folder), job_of(folder), no_store, any_address).files == ()  # root's, not theirs


def test_the_owner_of_a_record_is_that_of_its_directory(tmp_path: Path) -> None:
    """A file in it can be another user's, renamed or linked to this place."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    folder = keep(Home(tmp_path / "home"), JOB)
    os.chown(folder.path, THEIRS, THEIRS)  # job.json stays the victim's
    record = held(folder)
    assert find_owner(record.store, record.path) == str(THEIRS)
    assert record.store is not None
    assert record.store.find(f"{record.path}/job.json") is None


def test_too_many_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said that not all was looked at."""
    folder = keep(Home(tmp_path / "home"), JOB)
    write_events(folder.work / "worker-0" / "logs")
    monkeypatch.setattr(event_file_collection, "_MAX_NAMES", 0)
    found = find(JobDirLocation(folder=folder, own=True), job_of(folder), no_store, any_address)
    assert "not searched" in " ".join(found.problems)

"""A history of this machine that other users can write: no link in it is followed, a directory stays itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tony.errors import StorageError
from tony.storage.stores.local_store import JobDirectory, LocalStore

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


@pytest.fixture
def history(tmp_path: Path) -> LocalStore:
    """A history with one job; beside it lies what is not of it."""
    for folder in ("history/jobs/one/logs", "outside/one/logs"):
        (tmp_path / folder).mkdir(parents=True)
    for place in ("history/jobs", "outside"):
        (tmp_path / place / "one/job.json").write_text(place)
        (tmp_path / place / "one/logs/a").write_text(place)
    return LocalStore(tmp_path / "history")


def hold(history: LocalStore) -> JobDirectory:
    held = history.hold("jobs/one")
    assert held is not None
    return held


@pytest.mark.parametrize("at", ["jobs", "jobs/one", "jobs/one/logs"])
def test_no_link_on_the_way_is_followed(history: LocalStore, tmp_path: Path, at: str) -> None:
    """To look, to read, to hold, to write, to remove."""
    path = tmp_path / "history" / at
    outside = tmp_path / "outside" / at.removeprefix("jobs").removeprefix("/")
    path.rename(tmp_path / "aside")
    path.symlink_to(outside)
    found = history.find(at)
    assert found is not None
    assert not found.folder
    assert not history.list(at)
    assert not history.list_files(at)
    name = "jobs/one/logs/a"
    assert (history.find(name), list(history.read_pieces(name)), history.read(name, 100)) == (None, [], None)
    if at != "jobs/one/logs":
        assert history.hold("jobs/one") is None
    with pytest.raises(StorageError, match="cannot write"):
        history.write("jobs/one/logs/a", b"new")
    with pytest.raises(StorageError, match="cannot remove"):
        history.remove(name)
    assert (tmp_path / "outside/one/logs/a").read_text() == "outside"


def test_the_root_may_be_a_link(history: LocalStore, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "history")
    assert LocalStore(tmp_path / "link").read("jobs/one/job.json", 100) == b"history/jobs"


@pytest.mark.parametrize("link", [True, False])
def test_a_held_folder_is_kept(history: LocalStore, tmp_path: Path, link: bool) -> None:
    """Whatever is at its place then, and the two are distinguished."""
    held = hold(history)
    place = tmp_path / "history/jobs/one"
    place.rename(tmp_path / "aside")
    if link:
        place.symlink_to(tmp_path / "outside/one")
    else:
        (tmp_path / "outside/one").rename(place)
    assert held.read("jobs/one/logs/a", 100) == b"history/jobs"
    assert [item.name for item in held.list("jobs/one")] == [item.name for item in held.list("jobs/one")]
    now = history.hold("jobs/one")
    assert (now is None) is link
    assert now is None or now.identity != held.identity


def test_a_held_directory_is_only_read(history: LocalStore) -> None:
    """And nothing of another job."""
    held = hold(history)
    for path in ("jobs/two/job.json", "jobs", "", "../x"):
        with pytest.raises(StorageError, match="not a path below"):
            held.read(path, 100)
    with pytest.raises(StorageError, match="read-only"):
        held.write("jobs/one/x", b"")


def test_a_held_directory_is_removed_and_no_other(history: LocalStore, tmp_path: Path) -> None:
    """If another stands in its place meanwhile, that one stays."""
    held = hold(history)
    held.remove("jobs/one/job.json")
    place = tmp_path / "history/jobs/one"
    place.rename(tmp_path / "aside")
    (tmp_path / "outside/one").rename(place)
    with pytest.raises(StorageError, match="cannot remove"):
        held.remove("jobs/one")
    assert list((tmp_path / "aside").iterdir()) == []
    assert (place / "logs/a").read_text() == "outside"
    hold(history).remove("jobs/one")
    assert not place.exists()


def test_only_plain_files_are_there(history: LocalStore, tmp_path: Path) -> None:
    place = tmp_path / "history/jobs/one"
    (place / "link").symlink_to("job.json")
    os.mkfifo(place / "pipe")
    held = hold(history)
    assert sorted(item.name for item in held.list("jobs/one")) == ["job.json", "logs"]
    for name in ("link", "pipe"):
        assert held.find(f"jobs/one/{name}") is None
        with pytest.raises(StorageError, match=r"is a link|no plain file"):
            list(held.read_pieces(f"jobs/one/{name}"))


@ROOT
def test_only_files_of_the_directorys_owner_are_read(history: LocalStore, tmp_path: Path) -> None:
    """A hard link to another user's file is that user's."""
    place = tmp_path / "history/jobs/one"
    os.chown(place / "job.json", 54321, 54321)
    os.chown(place / "logs", 54321, 54321)
    held = hold(history)
    assert held.list("jobs/one") == []
    assert (held.find("jobs/one/job.json"), held.find("jobs/one/logs")) == (None, None)
    for name in ("job.json", "logs/a"):
        with pytest.raises(StorageError, match="belongs to another user"):
            list(held.read_pieces(f"jobs/one/{name}"))


def test_descriptors_are_closed(history: LocalStore) -> None:
    """With the last reference, and after every look."""
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        held = hold(history)
        assert held.list("jobs/one")
        assert held.read("jobs/one/job.json", 100)
        with pytest.raises(OSError, match="No such file"):
            held.open("jobs/one/logs/b")
    del held
    assert len(os.listdir("/proc/self/fd")) == before

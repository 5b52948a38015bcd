"""Files by their paths, wherever they lie: every store does the same."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.hadoop.fake_webhdfs import FakeWebHdfs
from tony.errors import StorageError, TonyError, UserError
from tony.model.state_directory import Home
from tony.storage.hdfs.hdfs_store import HdfsStore
from tony.storage.stores.fsspec_store import FsspecStore
from tony.storage.stores.local_store import LocalStore
from tony.storage.stores.store_interface import PIECE, FileStore, join_path

Make = Callable[[Path], FileStore]
STORES: dict[str, Make] = {
    "folder": LocalStore,
    "memory": lambda _: FsspecStore(f"memory://stores-{uuid.uuid4()}/deep"),
    "file": lambda folder: FsspecStore(f"file://{folder}"),
}


@pytest.fixture(params=[*STORES, "hdfs"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileStore]:
    if request.param != "hdfs":
        yield STORES[request.param](tmp_path / "there")
        return
    with FakeWebHdfs() as hdfs:
        values = {"fs.defaultFS": "hdfs://127.0.0.1:8020", "dfs.namenode.http-address": f"127.0.0.1:{hdfs.port}"}
        properties = (f"<property><name>{key}</name><value>{value}</value></property>" for key, value in values.items())
        (tmp_path / "core-site.xml").write_text(f"<configuration>{''.join(properties)}</configuration>")
        monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
        monkeypatch.setenv("HADOOP_USER_NAME", "ann")
        made = HdfsStore("hdfs:///history", Home(tmp_path))
        yield made
        made.close()


def test_nothing_is_there(store: FileStore) -> None:
    assert list(store.list()) == []
    assert list(store.list("a/b")) == []
    assert store.find("a") is None
    assert store.read("a", 10) is None
    assert b"".join(store.read_pieces("a")) == b""
    store.remove("a")


def test_files_round_trip(store: FileStore, tmp_path: Path) -> None:
    """With the folders above; from bytes or from a file."""
    store.write("a/b/one", b"1234567")
    big = tmp_path / "big"
    big.write_bytes(b"x" * (PIECE + 5))
    store.write("a/two", big)
    assert {(item.name, item.folder, item.size) for item in store.list("a")} == {
        ("b", True, 0),
        ("two", False, PIECE + 5),
    }
    assert store.read("a/b/one", 7) == b"1234567"
    assert b"".join(store.read_pieces("a/b/one", 4)) == b"567"
    pieces = [len(piece) for piece in store.read_pieces("a/two")]
    assert (sum(pieces), max(pieces) <= PIECE) == (PIECE + 5, True)
    found = store.find("a/two")
    assert found is not None
    assert (found.name, found.size, found.folder) == ("two", PIECE + 5, False)
    assert found.changed > 1_600_000_000
    store.write("a/b/one", b"new")
    assert store.read("a/b/one", 7) == b"new"
    store.remove("a/b")
    assert [item.name for item in store.list("a")] == ["two"]
    store.close()


def test_a_file_over_the_limit_is_refused(store: FileStore) -> None:
    store.write("a", b"12345")
    with pytest.raises(ValueError, match="larger than"):
        store.read("a", 4)


def test_a_file_removed_after_it_was_found(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads as missing: `find` may return a cached result, and empty bytes would be a content."""
    store.write("a", b"12345")
    found = store.find("a")
    store.remove("a")
    monkeypatch.setattr(store, "find", lambda _: found)
    assert store.read("a", 5) is None
    with pytest.raises(ValueError, match="larger than"):
        store.read("a", 4)


def test_an_empty_file(store: FileStore) -> None:
    store.write("a", b"")
    assert store.read("a", 5) == b""


@pytest.mark.parametrize("path", ["..", "../x", "a/../../x", "/etc/passwd", "a\0b", "./a"])
def test_no_path_leads_outside(store: FileStore, path: str) -> None:
    for ask in (
        lambda: store.list(path),
        lambda: store.find(path),
        lambda: list(store.read_pieces(path)),
        lambda: store.write(path, b"x"),
        lambda: store.remove(path),
    ):
        with pytest.raises(StorageError):
            ask()


def test_links_of_a_folder_are_not_followed(tmp_path: Path) -> None:
    """They are seen as what they are, and a pipe does not hang."""
    store = LocalStore(tmp_path / "there")
    store.write("a/x", b"x")
    (tmp_path / "there" / "link").symlink_to("/etc/passwd")
    (tmp_path / "there" / "folder").symlink_to("/etc")
    os.mkfifo(tmp_path / "there" / "pipe")
    assert {item.name: item.folder for item in store.list()} == {
        "a": True,
        "link": False,
        "folder": False,
        "pipe": False,
    }
    for name in ("link", "pipe", "a"):
        with pytest.raises(StorageError):
            list(store.read_pieces(name))
    store.remove("folder")
    assert Path("/etc").is_dir()


def test_unsupported_addresses() -> None:
    with pytest.raises(UserError, match="nothing://"):
        FsspecStore("nothing://x/y")


def test_errors_of_a_driver_are_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    store = FsspecStore(f"memory://stores-{uuid.uuid4()}")

    def fail(*_: object, **__: object) -> object:
        raise RuntimeError("no\ncredentials")

    monkeypatch.setattr(store, "_files", type("Files", (), {"ls": fail, "info": fail, "open": fail, "rm": fail})())
    for ask in (
        lambda: store.list(),
        lambda: store.find("a"),
        lambda: list(store.read_pieces("a")),
        lambda: store.remove("a"),
    ):
        with pytest.raises(TonyError, match="no credentials"):
            ask()


def test_paths() -> None:
    """Empty parts are left out."""
    assert [join_path("", "a"), join_path("a", "b", ""), join_path()] == ["a", "a/b", ""]


def test_nothing_outside_is_removed(tmp_path: Path) -> None:
    """A folder of a location may have become a link since it was listed; the location itself stays."""
    outside = tmp_path / "outside" / "job-1"
    outside.mkdir(parents=True)
    (outside / "job.json").write_text("precious")
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "jobs").symlink_to(outside.parent)
    store = LocalStore(tmp_path / "there")
    for path in ("jobs/job-1/job.json", "jobs/job-1"):
        with pytest.raises(StorageError, match="cannot remove"):
            store.remove(path)
    with pytest.raises(StorageError, match="cannot be removed"):
        store.remove("")
    assert (outside / "job.json").read_text() == "precious"
    store.remove("jobs")
    assert outside.exists()
    assert [*(tmp_path / "there").iterdir()] == []

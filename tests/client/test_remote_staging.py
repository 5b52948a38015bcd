"""What lies in a cluster's file system is used there, or fetched once; what is wrong with it is told at submission."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.client.test_staging import FILE, Desk
from tests.facts import mentions
from tests.storage.samples import tar_of, zip_of
from tony.model.job_spec import JobSpec, Role
from tony.model.staged_files import InPlace, Placement
from tony.storage.staging.remote_files_interface import RemoteFile, RemoteFileNotFoundError, RemoteFiles, RemoteFolder


@dataclass(slots=True)
class Far(RemoteFiles):
    """A file system in memory: `hdfs://nn`. A path that ends with a slash is a folder."""

    in_place: bool
    content: dict[str, bytes] = field(default_factory=dict)
    time: int = 1
    read: list[str] = field(default_factory=list)
    closed: bool = False
    torn: bool = False

    def stat(self, address: str) -> RemoteFile | RemoteFolder:
        path = address.removeprefix("hdfs://").removeprefix("nn")
        if path in self.content:
            return self._file(path)
        below = [each for each in self.content if each.startswith(f"{path}/")]
        if not below:
            raise RemoteFileNotFoundError(f"there is no hdfs://nn{path}.")
        names = [each.removeprefix(f"{path}/") for each in below]
        folders = sorted({name.partition("/")[0] for name in names if "/" in name})
        return RemoteFolder(
            files=tuple(self._file(f"{path}/{name}") for name in names if name and "/" not in name),
            folders=tuple(folders),
        )

    def _file(self, path: str) -> RemoteFile:
        return RemoteFile(address=f"hdfs://nn{path}", size=len(self.content[path]), timestamp=self.time, public=True)

    def open(self, file: RemoteFile, length: int | None = None) -> io.BytesIO:
        self.read.append(file.address)
        data = self.content[file.address.removeprefix("hdfs://nn")]
        return io.BytesIO(data[: len(data) - 1 if self.torn else length])

    def close(self) -> None:
        self.closed = True


def archive(place: Path, kind: str = "zip") -> bytes:
    """One with a program and a link to it."""
    path = place / f"made.{kind}"
    (zip_of if kind == "zip" else tar_of)(path, {"bin/run": (b"#!/bin/sh\n", 0o755), "link": "bin/run"})
    return path.read_bytes()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_in_place(desk: Desk, tmp_path: Path) -> None:
    """Nothing is fetched, stored or kept but the head of an archive; address, size, time and rights are as they are."""
    far = Far(
        True,
        {
            "/d/x.zip": archive(tmp_path),
            "/d/big": b"0123456789",
            "/lib/a.jar": b"a",
            "/lib/b.jar": b"b",
            "/lib/in/c": b"",
        },
        time=1234567890123,
    )
    spec = JobSpec(
        source="hdfs:///d/x.zip",
        files=("hdfs:///d/x.zip::data#archive", "hdfs://nn/d/big", "hdfs:///lib", "hdfs:///lib::jars"),
        roles={"worker": Role(files=("hdfs:///d/big",)), "ps": Role()},
    )
    staged = desk.stage(spec, remote_files=lambda: far, same_host=False)
    items = staged.roles["worker"].items
    assert [(item.name, item.placement, item.suffix) for item in items] == [
        ("x.zip", Placement.ROOT, ".zip"),
        ("data", Placement.FOLDER, ".zip"),
        ("big", Placement.FILE, ""),
        ("a.jar", Placement.FILE, ""),
        ("b.jar", Placement.FILE, ""),
        ("jars/a.jar", Placement.FILE, ""),
        ("jars/b.jar", Placement.FILE, ""),
    ]
    big = items[2]
    assert big.in_place == InPlace(address="hdfs://nn/d/big", timestamp=1234567890123, public=True)
    assert (big.size, big.mode) == (10, 0o755)
    assert items[0].digest == items[1].digest
    assert len({item.digest for item in items}) == 4
    assert (desk.objects(), list(desk.folder.staged.iterdir())) == (set(), [])
    assert set(far.read) == {"hdfs://nn/d/x.zip"}
    assert far.closed
    assert mentions(desk.said, "hdfs:///lib", "subfolders")
    assert "big: 10 bytes, already in HDFS" in desk.said
    far.time += 1
    again = desk.stage(spec, remote_files=lambda: far, same_host=False)
    assert again.roles["worker"].items[2].digest != big.digest


def test_fetched(desk: Desk, tmp_path: Path) -> None:
    """For tasks of this machine: once for each content, unpacked with what may be executed and with links."""
    far = Far(False, {"/d/x.tgz": archive(tmp_path, "tgz"), "/d/run": b"#!/bin/sh\n"})
    spec = JobSpec(files=("hdfs:///d/x.tgz::data#archive", "hdfs:///d/run::bin/run"))
    laid = desk.laid(desk.stage(spec, remote_files=lambda: far))
    assert laid["data/bin/run"][1] & 0o111
    assert laid["data/link"][2] == "bin/run"
    assert laid["bin/run"][1] & 0o111
    assert laid["bin/run"][2] == b"#!/bin/sh\n"
    assert desk.stage(spec, remote_files=lambda: far)
    assert far.read.count("hdfs://nn/d/run") == 1
    assert "bin/run: 10 bytes, unchanged" in desk.said
    far.time, far.content["/d/run"] = 2, b"#!/bin/bash\n"
    assert desk.laid(desk.stage(spec, remote_files=lambda: far))["bin/run"][2] == b"#!/bin/bash\n"


def test_errors_in_remote_files(desk: Desk) -> None:
    """Each with its key, the words of the job file, the place, and what to do."""
    far = Far(True, {"/d/plain": b"x" * 600, "/lib/a": b"", "/d/z.zst": b"\x28\xb5\x2f\xfd"})
    files = (
        "hdfs:///gone",
        "hdfs:///d/plain#archive",
        "hdfs:///lib#archive",
        "hdfs:///d/z.zst#archive",
        "hdfs:///lib/a",
    )
    spec = JobSpec(source="hdfs:///lib", python="hdfs:///env.tgz", files=(*files, "hdfs:///d/plain::a"))
    problems = desk.problems(spec, remote_files=lambda: far, sources={"files": "job.toml:7"})
    said = {(p.key, p.value): p for p in problems}
    assert set(said) == {
        ("source", "hdfs:///lib"),
        ("python", "hdfs:///env.tgz"),
        ("files", "hdfs:///d/plain::a"),
        *(("files", each) for each in files[:-1]),
    }
    assert str(said["files", "hdfs:///gone"]) == "files = hdfs:///gone (job.toml:7): there is no hdfs://nn/gone."
    assert "not an archive" in said["files", "hdfs:///d/plain#archive"].message
    assert "Remove #archive" in said["files", "hdfs:///lib#archive"].message
    assert "a zstd archive, which is not supported" in said["files", "hdfs:///d/z.zst#archive"].message
    assert "it is a folder" in said["source", "hdfs:///lib"].message
    assert "there is no hdfs://nn/env.tgz" in said["python", "hdfs:///env.tgz"].message


def test_an_unknown_cluster(desk: Desk) -> None:
    """Reported once for each item; jobs without an address send no request."""

    def reject_remote_files() -> RemoteFiles:
        raise ValueError("the cluster of this file system is unknown")

    desk.write({"a": FILE})
    desk.stage(JobSpec(files=(desk.path("a"),)), remote_files=reject_remote_files)
    (problem,) = desk.problems(JobSpec(files=("hdfs:///x#optional",)), remote_files=reject_remote_files)
    assert "the cluster of this file system is unknown" in problem.message


def test_optional_files_may_be_missing(desk: Desk) -> None:
    """Here or in HDFS: they are left out with a notice; existing ones are staged."""
    far = Far(True, {"/a": b"a"})
    desk.write({"here": FILE})
    marks = (
        "hdfs:///gone#optional",
        "hdfs:///a#optional",
        desk.path("gone") + "#optional",
        desk.path("here") + "#optional",
    )
    staged = desk.stage(JobSpec(files=marks), remote_files=lambda: far)
    assert [item.name for item in staged.roles["main"].items] == ["a", "here"]
    warnings = [line for line in desk.said if line.startswith("warning")]
    assert [line.partition(" does not exist")[0] for line in warnings] == [
        "warning: hdfs:///gone",
        f"warning: {desk.path('gone')}",
    ]


def test_a_file_that_is_written_while_it_is_fetched(desk: Desk) -> None:
    """Half of it is never taken for the whole."""
    far = Far(False, {"/a": os.urandom(100)}, torn=True)
    (problem,) = desk.problems(JobSpec(files=("hdfs:///a",)), remote_files=lambda: far)
    assert "hdfs://nn/a changed while it was packed" in problem.message
    assert desk.objects() == set()

"""Logs are read by offsets, over both halves of a rotated one."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tony.jobs.directory.task_logs import TaskLogs
from tony.storage.stores.local_store import LocalStore

NAME = "worker-1.s2.t1.err"


@pytest.fixture
def logs(tmp_path: Path) -> TaskLogs:
    """Of worker:1: an older half and a newer one, and what must not be taken for its own."""
    (tmp_path / f"{NAME}.1").write_bytes(b"older one\nolder two\n")
    (tmp_path / NAME).write_bytes(b"newer \x1b[31mTHREE\x1b[0m\nnewer four")
    (tmp_path / "worker-1.s1.t1.out").write_bytes(b"")
    (tmp_path / "worker-10.s1.t1.out").write_bytes(b"of another task")
    (tmp_path / "worker-1.executor.log").write_bytes(b"our own words")
    (tmp_path / "worker-1.s3.t1.out").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "worker-1.s4.t1.out")
    return TaskLogs(LocalStore(tmp_path), "", "worker:1")


def test_the_log_files_of_a_task(logs: TaskLogs) -> None:
    """Plain files of this task's programs, rotated halves as one, in order."""
    files = asyncio.run(logs.files())
    assert [("worker-1.s1.t1.out", 0), (NAME, 51)] == [(file.name, file.size) for file in files]


@pytest.mark.parametrize(
    ("offset", "most", "data", "start"),
    [
        (0, 10, b"older one\n", 0),
        (10, 100, b"older two\nnewer \x1b[31mTHREE\x1b[0m\nnewer four", 10),
        (18, 8, b"o\nnewer ", 18),
        (-4, 100, b"four", 47),
        (1000, 10, b"", 51),
        (-1000, 5, b"older", 0),
    ],
)
def test_pieces(logs: TaskLogs, offset: int, most: int, data: bytes, start: int) -> None:
    """A piece from anywhere, and where it begins."""
    piece = asyncio.run(logs.read(NAME, offset, most))
    assert (data, start, 51) == (piece.data, piece.offset, piece.size)


@pytest.mark.parametrize(
    "name", ["worker-10.s1.t1.out", f"{NAME}.1", "../secret", "worker-1.executor.log", "worker-1.s3.t1.out", "", "x\0y"]
)
def test_other_files_are_no_log_of_the_task(logs: TaskLogs, name: str) -> None:
    """Other tasks' logs, links and everything else."""
    with pytest.raises(LookupError):
        asyncio.run(logs.read(name, 0, 10))

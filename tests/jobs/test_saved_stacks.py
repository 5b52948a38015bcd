"""The stack traces of a job that has ended."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest

from tony.errors import InfraError, SchedulerError
from tony.jobs.saved_stacks import fetch_saved_stacks, read_saved_stacks
from tony.model.state_directory import JobFolder
from tony.protocol.shared_messages import Stacks
from tony.schedulers.client_interface import LogSink, Submitter

FIRST = "##### 2026-11-27T03:06:26.631Z py-spy\n=== process 7: python\nold\n\n"
LAST = "##### 2026-11-27T03:06:51.664Z py-spy\n=== process 7: python\n    train (t.py:1)\n\n"
NONE = "##### 2026-11-27T03:06:51.664Z nothing\nthe program has just exited\n"


def test_of_each_task_the_last_ones_of_the_last_session_are_read(tmp_path: Path) -> None:
    (tmp_path / "worker-0.s1.t1.stacks").write_text(FIRST)
    (tmp_path / "worker-0.s2.t1.stacks").write_text(FIRST)
    (tmp_path / "worker-0.s2.t2.stacks").write_text(FIRST + LAST)
    (tmp_path / "worker-1.s1.t1.stacks").write_text(FIRST)
    (tmp_path / "worker-10.s2.t1.stacks").write_text(NONE)
    (tmp_path / "worker-2.s2.t1.stacks").write_text("not a dump")
    (tmp_path / "worker-0.s3.t1.out").write_text("step 1")
    found = read_saved_stacks(tmp_path, None)
    assert [each.task for each in found] == ["worker:0", "worker:2", "worker:10"]
    first, broken, empty = found
    assert (first.how, first.name) == ("py-spy", "worker-0.s2.t2.stacks")
    assert first.text == "##### 2026-11-27T03:06:51.664Z\n=== process 7: python\n    train (t.py:1)"
    assert (broken.text, empty.text) == ("", "")
    assert broken.problem
    assert "just exited" in empty.problem


def test_only_chosen_tasks_are_read(tmp_path: Path) -> None:
    for index in range(3):
        (tmp_path / f"worker-{index}.s1.t1.stacks").write_text(LAST)
    assert [each.task for each in read_saved_stacks(tmp_path, frozenset({"worker:2"}))] == ["worker:2"]


def test_without_saved_ones_there_is_nothing(tmp_path: Path) -> None:
    assert read_saved_stacks(tmp_path, None) == []
    assert read_saved_stacks(tmp_path / "logs", None) == []


class _Cluster:
    """A scheduler that keeps the logs of a job."""

    def __init__(self, files: dict[str, bytes], problem: str = "") -> None:
        self._files, self._problem = files, problem

    async def fetch(self, folder: JobFolder) -> None:
        pass

    async def fetch_logs(self, folder: JobFolder, containers: object, sink: LogSink, *, owner: str = "") -> None:
        for name, data in self._files.items():
            have = sink.find_start(name, 0, len(data))
            if have is not None:
                for offset in range(have, len(data), 7):
                    sink.put(name, 0, offset, data[offset : offset + 7])
        if self._problem:
            raise SchedulerError(self._problem)


def fetch(cluster: _Cluster, folder: Path) -> list[Stacks]:
    return asyncio.run(fetch_saved_stacks(cast(Submitter, cluster), JobFolder(folder), None))


def test_those_of_a_job_on_a_cluster_are_fetched(tmp_path: Path) -> None:
    """Of a long file only the end."""
    files = {"worker-0.s1.t1.out": b"step 1", "worker-0.s1.t1.stacks": b"x" * 1_000_000 + b"\n" + LAST.encode()}
    for problem in ("", "log aggregation is still running"):
        (found,) = fetch(_Cluster(files, problem), tmp_path)
        assert (found.task, found.how, "train (t.py:1)" in found.text) == ("worker:0", "py-spy", True)


def test_a_cluster_without_them_says_why(tmp_path: Path) -> None:
    assert fetch(_Cluster({}), tmp_path) == []
    with pytest.raises(InfraError, match="still running"):
        fetch(_Cluster({}, "log aggregation is still running"), tmp_path)

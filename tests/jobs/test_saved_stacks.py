"""The stack traces of a job that has ended."""

from __future__ import annotations

from pathlib import Path

from tony.jobs.saved_stacks import read_saved_stacks

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

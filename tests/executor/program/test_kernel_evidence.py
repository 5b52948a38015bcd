"""What the kernel counted and logged becomes evidence."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tony.executor.program import kernel_evidence
from tony.executor.program.kernel_evidence import KernelWatch, describe_full_disk, describe_usage
from tony.linux import container_cgroup, kernel_log


def usage(
    *, blocks: int = 1000, free: int = 500, inodes: int = 100, free_inodes: int = 50, flags: int = 0
) -> os.statvfs_result:
    return os.statvfs_result((1 << 20, 1 << 20, blocks, free, free, inodes, free_inodes, free_inodes, flags, 255))


def test_a_full_disk() -> None:
    assert describe_usage("/w", usage()) == ""
    assert "/w" in describe_usage("/w", usage(free=0))
    assert "no space" in describe_usage("/w", usage(free=0))
    assert "no inode" in describe_usage("/w", usage(free_inodes=0))


def test_file_systems_without_blocks_or_inodes_are_not_full(tmp_path: Path) -> None:
    assert describe_usage("/image", usage(free=0, flags=os.ST_RDONLY)) == ""
    assert describe_usage("/proc", usage(blocks=0, free=0, inodes=0, free_inodes=0)) == ""
    assert describe_full_disk("/proc") == ""
    assert describe_full_disk(str(tmp_path / "none")) == ""


def test_a_limit_of_processes_that_was_hit_since_the_start(tmp_path: Path) -> None:
    counter = tmp_path / "pids.events"
    counter.write_text("max 2\n")
    before = container_cgroup.count_process_limit_hits([str(tmp_path)])
    watch = KernelWatch([str(tmp_path)], [], has_gpus=False)
    counter.write_text(f"max {before + 3}\n")
    (line,) = [line for line in watch.collect([], "", {}).own if line.rule == "kernel-processes"]
    assert (line.stream, line.number) == ("kernel", 0)
    assert "max +3" in line.text


KILLED = "Memory cgroup out of memory: Killed process 17 (python3) total-vm:9kB"
GROUP = "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task_memcg=/tony/job-1,task=python3,pid=17,uid=0"
XID = "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus."
OWN_XID = "NVRM: Xid (PCI:0000:01:00): 31, pid=17, name=python3, MMU Fault"


@pytest.mark.parametrize(
    ("messages", "pids", "has_gpus", "rules"),
    [
        ([KILLED], [17], False, ["kernel-memory"]),
        ([KILLED], [18], False, []),  # a process of another program
        ([GROUP, KILLED], [], False, ["kernel-memory"]),
        ([GROUP.replace("job-1", "job-2"), KILLED], [], False, []),
        ([XID, XID], [], True, []),
        ([OWN_XID], [17], True, ["gpu-hardware"]),
        ([OWN_XID], [18], True, []),
        (["usb 1-1: new device"], [17], True, []),
    ],
)
def test_messages_about_the_program(
    messages: list[str], pids: list[int], has_gpus: bool, rules: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_log, "read_messages", lambda seconds: messages)
    monkeypatch.setattr(kernel_evidence, "describe_full_disk", lambda folder: "")
    watch = KernelWatch(["/sys/fs/cgroup/memory/tony/job-1"], [], has_gpus=has_gpus)
    assert [line.rule for line in watch.collect(pids, "", {}).own] == rules


@pytest.mark.parametrize(
    ("message", "has_gpus", "rules"), [(XID, True, ["gpu-hardware"]), (XID, False, []), (OWN_XID, True, [])]
)
def test_errors_of_gpus_that_may_be_of_others(
    message: str, has_gpus: bool, rules: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_log, "read_messages", lambda seconds: [message])
    found = KernelWatch([], [], has_gpus=has_gpus).collect([17], "", {})
    assert [line.rule for line in found.nearby] == rules


def test_the_folder_of_the_programs_temporary_files_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_evidence, "describe_full_disk", lambda folder: f"statfs {folder}")
    found = KernelWatch([], [], has_gpus=False).collect([], "", {"TMPDIR": "/scratch"})
    assert [line.text for line in found.own][-1] == "statfs /scratch"


def test_processes_that_were_killed_for_memory_come_first() -> None:
    (first, *_) = KernelWatch([], [], has_gpus=False).collect([], "cgroup memory: oom_kill +1 (limit 64m)", {}).own
    assert (first.rule, first.text) == ("kernel-memory", "cgroup memory: oom_kill +1 (limit 64m)")

"""The kernel's own counters and its log, as `executor/program/kernel_evidence.py` words them."""

from __future__ import annotations

from tony.diagnosis.rule import Rule
from tony.model.diagnosis import FailureKind

RULES = (
    Rule(
        name="kernel-memory",
        pattern=r"^(cgroup memory|vmstat): oom_kill \+\d|^kmsg: (Memory cgroup out|Out) of memory: Killed process ",
        kind=FailureKind.MEMORY,
        retry=True,
        source="Linux: Documentation/admin-guide/cgroup-v2.rst (memory.events), mm/oom_kill.c",
        examples=(
            "cgroup memory: oom_kill +1 (limit 256m, peak 256m)",
            "kmsg: Memory cgroup out of memory: Killed process 4242 (python3) total-vm:1048576kB, anon-rss:262144kB",
        ),
        traps=("cgroup memory: oom_kill 0",),
    ),
    Rule(
        name="kernel-processes",
        pattern=r"^cgroup pids: max \+\d",
        kind=FailureKind.QUOTA,
        advice="start fewer processes and threads, or ask for a higher limit (pids.max)",
        source="Linux: Documentation/admin-guide/cgroup-v2.rst (pids.events)",
        examples=("cgroup pids: max +3: the limit of processes (pids.max) was exceeded",),
        traps=("cgroup pids: max 0",),
    ),
    Rule(
        name="kernel-disk",
        pattern=r"^statfs \S.*: (writing|creating files) fails, no (space|inode) is left",
        kind=FailureKind.STORAGE,
        advice="free space on the disk that the program writes to, or write elsewhere",
        source="Linux: statfs(2)",
        examples=(
            "statfs /tmp: writing fails, no space is left (0 bytes of 10g free)",
            "statfs /tmp: creating files fails, no inode is left (0 of 6400 free)",
        ),
        traps=("statfs /tmp: 5g of 10g free",),
    ),
)

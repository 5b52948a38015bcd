"""Collects what the kernel counted and logged while a program ran: limits hit, a full disk, kills, errors of GPUs.

Each fact is one line of evidence of the stream `kernel`; its text begins with the file it was read from.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePath
from typing import NamedTuple

from tony import clock
from tony.diagnosis.line_rules import find_rule
from tony.linux import container_cgroup, kernel_log
from tony.model.diagnosis import EvidenceLine
from tony.model.log_name import KERNEL
from tony.units import format_size

#: Free bytes below which a disk counts as full: file systems keep the last blocks for themselves.
_FULL_BYTES = 1 << 20
#: Characters of a line.
_MAX_LINE = 300
#: Lines of the kernel's log.
_MAX_LOG_LINES = 2
#: The kernel killed a process for memory; the first form names its control group as well.
_KILLED = re.compile(r"\bKilled process (\d+) \(")
_OOM_GROUP = re.compile(r"^oom-kill:.*\btask_memcg=([^,]+),task=[^,]*,pid=(\d+)")
#: An error of an NVIDIA GPU.
_XID = re.compile(r"^NVRM: Xid \(")
_XID_PID = re.compile(r"\bpid='?(\d+)")
#: Seconds before the end in which an error of a GPU may belong to the program, if no process is named.
_XID_SECONDS = 60.0


class KernelLines(NamedTuple):
    """Lines of the kernel.

    Attributes:
        own: about the program.
        nearby: about GPUs of the machine shortly before the program's end: perhaps those of another program.
    """

    own: Sequence[EvidenceLine]
    nearby: Sequence[EvidenceLine]


class KernelWatch:
    """What the kernel counts from now on.

    Args:
        groups: folders of the program's control group; empty without one.
        places: folders that the program writes to.
        has_gpus: the program uses GPUs of this machine.
    """

    def __init__(self, groups: Sequence[str], places: Sequence[str], *, has_gpus: bool) -> None:
        self._groups = groups
        self._places = tuple(dict.fromkeys((*places, "/dev/shm")))
        self._has_gpus = has_gpus
        self._started_at = clock.monotonic()
        self._hits_before = container_cgroup.count_process_limit_hits(groups)

    def collect(self, pids: Collection[int], memory_kills: str, environment: Mapping[str, str]) -> KernelLines:
        """Return a line for each fact. May block: a place may be on a server.

        Args:
            pids: processes of the program.
            memory_kills: what is known of processes killed for memory; empty if none were.
            environment: of the program.
        """
        texts = [memory_kills] if memory_kills else []
        hits = container_cgroup.count_process_limit_hits(self._groups) - self._hits_before
        if hits > 0:
            texts.append(f"cgroup pids: max +{hits}: the limit of processes (pids.max) was exceeded")
        places = dict.fromkeys((*self._places, environment.get("TMPDIR") or "/tmp"))
        texts += filter(None, map(describe_full_disk, places))
        elapsed = clock.monotonic() - self._started_at
        own = self._select_messages(kernel_log.read_messages(elapsed), pids)
        nearby = self._select_gpu_errors(kernel_log.read_messages(min(elapsed, _XID_SECONDS)), own)
        return KernelLines([_build_line(text) for text in (*texts, *own)], [_build_line(text) for text in nearby])

    def _select_messages(self, messages: Sequence[str], pids: Collection[int]) -> Sequence[str]:
        """Return the messages about the program: by its processes, or its control group."""
        names = {PurePath(group).name for group in self._groups}
        killed = {
            match[2] for text in messages if (match := _OOM_GROUP.match(text)) and PurePath(match[1]).name in names
        }
        own = killed | {str(pid) for pid in pids}
        found = [
            f"kmsg: {text}"
            for text in messages
            if (match := _KILLED.search(text) or (_XID.match(text) and _XID_PID.search(text))) and match[1] in own
        ]
        return list(dict.fromkeys(found))[-_MAX_LOG_LINES:]

    def _select_gpu_errors(self, messages: Sequence[str], own: Sequence[str]) -> Sequence[str]:
        """Return errors of GPUs that are not among the program's own messages."""
        found = [f"kmsg: {text}" for text in messages if self._has_gpus and _XID.match(text)]
        return [text for text in dict.fromkeys(found) if text not in own][-_MAX_LOG_LINES:]


def describe_full_disk(folder: str) -> str:
    """Return a line if nothing more can be written to the file system of a folder; empty otherwise."""
    try:
        return describe_usage(folder, os.statvfs(folder))
    except OSError:
        return ""


def describe_usage(folder: str, status: os.statvfs_result) -> str:
    """Return a line if a file system is full for this user; empty otherwise, and for one that is only read."""
    if status.f_flag & os.ST_RDONLY:
        return ""
    free = (status.f_bfree if os.geteuid() == 0 else status.f_bavail) * status.f_frsize
    size = status.f_blocks * status.f_frsize
    inodes = status.f_ffree if os.geteuid() == 0 else status.f_favail
    if size > _FULL_BYTES and free < _FULL_BYTES:
        return f"statfs {folder}: writing fails, no space is left ({format_size(free)} of {format_size(size)} free)"
    if status.f_files > 0 and inodes == 0:
        return f"statfs {folder}: creating files fails, no inode is left (0 of {status.f_files} free)"
    return ""


def _build_line(text: str) -> EvidenceLine:
    rule = find_rule(text)
    return EvidenceLine(stream=KERNEL, number=0, text=text[:_MAX_LINE], ago=0.0, rule=rule.name if rule else "")

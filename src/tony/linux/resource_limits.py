"""Limits of this process on open files, processes and threads: read and raised."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from tony.linux.kernel_files import read_number, read_text


def find_process_limit() -> int | None:
    """Return RLIMIT_NPROC as far as it applies; None without any. It does not apply to root."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    return None if soft == resource.RLIM_INFINITY or os.getuid() == 0 else soft


def find_group_process_limit() -> int | None:
    """Return the lowest pids.max from the own control group up to the root, versions 1 and 2; None without any."""
    limits = []
    for line in read_text("/proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers not in ("", "pids"):
            continue
        mount = Path("/sys/fs/cgroup") / controllers
        folder = mount / group.lstrip("/")
        for place in (folder, *folder.parents):
            found = read_number(place / "pids.max")
            if found is not None:
                limits.append(found)
            if place == mount:
                break
    return min(limits, default=None)


def find_machine_thread_limit() -> int | None:
    """Return how many processes and threads the machine may have (kernel.threads-max); None if not known."""
    return read_number("/proc/sys/kernel/threads-max")


def allow_open_files(count: int) -> int:
    """Raise this process's limit to `count` open files, as far as permitted; return the resulting limit.

    Not beyond that, because children inherit it, and some programs loop over all possible descriptors.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= count:
        return count if soft == resource.RLIM_INFINITY else soft
    most = count if hard == resource.RLIM_INFINITY else min(count, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most

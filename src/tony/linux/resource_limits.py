"""Limits of this process on open files, processes and threads: read, described and raised."""

from __future__ import annotations

import os
import resource
from pathlib import Path


def open_files() -> str:
    """Return how many files a process may have open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = soft if soft == hard else f"{soft} (at most {hard})"
    return f"a process may have {most} files open (RLIMIT_NOFILE, ulimit -n)"


def processes() -> str:
    """Return how many processes and threads there may be: of this user, in this control group, on the machine."""
    limits = []
    soft = process_limit()
    if soft is not None:
        limits.append(f"user {os.getuid()} may have {soft} processes and threads (RLIMIT_NPROC, ulimit -u)")
    group = _group_limit()
    if group is not None:
        limits.append(f"this control group may have {group} processes and threads (pids.max)")
    if not limits:
        most = _number(Path("/proc/sys/kernel/threads-max"))
        limits.append(f"this machine may have {most or 'no more'} processes and threads (kernel.threads-max)")
    return ", ".join(limits)


def process_limit() -> int | None:
    """Return RLIMIT_NPROC as far as it applies; None without any. It does not apply to root."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    return None if soft == resource.RLIM_INFINITY or os.getuid() == 0 else soft


def _group_limit() -> int | None:
    """Return the lowest pids.max from the own control group up to the root, versions 1 and 2; None without any."""
    limits = []
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers not in ("", "pids"):
            continue
        mount = Path("/sys/fs/cgroup") / controllers
        folder = mount / group.lstrip("/")
        for place in (folder, *folder.parents):
            found = _number(place / "pids.max")
            if found is not None:
                limits.append(found)
            if place == mount:
                break
    return min(limits, default=None)


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


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

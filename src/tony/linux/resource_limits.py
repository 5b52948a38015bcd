"""Limits of this process: which one was reached when the kernel refuses a file, process or thread; open files."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path

_FILES = {errno.EMFILE, errno.ENFILE}
_NO_THREAD = "can't start new thread"


def describe_os_error(error: BaseException) -> str:
    """Return the system's text of an error, without the numbers that Python adds, and the limit that caused it."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    limit = explain(error)
    return f"{text}: {limit}" if limit and limit not in text else text


def explain(error: BaseException | None) -> str:
    """Return the limit that was reached, in one phrase; empty if neither an error nor its causes are due to one."""
    for each in _causes(error):
        number = each.errno if isinstance(each, OSError) else None
        if number in _FILES:
            return open_files()
        # Not the error of a stream that would block.
        no_process = isinstance(each, BlockingIOError) and each.strerror == os.strerror(errno.EAGAIN)
        if no_process or (isinstance(each, RuntimeError) and _NO_THREAD in str(each)):
            return processes()
        if number == errno.ENOMEM or isinstance(each, MemoryError):
            return "there is no memory left (the machine's is full, or RLIMIT_AS, ulimit -v, is too low)"
    return ""


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


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


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

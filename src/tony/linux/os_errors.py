"""Errors of the system as text, with the limit of this process that caused them."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator

from tony.linux import resource_limits

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
            return describe_open_file_limit()
        # Not the error of a stream that would block.
        no_process = isinstance(each, BlockingIOError) and each.strerror == os.strerror(errno.EAGAIN)
        if no_process or (isinstance(each, RuntimeError) and _NO_THREAD in str(each)):
            return describe_process_limit()
        if number == errno.ENOMEM or isinstance(each, MemoryError):
            return "there is no memory left (the machine's is full, or RLIMIT_AS, ulimit -v, is too low)"
    return ""


def describe_open_file_limit() -> str:
    """Return how many files a process may have open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = soft if soft == hard else f"{soft} (at most {hard})"
    return f"a process may have {most} files open (RLIMIT_NOFILE, ulimit -n)"


def describe_process_limit() -> str:
    """Return how many processes and threads there may be: of this user, in this control group, on the machine."""
    limits = []
    soft = resource_limits.find_process_limit()
    if soft is not None:
        limits.append(f"user {os.getuid()} may have {soft} processes and threads (RLIMIT_NPROC, ulimit -u)")
    group = resource_limits.find_group_process_limit()
    if group is not None:
        limits.append(f"this control group may have {group} processes and threads (pids.max)")
    if not limits:
        most = resource_limits.find_machine_thread_limit()
        limits.append(f"this machine may have {most or 'no more'} processes and threads (kernel.threads-max)")
    return ", ".join(limits)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)

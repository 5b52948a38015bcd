"""Errors of the system as text, with the limit of this process that caused them."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

from tony.linux.resource_limits import open_files, processes

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


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)

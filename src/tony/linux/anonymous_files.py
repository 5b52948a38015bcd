"""Anonymous files in which another process answers: found among its open files, by name."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable

#: Seconds to wait for the first output, and seconds without more after which it counts as complete.
_TIMEOUT_SECONDS = 2.0
_SILENCE_SECONDS = 0.1
_POLL_SECONDS = 0.01


def find_open_file(pid: int, matches: Callable[[str], bool]) -> tuple[str, str] | None:
    """Return a path by which an open file of a process can be opened, and its name, as /proc shows it.

    Args:
        matches: takes such a name: `/memfd:NAME (deleted)`, or a path.
    """
    folder = f"/proc/{pid}/fd"
    try:
        numbers = os.listdir(folder)
    except OSError:
        return None
    for number in numbers:
        try:
            name = os.readlink(f"{folder}/{number}")
        except OSError:  # the process has closed this one since
            continue
        if matches(name):
            return f"{folder}/{number}", name
    return None


def request_answer(path: str, send: Callable[[], bool], max_bytes: int) -> str:
    """Empty a file, have `send` request an answer, and return what is written then; empty if there is none.

    Takes some tenths of a second. The file is emptied again.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink:  # a file with a name is not to be emptied
            return ""
        os.ftruncate(descriptor, 0)
        if not send():
            return ""
        _wait_for_output(descriptor)
        text = os.pread(descriptor, max_bytes, 0).decode(errors="replace")
        os.ftruncate(descriptor, 0)
        return text
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def _wait_for_output(descriptor: int) -> None:
    """Wait for output, then for its end."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    size, since = 0, time.monotonic()
    while time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        now = os.fstat(descriptor).st_size
        if now != size:
            size, since = now, time.monotonic()
        elif size and time.monotonic() - since >= _SILENCE_SECONDS:
            return

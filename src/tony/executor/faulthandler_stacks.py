"""Stack traces of Python programs in which the hook of `tony.python_hooks` has registered `faulthandler`.

Such a process has an anonymous file open whose name tells it, and catches the hook's signal. Who does not is never sent
it: a signal that nobody expects is the end of a process.
"""

from __future__ import annotations

import os
import stat
import time

from tony.executor.python_hooks import STACKS_SIGNAL
from tony.linux import process

#: What the hook calls its file, as /proc shows it: `/memfd:tony-stacks (deleted)`, or one that was deleted at once.
_NAME = "tony-stacks"
#: Seconds to wait for the first word, and for silence after the last one.
_PATIENCE, _SILENCE, _LOOK = 2.0, 0.1, 0.01
#: Bytes of one process.
_MOST = 64 << 10


def is_registered(pid: int) -> bool:
    """Whether a process can be asked."""
    return _file_of(pid) is not None and _catches(pid)


def stacks_of(pid: int) -> str:
    """Where every thread of a process stands, the one that runs first; empty if it does not say.

    Waits some tenths of a second.
    """
    file = _file_of(pid)
    if file is None or not _catches(pid):
        return ""
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        os.ftruncate(descriptor, 0)
        if not process.send(pid, STACKS_SIGNAL, is_registered):
            return ""
        _wait(descriptor)
        text = os.pread(descriptor, _MOST, 0).decode(errors="replace")
        os.ftruncate(descriptor, 0)
        return text
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def _wait(descriptor: int) -> None:
    """Waits until it has said something, and then no more."""
    deadline = time.monotonic() + _PATIENCE
    size, since = 0, time.monotonic()
    while time.monotonic() < deadline:
        time.sleep(_LOOK)
        now = os.fstat(descriptor).st_size
        if now != size:
            size, since = now, time.monotonic()
        elif size and time.monotonic() - since >= _SILENCE:
            return


def _file_of(pid: int) -> str | None:
    """The hook's file in a process, as a path by which we can open it."""
    folder = f"/proc/{pid}/fd"
    try:
        for number in os.listdir(folder):
            name = os.path.basename(os.readlink(f"{folder}/{number}"))
            if name.removeprefix("memfd:").startswith(_NAME) and name.endswith("(deleted)"):
                return f"{folder}/{number}"
    except OSError:
        return None
    return None


def _catches(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/status", "rb") as status:
            for line in status:
                if line.startswith(b"SigCgt:"):
                    return bool(int(line.split()[1], 16) >> (int(STACKS_SIGNAL) - 1) & 1)
    except (OSError, ValueError, IndexError):
        return False
    return False

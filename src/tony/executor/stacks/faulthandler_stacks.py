"""Stack traces of Python processes in which the hook of `tony.python_hooks` has registered `faulthandler`.

Such a process has an anonymous file with a known name open and handles the hook's signal. No other process is ever sent
the signal: an unhandled one would kill it.
"""

from __future__ import annotations

import os
import stat
import time

from tony.executor.program.python_hook_variables import STACKS_SIGNAL
from tony.linux import process

#: Name of the hook's file, as /proc shows it: `/memfd:tony-stacks (deleted)`, or a file that was deleted at once.
_NAME = "tony-stacks"
#: Seconds to wait for the first output.
_TIMEOUT_SECONDS = 2.0
#: Seconds without further output after which it counts as complete.
_SILENCE_SECONDS = 0.1
_POLL_SECONDS = 0.01
#: Bytes of one process.
_MAX_BYTES = 64 << 10


def is_registered(pid: int) -> bool:
    """Return True if a process has registered the hook."""
    return _find_hook_file(pid) is not None and _handles_signal(pid)


def read_stacks(pid: int) -> str:
    """Return the stack traces of all threads of a process, the running one first; empty if it does not answer.

    Takes some tenths of a second.
    """
    file = _find_hook_file(pid)
    if file is None or not _handles_signal(pid):
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
        _wait_for_output(descriptor)
        text = os.pread(descriptor, _MAX_BYTES, 0).decode(errors="replace")
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


def _find_hook_file(pid: int) -> str | None:
    """Return a path by which the hook's file in a process can be opened."""
    folder = f"/proc/{pid}/fd"
    try:
        for number in os.listdir(folder):
            name = os.path.basename(os.readlink(f"{folder}/{number}"))
            if name.removeprefix("memfd:").startswith(_NAME) and name.endswith("(deleted)"):
                return f"{folder}/{number}"
    except OSError:
        return None
    return None


def _handles_signal(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/status", "rb") as status:
            for line in status:
                if line.startswith(b"SigCgt:"):
                    return bool(int(line.split()[1], 16) >> (int(STACKS_SIGNAL) - 1) & 1)
    except (OSError, ValueError, IndexError):
        return False
    return False

"""Gives a fork a name and an environment of its own, as if it had been executed.

`/proc/PID/cmdline` and `/proc/PID/environ` (which `ps` and searches for markers read) show the memory in which the
kernel stored arguments and environment at exec: proc(5). A fork overwrites its copy, as setproctitle(3bsd) does.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping

#: In /proc/PID/stat behind the closing bracket of the name: arg_start, arg_end, env_start, env_end (proc(5): 48-51).
_PLACES = slice(45, 49)


def assume(title: str, environ: Mapping[str, str] | None = None) -> None:
    """Set name and environment. What does not fit is cut off in /proc; `os.environ` is always complete.

    Args:
        title: of the process, as ps shows it.
        environ: the complete new environment, None to keep it. Put variables first that other processes must find.
    """
    arg_start, arg_end, env_start, env_end = _places()
    if environ is not None:
        # These become copies on the heap: no pointers into the old memory remain.
        os.environ.clear()
        os.environ.update(environ)
        _write(env_start, env_end, _lines(environ))
    _write(arg_start, arg_end, os.fsencode(title))  # last: a reader that sees the new name sees the new environment


def fits_environ(environ: Mapping[str, str]) -> bool:
    """Return True if /proc would show all of these: the room is that of the environment at exec."""
    _, _, env_start, env_end = _places()
    return len(_lines(environ)) < env_end - env_start


def _lines(environ: Mapping[str, str]) -> bytes:
    return b"\0".join(os.fsencode(f"{name}={value}") for name, value in environ.items())


def _places() -> tuple[int, ...]:
    with open("/proc/self/stat", "rb") as stat:
        return tuple(int(field) for field in stat.read().rpartition(b")")[2].split()[_PLACES])


def _write(start: int, end: int, content: bytes) -> None:
    size = end - start
    if start and size > 1:
        ctypes.memset(start, 0, size)
        ctypes.memmove(start, content[: size - 1], min(len(content), size - 1))

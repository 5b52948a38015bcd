"""What a fork shows of itself: a name and an environment of its own, as if it had been executed.

`/proc/PID/cmdline` and `/proc/PID/environ` (what `ps` and those who look for markers read) show the memory in which
the kernel laid arguments and environment at exec: proc(5). A fork writes over its copy, as setproctitle(3bsd) does.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping

#: In /proc/PID/stat behind the closing bracket of the name: arg_start, arg_end, env_start, env_end (proc(5): 48-51).
_PLACES = slice(45, 49)


def assume(title: str, environ: Mapping[str, str] | None = None) -> None:
    """Takes another name and environment. What finds no room is cut off in /proc; `os.environ` is always whole.

    Args:
        title: of the process, as ps shows it.
        environ: all of the new environment, None for the present one. Put first what others have to find.
    """
    arg_start, arg_end, env_start, env_end = _places()
    if environ is not None:
        # These become copies on the heap: nothing points into the old memory any more.
        os.environ.clear()
        os.environ.update(environ)
        _write(env_start, env_end, _lines(environ))
    _write(arg_start, arg_end, os.fsencode(title))  # last: whoever sees the new name finds the new environment


def has_room(environ: Mapping[str, str]) -> bool:
    """Whether /proc would show all of these: who was started with a small environment has room for no larger one."""
    _, _, env_start, env_end = _places()
    return len(_lines(environ)) < env_end - env_start


def _lines(environ: Mapping[str, str]) -> bytes:
    return b"\0".join(os.fsencode(f"{name}={value}") for name, value in environ.items())


def _places() -> tuple[int, ...]:
    with open("/proc/self/stat", "rb") as stat:
        return tuple(int(field) for field in stat.read().rpartition(b")")[2].split()[_PLACES])


def _write(start: int, end: int, content: bytes) -> None:
    room = end - start
    if start and room > 1:
        ctypes.memset(start, 0, room)
        ctypes.memmove(start, content[: room - 1], min(len(content), room - 1))

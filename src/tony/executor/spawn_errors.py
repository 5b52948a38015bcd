"""Why a program could not be started, in words for its user: the kernel gives one number for many mistakes."""

from __future__ import annotations

import errno
import os

from tony.linux import resource_limits

#: Characters of a program's name that are shown; nobody needs more to know which it is.
_SHOWN = 200
#: From linux/binfmts.h: as much of a file is read for its first line.
_FIRST_LINE = 256


def describe_spawn_error(program: str, error: Exception, folder: str, path: str) -> str:
    """One sentence without its full stop.

    Args:
        program: as the command has it.
        error: what starting it raised.
        folder: in which it was to run.
        path: its PATH.
    """
    number = error.errno if isinstance(error, OSError) else None
    place = _place(program, folder, path)
    program = program if len(program) <= _SHOWN else f"{program[:_SHOWN]}…"
    if number == errno.ENAMETOOLONG:
        return f"command not found: {program} (the name is too long for the file system)"
    if number not in (errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.ENOTDIR, errno.E2BIG):
        return f"cannot start {program}: {resource_limits.describe_os_error(error)}"
    if number == errno.E2BIG:
        return f"cannot start {program}: command and environment are too long together for Linux"
    if place is None:
        return f"command not found: {program} ({_absence(program, folder)})"
    if number == errno.ENOEXEC:
        return f"not executable: {program} (it is no program, and has no first line that begins with #!)"
    interpreter = _interpreter(place)
    if number == errno.ENOENT:
        return f"cannot start {program}: {_missing_interpreter(interpreter)}"
    return f"not executable: {program} ({_forbidden(place, interpreter)})"


def _place(program: str, folder: str, path: str) -> str | None:
    """Where the program is; None if it is nowhere."""
    if "/" in program:
        place = os.path.join(folder, program)
        return place if os.path.lexists(place) else None
    import shutil  # late: it loads every compressor

    return shutil.which(program, path=path) or shutil.which(program, os.F_OK, path)


def _absence(program: str, folder: str) -> str:
    if "/" not in program:
        beside = os.path.exists(os.path.join(folder, program))
        hint = f"; the one in the working directory is called ./{program}" if beside else ""
        return f"it is in no folder of PATH{hint}"
    return "no such file" if os.path.isabs(program) else "no such file in the working directory"


def _interpreter(place: str) -> str | None:
    """What a script's first line names, with its arguments; None if it is no script or cannot be read."""
    try:
        with open(place, "rb") as file:
            line = file.readline(_FIRST_LINE)
    except OSError:
        return None
    return os.fsdecode(line[2:]).removesuffix("\n").strip(" \t") if line.startswith(b"#!") else None


def _missing_interpreter(interpreter: str | None) -> str:
    if interpreter is None:
        return "what it needs to run is missing (a link that leads nowhere, or a program for another system)"
    if interpreter.endswith("\r"):
        return "its first line ends like a line of Windows, and Linux takes the \\r for a part of the name"
    return f"its first line names {interpreter.split()[0] if interpreter else 'nothing'}, which does not exist"


def _forbidden(place: str, interpreter: str | None) -> str:
    if os.path.isdir(place):
        return "it is a folder"
    if not os.access(place, os.X_OK):
        return "permission denied; is it a program? Then set its x bit: chmod +x"
    if interpreter:
        return f"permission denied; may you run {interpreter.split()[0]}, which its first line names?"
    return "permission denied; a file system that is mounted noexec?"

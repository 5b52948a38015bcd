"""Explains why a program could not be started: the kernel has one error number for many causes."""

from __future__ import annotations

import errno
import os

from tony.linux import os_errors

#: Characters of a program's name that are shown.
_MAX_NAME_CHARACTERS = 200
#: Bytes that the kernel reads of a file's first line (linux/binfmts.h).
_FIRST_LINE_BYTES = 256


def describe_spawn_error(program: str, error: Exception, folder: str, path: str) -> str:
    """Return one sentence without its full stop.

    Args:
        error: the exception raised by starting it.
        path: its PATH.
    """
    number = error.errno if isinstance(error, OSError) else None
    place = _find_program(program, folder, path)
    program = program if len(program) <= _MAX_NAME_CHARACTERS else f"{program[:_MAX_NAME_CHARACTERS]}…"
    if number == errno.ENAMETOOLONG:
        return f"command not found: {program} (the name is too long for the file system)"
    if number not in (errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.ENOTDIR, errno.E2BIG):
        return f"cannot start {program}: {os_errors.describe_os_error(error)}"
    if number == errno.E2BIG:
        return f"cannot start {program}: command and environment are too long together for Linux"
    if place is None:
        return f"command not found: {program} ({_explain_absence(program, folder)})"
    if number == errno.ENOEXEC:
        return f"not executable: {program} (neither a binary nor a script with a #! line)"
    interpreter = _read_interpreter(place)
    if number == errno.ENOENT:
        return f"cannot start {program}: {_explain_missing_interpreter(interpreter)}"
    return f"not executable: {program} ({_explain_permission(place, interpreter)})"


def _find_program(program: str, folder: str, path: str) -> str | None:
    """Return the path of the program; None if it does not exist."""
    if "/" in program:
        place = os.path.join(folder, program)
        return place if os.path.lexists(place) else None
    import shutil  # late: it loads every compression module

    return shutil.which(program, path=path) or shutil.which(program, os.F_OK, path)


def _explain_absence(program: str, folder: str) -> str:
    if "/" not in program:
        is_in_folder = os.path.exists(os.path.join(folder, program))
        hint = f"; the one in the working directory is ./{program}" if is_in_folder else ""
        return f"not on PATH{hint}"
    return "no such file" if os.path.isabs(program) else "no such file in the working directory"


def _read_interpreter(place: str) -> str | None:
    """Return the interpreter line of a script without `#!`; None if it is no script or cannot be read."""
    try:
        with open(place, "rb") as file:
            line = file.readline(_FIRST_LINE_BYTES)
    except OSError:
        return None
    return os.fsdecode(line[2:]).removesuffix("\n").strip(" \t") if line.startswith(b"#!") else None


def _explain_missing_interpreter(interpreter: str | None) -> str:
    if interpreter is None:
        return "its interpreter or loader is missing (a dangling symlink, or a binary for another system)"
    if interpreter.endswith("\r"):
        return "its #! line ends with a Windows line ending (\\r\\n), and Linux takes the \\r as part of the name"
    return f"its #! line names {interpreter.split()[0] if interpreter else 'nothing'}, which does not exist"


def _explain_permission(place: str, interpreter: str | None) -> str:
    if os.path.isdir(place):
        return "it is a directory"
    if not os.access(place, os.X_OK):
        return "permission denied; to make it executable: chmod +x"
    if interpreter:
        return f"permission denied; check the permissions of {interpreter.split()[0]}, named in its #! line"
    return "permission denied; check whether the file system is mounted noexec"

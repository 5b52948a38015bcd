"""Adds the source line below each frame of a stack trace whose file is in the task's work folder."""

from __future__ import annotations

import contextlib
import os
import re
import stat

from tony.diagnosis.stack_groups import SOURCE_MARK, parse_frame

#: Bytes of a file that are read, and characters of a line that are shown.
_MAX_FILE_BYTES = 1 << 20
_MAX_LINE_CHARACTERS = 200
#: Files of one dump that are considered; those of libraries count.
_MAX_FILES = 200
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")


def add_source_lines(text: str, work_folder: str) -> str:
    """Return stack traces with the source lines of the program's own files; the files may have changed since.

    No path elsewhere is touched: its file system may be what the program hangs in.
    """
    sources: dict[str, list[str]] = {}
    lines = []
    for line in text.splitlines():
        lines.append(line)
        frame = parse_frame(line)
        if frame is None:
            continue
        if frame.file not in sources and len(sources) < _MAX_FILES:
            sources[frame.file] = _read_lines(frame.file, work_folder)
        shown = "".join(sources.get(frame.file, ())[frame.line - 1 : frame.line]).strip()
        if shown:
            lines.append(f"{SOURCE_MARK}{_CONTROL.sub(' ', shown)[:_MAX_LINE_CHARACTERS]}")
    return "\n".join(lines)


def _read_lines(file: str, work_folder: str) -> list[str]:
    """Return the lines of a plain file of the work folder; the program may replace it by a link at any time."""
    real = os.path.realpath(work_folder)
    path = os.path.normpath(os.path.join(real, file))
    if path.startswith(f"{work_folder}/"):
        path = f"{real}{path.removeprefix(work_folder)}"
    if not path.startswith(f"{real}/"):
        return []
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as source:
            is_plain = stat.S_ISREG(os.fstat(descriptor).st_mode)
            if is_plain and os.readlink(f"/proc/self/fd/{descriptor}") == path:
                return source.read(_MAX_FILE_BYTES).decode(errors="replace").split("\n")
    return []

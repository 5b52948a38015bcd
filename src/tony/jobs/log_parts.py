"""The open files of a log, the current and the rotated one, and their indexes of times."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack

from tony.linux.time_index import build_index_name
from tony.model.log_name import ROTATED, LogName

#: Opens a plain file of the folder by its name; None if there is none.
OpenFile = Callable[[str], int | None]


class LogPart:
    """An open file of a log: the current or the rotated one.

    Attributes:
        times: descriptor of its index of times; None if it has none.
        size: bytes when it was opened.
    """

    def __init__(self, descriptor: int, times: int | None = None) -> None:
        status = os.fstat(descriptor)
        self.descriptor = descriptor
        self.times = times
        self.inode = status.st_dev, status.st_ino
        self.size = status.st_size


def open_parts(stack: ExitStack, open_file: OpenFile, name: LogName, *, has_times: bool = True) -> list[LogPart]:
    """Open the files of a log, the older one first.

    The newer one is opened first: if the log is rotated in between, both are the same file, and nothing is skipped.

    Args:
        stack: closes them.
        has_times: open their indexes, too.
    """
    parts: list[LogPart] = []
    for file in (name.file, f"{name.file}{ROTATED}"):
        descriptor = _open(stack, open_file, file)
        if descriptor is None:
            continue
        part = LogPart(descriptor)
        index = _open(stack, open_file, build_index_name(file)) if has_times else None
        if index is not None and _has_inode(open_file, file, part.inode):  # else it may be that of another file
            part.times = index
        if parts and parts[0].inode == part.inode:
            parts[0] = part
        else:
            parts.append(part)
    return parts[::-1]


def _open(stack: ExitStack, open_file: OpenFile, name: str) -> int | None:
    descriptor = open_file(name)
    if descriptor is not None:
        stack.callback(os.close, descriptor)
    return descriptor


def _has_inode(open_file: OpenFile, name: str, inode: tuple[int, int]) -> bool:
    descriptor = open_file(name)
    if descriptor is None:
        return False
    try:
        return LogPart(descriptor).inode == inode
    finally:
        os.close(descriptor)

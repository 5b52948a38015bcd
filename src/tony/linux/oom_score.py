"""Which processes the kernel kills first when the machine's memory is full: programs, then executors, the AM last.

The kernel kills the process with the most memory, plus `oom_score_adj` thousandths of all memory (proc(5)). A process
may raise its own number without privileges, and children inherit it; so everything that may be killed first raises its
own.

A process that is not dumpable may not open its files in /proc, not even its own; a file that was opened before stays
usable. So call `own()` before a process stops being dumpable; in a fork of one that had stopped before, the process
becomes dumpable for the moment of the call.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from enum import IntEnum
from functools import lru_cache

from tony.linux import process

_FILE = "/proc/self/oom_score_adj"
_MAX_SCORE = 1000


class OomScoreOffset(IntEnum):
    """Thousandths of the machine's memory added to a process, relative to the process that started the job."""

    KEEPER = 0  #: the application master, and watchdogs
    EXECUTOR = 200
    PROGRAM = 500


def get_own_score() -> Score:
    """Return this process's score, cached."""
    return _open_score(os.getpid())  # a forked child has a file of its own


@lru_cache(maxsize=1)
def _open_score(pid: int) -> Score:
    return Score()


class Score:
    """The `oom_score_adj` of this process.

    Attributes:
        base: the value at its start; 0 where the kernel does not report it.
    """

    def __init__(self) -> None:
        self.base = self._now = 0
        self._descriptor = -1
        with contextlib.suppress(OSError, ValueError):
            self._descriptor = _open()
            self.base = self._now = int(os.pread(self._descriptor, 16, 0))

    def settle(self, share: OomScoreOffset) -> None:
        """Set an offset permanently. Nothing changes where the kernel refuses."""
        self._set(self._compute_score(share))

    @contextlib.contextmanager
    def children(self, share: OomScoreOffset) -> Iterator[None]:
        """Give processes started inside another offset, by taking it on for that time."""
        before = self._now
        self.settle(share)
        try:
            yield
        finally:
            self._set(before)

    def _set(self, value: int) -> None:
        if self._descriptor >= 0 and value != self._now:
            with contextlib.suppress(OSError):
                os.pwrite(self._descriptor, b"%d" % value, 0)
                self._now = value

    def _compute_score(self, share: OomScoreOffset) -> int:
        """Return `base` plus the offset; where that exceeds the maximum, the offset scaled to the remaining range."""
        range_left = max(0, _MAX_SCORE - self.base)
        return self.base + min(int(share), int(share) * range_left // OomScoreOffset.PROGRAM)


def _open() -> int:
    try:
        return os.open(_FILE, os.O_RDWR | os.O_CLOEXEC)
    except PermissionError:
        with process.dumpable_for_a_moment():
            return os.open(_FILE, os.O_RDWR | os.O_CLOEXEC)

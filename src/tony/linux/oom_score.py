"""Whom the kernel kills first when the machine's memory is full: programs, then executors, the master last.

The kernel ends the process with the most memory, to which it adds `oom_score_adj` thousandths of all there is
(proc(5)). Anybody may raise that number for himself, and children inherit it; so everything that may go first raises
its own, above what it was started with.

A process that is not dumpable may not open its file in /proc any more, not even its own; a file that was opened before
stays of use. So `own()` is best called before a process stops being dumpable; a fork of one that had stopped before
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
_MOST = 1000


class OomScoreOffset(IntEnum):
    """Thousandths of the machine's memory that a process counts more than who started the job."""

    KEEPER = 0  #: the application master, and watchdogs
    EXECUTOR = 200
    PROGRAM = 500


def own() -> Score:
    """This process's number, for as long as it lives."""
    return _opened(os.getpid())  # a forked child has a file of its own


@lru_cache(maxsize=1)
def _opened(pid: int) -> Score:
    return Score()


class Score:
    """A process's number, to be used by itself alone.

    Attributes:
        base: what it was started with; 0 where the kernel does not say.
    """

    def __init__(self) -> None:
        """Opens the file."""
        self.base = self._now = 0
        self._descriptor = -1
        with contextlib.suppress(OSError, ValueError):
            self._descriptor = _open()
            self.base = self._now = int(os.pread(self._descriptor, 16, 0))

    def settle(self, share: OomScoreOffset) -> None:
        """Takes a share, for good. Where the kernel refuses, everything stays as it is."""
        self._set(self._of(share))

    @contextlib.contextmanager
    def children(self, share: OomScoreOffset) -> Iterator[None]:
        """Whatever is started inside has another share than we have: we take it for that moment."""
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

    def _of(self, share: OomScoreOffset) -> int:
        """Above `base` by the share; where there is no room for that, by as much of the room as the share is of all."""
        room = max(0, _MOST - self.base)
        return self.base + min(int(share), int(share) * room // OomScoreOffset.PROGRAM)


def _open() -> int:
    try:
        return os.open(_FILE, os.O_RDWR | os.O_CLOEXEC)
    except PermissionError:
        with process.dumpable_for_a_moment():
            return os.open(_FILE, os.O_RDWR | os.O_CLOEXEC)

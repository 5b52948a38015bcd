"""Waits for all child processes: the executor's own, and orphans inherited as subreaper."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from resource import struct_rusage

#: Called with the wait status and the resource usage of a process (and of the children it waited for).
Ended = Callable[[int, struct_rusage], None]


class Reaper:
    """Waits for children on each SIGCHLD. Lives on the event loop of the main thread."""

    def __init__(self) -> None:
        self._watched: dict[int, Ended] = {}
        self._on_other_exit: Ended = lambda status, usage: None

    def open(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self._reap)
        self._reap()

    def close(self) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGCHLD)

    def watch(self, pid: int, ended: Ended) -> None:
        """Report the exit of a child on the event loop. Call it before the loop runs again."""
        self._watched[pid] = ended

    def adopt(self, ended: Ended) -> None:
        """Report the exits of all other children: processes that a program left behind."""
        self._on_other_exit = ended

    def _reap(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._watched.pop(pid, self._on_other_exit)(status, usage)

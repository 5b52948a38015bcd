"""Who has ended: one place that waits for all children, ours and those we inherit as subreaper."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from resource import struct_rusage

#: Told of an end: the wait status and what the process (and the children it waited for) used.
Ended = Callable[[int, struct_rusage], None]


class Reaper:
    """Waits for children whenever the kernel says that one has ended. Lives on the event loop of the main thread."""

    def __init__(self) -> None:
        self._known: dict[int, Ended] = {}
        self._stranger: Ended = lambda status, usage: None

    def open(self) -> None:
        """Begins to listen."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self._look)
        self._look()

    def close(self) -> None:
        """Stops listening."""
        asyncio.get_running_loop().remove_signal_handler(signal.SIGCHLD)

    def watch(self, pid: int, ended: Ended) -> None:
        """Has the end of a child told, on the event loop. Call before the loop runs again."""
        self._known[pid] = ended

    def adopt(self, ended: Ended) -> None:
        """Has the ends of children told that nobody watches: what a program left behind."""
        self._stranger = ended

    def _look(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._known.pop(pid, self._stranger)(status, usage)

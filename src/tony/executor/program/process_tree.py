"""Finds, signals and kills everything that a program has started.

Uses three handles together: the process tree (as subreaper, the executor inherits orphaned processes), the control
group, and the marker in the environment.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Collection, Sequence

from tony.linux import container_cgroup, process

#: Seconds to wait for killed processes to be gone; longer than that means that they are stuck in the kernel.
KILL_TIMEOUT_SECONDS = 10.0


class ProcessTree:
    """All processes that this executor's programs have started and that are still alive."""

    def __init__(self, marker: str, folders: Sequence[str], helpers: Callable[[], Collection[int]]) -> None:
        """Create a handle.

        Args:
            marker: `TONY_TASK=...` as in the program's environment.
            folders: directories of the program's control group; empty without one.
            helpers: returns the executor's own child processes, such as the watchdog.
        """
        self.folders = tuple(folders)
        self._marker = marker
        self._helpers = helpers

    def list_descendants(self) -> list[int]:
        """Return the descendants of the executor without its helpers, parents before children."""
        helpers = self._helpers()
        return [pid for pid in process.list_below() if pid not in helpers]

    def is_finished(self) -> bool | None:
        """Return True if the kernel says that no process is left; None where it does not list a process's children.

        Everything that a program starts stays below the executor, which inherits orphans. So where the executor has no
        child but its helpers and the control group is empty, the processes of the whole machine need not be searched.
        """
        children = process.list_own_children()
        if children is None:
            return None
        return {*children} <= {*self._helpers()} and not container_cgroup.processes(self.folders)

    def select_unmarked(self, pids: Sequence[int]) -> list[int]:
        """Return those that a search by the marker would not find."""
        marker = self._marker.encode()
        return [pid for pid in pids if not process.has_marker(pid, marker)]

    def list_contained(self) -> list[int]:
        """Return those below the executor and in the control group; a runaway is found only by `all`."""
        return list(dict.fromkeys([*self.list_descendants(), *container_cgroup.processes(self.folders)]))

    def list_all(self) -> list[int]:
        """Return those that any handle finds. Reads every process of the machine."""
        found = dict.fromkeys([*self.list_contained(), *process.with_marker(self._marker)])
        return [pid for pid in found if process.is_alive(pid)]

    def signal(self, signum: int) -> None:
        """Signal all processes, group by group, so that none that is being forked at this moment is missed.

        SIGTERM is followed by SIGCONT: a stopped process (SIGSTOP, a debugger) could not act on it.
        """
        signals = (signum, signal.SIGCONT) if signum == signal.SIGTERM else (signum,)
        groups = set()
        for pid in self.list_contained():
            try:
                groups.add(os.getpgid(pid))
            except OSError:
                continue  # just ended
        for group in groups - {os.getpgrp()}:
            for each in signals:
                try:
                    os.killpg(group, each)
                except OSError:
                    break

    async def end(self, timeout: float = KILL_TIMEOUT_SECONDS) -> list[int]:
        """Kill (SIGKILL) all processes until none is left.

        Returns:
            Those that did not die in time.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        pauses, killed, clean = iter(process.KILL_BACKOFF), False, 0
        while not (finished := self.is_finished()):
            found = self.list_all()
            for pid in found:
                process.send(pid, signal.SIGKILL)
            found = list(dict.fromkeys([*found, *container_cgroup.kill(self.folders)]))
            killed = killed or bool(found)
            clean = 0 if found else clean + 1
            # Where only a search can tell, search twice: a process in the middle of exec shows no environment. Where
            # nothing had to be killed, once is enough.
            if loop.time() >= deadline or (finished is None and (clean == 2 or not killed)):
                return found
            await asyncio.sleep(next(pauses))
        return []

"""Everything that a program has started: found, signalled, ended.

Three handles together: the process tree (as subreaper we are the parent of whatever lost its own), the control group,
the marker in the environment.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Collection, Sequence

from tony.linux import cgroup, process

#: Seconds to wait for what was killed to be gone; more than that means that it is stuck in the kernel.
PATIENCE = 10.0


class ProcessTree:
    """All processes that this executor's programs have started and that still live."""

    def __init__(self, marker: str, folders: Sequence[str], helpers: Callable[[], Collection[int]]) -> None:
        """Looks at nothing yet.

        Args:
            marker: `TONY_TASK=...` as the program's environment has it.
            folders: of the program's control group; none if there is none.
            helpers: our own children that are none of the program's, such as the watchdog.
        """
        self.folders = tuple(folders)
        self._marker = marker
        self._helpers = helpers

    def tree(self) -> list[int]:
        """Those below us, parents before children."""
        helpers = self._helpers()
        return [pid for pid in process.below() if pid not in helpers]

    def is_over(self) -> bool | None:
        """Whether the kernel itself says that nobody is left; None where it does not list a process's children.

        Whatever a program starts stays below us: who loses its parent becomes our child. So where we have no child but
        our helpers and the control group is empty, nobody need be searched for among all processes of the machine.
        """
        children = process.own_children()
        if children is None:
            return None
        return {*children} <= {*self._helpers()} and not cgroup.processes(self.folders)

    def unmarked(self, pids: Sequence[int]) -> list[int]:
        """Those that a sweep by the marker would not find."""
        marker = self._marker.encode()
        return [pid for pid in pids if not process.has_marker(pid, marker)]

    def near(self) -> list[int]:
        """Those below us and in the control group: at most a runaway is missing, and found at the end."""
        return list(dict.fromkeys([*self.tree(), *cgroup.processes(self.folders)]))

    def all(self) -> list[int]:
        """Those that any handle finds. Looks at every process of the machine."""
        found = dict.fromkeys([*self.near(), *process.with_marker(self._marker)])
        return [pid for pid in found if process.is_alive(pid)]

    def signal(self, signum: int) -> None:
        """Signals everyone, group by group: so none is missed that is being forked at this moment.

        Who is to end is woken, too: a process that was stopped (SIGSTOP, a debugger) could not act on SIGTERM.
        """
        signals = (signum, signal.SIGCONT) if signum == signal.SIGTERM else (signum,)
        groups = set()
        for pid in self.near():
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

    async def end(self, patience: float = PATIENCE) -> list[int]:
        """Kills (SIGKILL) everyone until nobody is left.

        Returns:
            Those that did not die in time.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience
        pause, killed, clean = 0.001, False, 0
        while not (over := self.is_over()):
            found = self.all()
            for pid in found:
                process.send(pid, signal.SIGKILL)
            found = list(dict.fromkeys([*found, *cgroup.kill(self.folders)]))
            killed = killed or bool(found)
            clean = 0 if found else clean + 1
            # Where only searching tells: twice, since one that is just executing shows no environment; but who had
            # nobody to kill need not wait.
            if loop.time() >= deadline or (over is None and (clean == 2 or not killed)):
                return found
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.05)
        return []

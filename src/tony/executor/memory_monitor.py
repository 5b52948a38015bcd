"""How much memory a program uses, and what happens when it is too much.

Under a control group the kernel keeps the limit: nothing ever uses more, so what counts is whether it had to kill.
Without one we measure all processes of the program, and end it when they have too much.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from tony.executor.process_tree import ProcessTree
from tony.linux import cgroup, process
from tony.units import format_size

#: Seconds between measurements, at least; and how many times longer than the measuring itself takes.
_INTERVAL = 0.5
_LEISURE = 100
#: Seconds after the start until the first one: many programs take what they need at once.
_FIRST = 0.1
#: Bytes that a control group may have held before a try, for the kernel's peak to be the try's own.
_LITTLE = 1 << 20
#: Bytes of the largest piece that the kernel may find no room for: what is used then is below the limit by less.
_LAST_PIECE = 4 << 20


class MemoryMonitor:
    """Watches one try's memory.

    Attributes:
        exceeded: bytes that were used when we found the limit passed; None as long as it is not.
    """

    def __init__(self, limit: int, family: ProcessTree, saw: Callable[[Sequence[int]], None]) -> None:
        """Begins a new measurement.

        Args:
            limit: bytes; 0 for none.
            saw: is told which processes the program has, each time they are looked at.
        """
        self.exceeded: int | None = None
        self._limit = limit
        self._family = family
        self._saw = saw
        self._measured: int | None = None
        self._highest = 0
        cgroup.reset_peak(family.folders)
        self._kills_before = _kills(family)
        self._full_before = cgroup.times_full(family.folders)
        peak = cgroup.peak(family.folders)
        self._peak_before = peak or 0
        # It keeps limit and peak: an executor that need not measure wakes only for its heartbeats.
        self._left_to_kernel = peak is not None and peak <= _LITTLE

    def usage(self) -> int | None:
        """Bytes used now, or when last measured."""
        return cgroup.usage(self._family.folders) if self._family.folders else self._measured

    def peak(self, largest_process: int) -> int | None:
        """Bytes, the most ever used.

        Args:
            largest_process: bytes that the largest single process had at its peak; counts what lived too short.
        """
        folders = self._family.folders
        if not folders:
            return max(self._highest, largest_process) or None
        peak = cgroup.peak(folders)
        if peak is not None and (peak > self._peak_before or not self._highest):
            return peak
        return self._highest or None

    async def watch(self) -> None:
        """Measures for ever; ends when the limit is passed."""
        if self._left_to_kernel:
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(_FIRST)
        while True:
            began = time.monotonic()
            if not self._is_within():
                return
            await asyncio.sleep(max(_INTERVAL, _LEISURE * (time.monotonic() - began)))

    def describe(self, peak: int | None, *, killed: bool) -> str:
        """What became of the limit, one phrase; empty if it was kept.

        Args:
            peak: bytes, the most ever used.
            killed: whether a process of the program ended by SIGKILL, and not by us.
        """
        limit = f"limit {format_size(self._limit)}"
        if self.exceeded is not None:
            return f"memory: {limit} reached ({format_size(self.exceeded)} used), killed by the executor"
        kills = _kills(self._family) - self._kills_before
        if kills <= 0:
            return ""
        victims = f"{kills} process{'' if kills == 1 else 'es'}"
        if not self._family.folders:
            # The kernel tells only how many it killed on the whole machine. It begins with the programs of jobs.
            sure = "the kernel killed this one" if kills == 1 else f"the kernel killed {victims}, this one among them"
            used = f"; at most {format_size(peak)} were used, {limit}" if peak else ""
            return f"memory: the machine's is full, and most likely {sure}{used}" if killed else ""
        if self._was_reached(peak):
            return f"memory: {limit} reached, {victims} killed by the kernel"
        used = f"at {format_size(peak)} of its {limit} " if peak else ""
        return f"memory: the machine's is full; {used}{victims} killed by the kernel"

    def _was_reached(self, peak: int | None) -> bool:
        """Whether it was the limit that the kernel killed for, and not the machine's end."""
        times = cgroup.times_full(self._family.folders)
        if times is not None:
            return times > (self._full_before or 0)
        return peak is None or peak > self._limit - _LAST_PIECE

    def _is_within(self) -> bool:
        if self._family.folders:
            # Only needed where the kernel keeps no peak of its own, but cheap everywhere.
            self._highest = max(self._highest, cgroup.usage(self._family.folders) or 0)
            return True
        pids = self._family.tree()
        self._saw(pids)
        used = process.memory_of(pids)
        if 0 < self._limit < used:
            # Counted fairly it may be less: forked workers share most of their pages.
            used = process.shared_memory_of(pids)
        self._measured = used
        self._highest = max(self._highest, used)
        if 0 < self._limit < used:
            self.exceeded = used
            return False
        return True


def _kills(family: ProcessTree) -> int:
    """How many processes the kernel has killed for want of memory: in the control group, or else on the machine."""
    return cgroup.oom_kills(family.folders) if family.folders else process.machine_oom_kills()

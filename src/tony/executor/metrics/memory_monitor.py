"""Measures how much memory a program uses and enforces its limit.

With a control group the kernel enforces the limit: usage never exceeds it, so what counts is whether the kernel had to
kill. Without one, the executor measures all processes of the program and kills it when they exceed the limit.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from tony.executor.program.process_tree import ProcessTree
from tony.linux import container_cgroup, process
from tony.units import format_size

#: Minimum seconds between measurements.
_INTERVAL_SECONDS = 0.5
#: Minimum ratio of the pause to the duration of a measurement.
_PAUSE_RATIO = 100
#: Seconds from the start to the first measurement: many programs allocate what they need at once.
_FIRST_SECONDS = 0.1
#: Bytes that a control group may have used before a task attempt for the kernel's peak to count as the attempt's own.
_NEGLIGIBLE_BYTES = 1 << 20
#: Bytes of the largest allocation that the kernel may refuse: at that moment, usage is below the limit by less.
_LARGEST_ALLOCATION = 4 << 20


class MemoryMonitor:
    """Watches the memory of one task attempt.

    Attributes:
        exceeded: bytes used when the limit was found exceeded; None until then.
    """

    def __init__(self, limit: int, process_tree: ProcessTree, on_pids: Callable[[Sequence[int]], None]) -> None:
        """Start a new measurement.

        Args:
            limit: bytes; 0 for none.
            on_pids: called with the pids of the program each time they are read.
        """
        self.exceeded: int | None = None
        self._limit = limit
        self._process_tree = process_tree
        self._on_pids = on_pids
        self._measured: int | None = None
        self._highest = 0
        container_cgroup.reset_peak(process_tree.folders)
        self._kills_before = _count_kills(process_tree)
        self._full_before = container_cgroup.times_full(process_tree.folders)
        self._container = container_cgroup.list_own_folders("memory")
        self._container_kills_before = container_cgroup.oom_kills(self._container)
        self._container_full_before = container_cgroup.times_full(self._container)
        peak = container_cgroup.peak(process_tree.folders)
        self._peak_before = peak or 0
        # The kernel keeps limit and peak: an executor that need not measure wakes only for its heartbeats.
        self._left_to_kernel = peak is not None and peak <= _NEGLIGIBLE_BYTES

    def read_usage(self) -> int | None:
        """Return the bytes used now, or when last measured."""
        return container_cgroup.usage(self._process_tree.folders) if self._process_tree.folders else self._measured

    def read_peak(self, largest_process: int) -> int | None:
        """Return the peak usage in bytes.

        Args:
            largest_process: peak in bytes of the largest single process; covers processes too short-lived to be
                measured.
        """
        folders = self._process_tree.folders
        if not folders:
            return max(self._highest, largest_process) or None
        peak = container_cgroup.peak(folders)
        if peak is not None and (peak > self._peak_before or not self._highest):
            return peak
        return self._highest or None

    async def watch(self) -> None:
        """Measure until the limit is exceeded; otherwise never return."""
        if self._left_to_kernel:
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(_FIRST_SECONDS)
        while True:
            started_at = time.monotonic()
            if not self._is_within():
                return
            await asyncio.sleep(max(_INTERVAL_SECONDS, _PAUSE_RATIO * (time.monotonic() - started_at)))

    def describe(self, peak: int | None, *, killed: bool, other_kills: int = 0) -> str:
        """Return a phrase on what happened at the limit; empty if it was kept.

        Args:
            peak: peak usage in bytes.
            killed: True if a process of the program died of a SIGKILL that the executor did not send.
            other_kills: processes in the control group that the kernel killed and that were not the program's.
        """
        limit = f"limit {format_size(self._limit)}"
        if self.exceeded is not None:
            return f"ran out of memory ({limit}): {format_size(self.exceeded)} used, killed by the executor"
        kills = self._count_own_kills(other_kills)
        if kills <= 0:
            return ""
        victims = f"{kills} process{'' if kills == 1 else 'es'}"
        if not self._process_tree.folders:
            # The kernel reports only how many it killed on the whole machine. Programs of jobs are its first choice.
            sure = "killed this one" if kills == 1 else f"killed {victims}, this one among them"
            used = f"; peak {format_size(peak)}, {limit}" if peak else ""
            place = "its container" if self._is_container_full() else "the machine"
            return (
                f"ran out of memory: {place} had none left, and the kernel most likely {sure}{used}" if killed else ""
            )
        if self._was_reached(peak):
            return f"ran out of memory ({limit}): {victims} killed by the kernel"
        used = f"at {format_size(peak)} of its {limit} " if peak else ""
        return f"ran out of memory: the machine had none left; {used}{victims} killed by the kernel"

    def describe_kills(self, peak: int | None, other_kills: int = 0) -> str:
        """Return what the kernel counted of processes killed for memory since the start; empty if it killed none.

        Args:
            peak: peak usage in bytes.
            other_kills: as for `describe`.
        """
        kills = self._count_own_kills(other_kills)
        if kills <= 0:
            return ""
        if not self._process_tree.folders:
            return f"vmstat: oom_kill +{kills} on this machine"
        used = f", peak {format_size(peak)}" if peak else ""
        return f"cgroup memory: oom_kill +{kills} (limit {format_size(self._limit)}{used})"

    def _count_own_kills(self, other_kills: int) -> int:
        return _count_kills(self._process_tree) - self._kills_before - other_kills

    def _was_reached(self, peak: int | None) -> bool:
        """Return True if the kernel killed because of the limit, not because the machine ran out of memory."""
        times = container_cgroup.times_full(self._process_tree.folders)
        if times is not None:
            return times > (self._full_before or 0)
        return peak is None or peak > self._limit - _LARGEST_ALLOCATION

    def _is_container_full(self) -> bool:
        """Return True if the kernel killed because of the limit of the container that the executor itself is in."""
        if container_cgroup.oom_kills(self._container) <= self._container_kills_before:
            return False
        times = container_cgroup.times_full(self._container)
        if times is not None:
            return times > (self._container_full_before or 0)
        limit, peak = container_cgroup.memory_limit(self._container), container_cgroup.peak(self._container)
        return limit is not None and peak is not None and peak > limit - _LARGEST_ALLOCATION

    def _is_within(self) -> bool:
        if self._process_tree.folders:
            # Only needed where the kernel keeps no peak of its own, but cheap everywhere.
            self._highest = max(self._highest, container_cgroup.usage(self._process_tree.folders) or 0)
            return True
        pids = self._process_tree.list_descendants()
        self._on_pids(pids)
        used = process.memory_of(pids)
        if 0 < self._limit < used:
            # The proportional set size may be less: forked workers share most of their pages.
            used = process.measure_shared_memory(pids)
        self._measured = used
        self._highest = max(self._highest, used)
        if 0 < self._limit < used:
            self.exceeded = used
            return False
        return True


def _count_kills(process_tree: ProcessTree) -> int:
    """Return the number of OOM kills: in the control group, or else on the whole machine."""
    return container_cgroup.oom_kills(process_tree.folders) if process_tree.folders else process.machine_oom_kills()

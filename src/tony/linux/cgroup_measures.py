"""Memory and CPU time of a control group, as the kernel counts them."""

from __future__ import annotations

from collections.abc import Sequence

from tony.linux.kernel_files import parse_number, read_text, read_words, try_write


def oom_kills(folders: Sequence[str]) -> int:
    """Return how many processes of the group the kernel has killed at its memory limit, since the group was created."""
    for folder in folders:
        for file in ("memory.events", "memory.oom_control"):
            for line in read_text(f"{folder}/{file}").splitlines():
                key, _, count = line.partition(" ")
                if key == "oom_kill" and (number := parse_number(count)) is not None:
                    return number
    return 0


def times_full(folders: Sequence[str]) -> int | None:
    """Return how often the group's own limit, not one above it or the machine's, prevented an allocation.

    None where the kernel does not report it (v1: the failure counters do not advance in newer kernels).
    """
    for folder in folders:
        for file in ("memory.events.local", "memory.events"):
            for line in read_text(f"{folder}/{file}").splitlines():
                key, _, count = line.partition(" ")
                if key == "oom":
                    return int(count)
    return None


def peak(folders: Sequence[str]) -> int | None:
    """Return the group's peak memory in bytes (since `reset_peak`); None where the kernel does not report it."""
    return _number(folders, "memory.peak", "memory.max_usage_in_bytes")


def reset_peak(folders: Sequence[str]) -> None:
    """Restart the measurement of `peak`, where the kernel can (v1): several programs may use a group in turn."""
    for folder in folders:
        try_write(f"{folder}/memory.max_usage_in_bytes", "0")


def usage(folders: Sequence[str]) -> int | None:
    """Return the group's current memory in bytes; None where there is no group.

    Excludes file contents that the kernel caches only while the memory is not needed otherwise.
    """
    current = _number(folders, "memory.current", "memory.usage_in_bytes")
    if current is None:
        return None
    return max(0, current - _read_idle_cache(folders))


def has_cpu_limit(folder: str) -> bool:
    """Return True if a group may use only so much CPU time in each period."""
    quota = read_text(f"{folder}/cpu.max").split()[:1] or [read_text(f"{folder}/cpu.cfs_quota_us").strip()]
    return parse_number(quota[0]) is not None


def read_throttling(folder: str) -> tuple[float, float, float]:
    """Return the periods of a group's CPU limit, in how many it was reached, and the seconds that processors waited."""
    found = read_words(f"{folder}/cpu.stat")
    seconds = float(found.get("throttled_usec", 0)) * 1e-6 or float(found.get("throttled_time", 0)) * 1e-9
    return float(found.get("nr_periods", 0)), float(found.get("nr_throttled", 0)), seconds


def _number(folders: Sequence[str], *files: str) -> int | None:
    for folder in folders:
        for file in files:
            number = parse_number(read_text(f"{folder}/{file}").strip())
            if number is not None:
                return number
    return None


def _read_idle_cache(folders: Sequence[str]) -> int:
    for folder in folders:
        found = dict(line.partition(" ")[::2] for line in read_text(f"{folder}/memory.stat").splitlines())
        idle = parse_number(found.get("total_inactive_file", found.get("inactive_file", "")))
        if idle is not None:
            return idle
    return 0

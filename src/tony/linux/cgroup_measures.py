"""Memory and CPU time of a control group, as the kernel counts them."""

from __future__ import annotations

from collections.abc import Sequence

from tony.linux.kernel_files import parse_number, read_number, read_text, read_words, try_write


def oom_kills(folders: Sequence[str]) -> int:
    """Return how many processes of the group the kernel has killed at its memory limit, since the group was created."""
    return _find_word(folders, ("memory.events", "memory.oom_control"), "oom_kill") or 0


def times_full(folders: Sequence[str]) -> int | None:
    """Return how often the group's own limit, not one above it or the machine's, prevented an allocation.

    None where the kernel does not report it (v1: the failure counters do not advance in newer kernels).
    """
    return _find_word(folders, ("memory.events.local", "memory.events"), "oom")


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
    idle = _find_word(folders, ("memory.stat",), "total_inactive_file", "inactive_file")
    return max(0, current - (idle or 0))


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
            number = read_number(f"{folder}/{file}")
            if number is not None:
                return number
    return None


def _find_word(folders: Sequence[str], files: Sequence[str], *words: str) -> int | None:
    """Return the number after the first of the words that a file of the group contains; None if none does."""
    for folder in folders:
        for file in files:
            found = read_words(f"{folder}/{file}")
            number = next((number for word in words if (number := parse_number(found.get(word, ""))) is not None), None)
            if number is not None:
                return number
    return None

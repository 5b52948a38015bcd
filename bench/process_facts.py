"""What every user may read of a process, also of one that cannot be inspected, as tony's cannot."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

_NS = 1e-9


def command_line(pid: int) -> list[str]:
    """Its words; none if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
    return []


def status_of(pid: int) -> Mapping[str, str]:
    """Linux's names for its facts; none if it has ended."""
    with suppress(OSError):
        pairs = (line.partition(":") for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        return {name: text.strip() for name, _, text in pairs}
    return {}


def resident(pid: int) -> int:
    """Bytes of memory that it holds (RSS); 0 if it has ended."""
    return int(status_of(pid).get("VmRSS", "0 kB").split()[0]) * 1024


def processor_time(pid: int) -> float:
    """Seconds that its living threads have computed, to the nanosecond."""
    used = 0
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError):
            used += int(path.read_text().split()[0])
    return used * _NS

"""What the numbers were taken on."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

_GIB = 1 << 30


def size() -> str:
    """Cores, memory, processor, Python and kernel, in one line."""
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIB
    words = [
        f"{cores} core{'s' if cores != 1 else ''}",
        _processor(),
        f"{memory:.1f} GiB",
        f"Python {platform.python_version()}",
        f"Linux {platform.release()}",
    ]
    return ", ".join(word for word in words if word)


def load() -> str:
    """Load averages over 1, 5 and 15 minutes: who else was at work."""
    return " ".join(f"{value:.2f}" for value in os.getloadavg())


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return ""
    return re.sub(r"\s+", " ", found[1]).strip() if found else ""

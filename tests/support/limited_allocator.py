"""An AM on a simulated machine whose number of containers is limited by a file, to test scaling down and up.

    JobModules(master=module_words("limited_allocator", "/tmp/room"))

The file holds a number, which may change at any time; without the file there is no limit. Running containers are kept;
a container that is lost after the limit was lowered is not replaced. Everything else is as in production.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from tony.am import main as am
from tony.schedulers.local import allocator
from tony.schedulers.local.allocator import LocalAllocator


class CrampedSource(LocalAllocator):
    """Grants as production does, up to that limit."""

    room: Path

    def set_demand(self, role: str, total: int) -> None:
        self._asked = {**getattr(self, "_asked", {}), role: total}
        super().set_demand(role, total)

    def _grant(self) -> None:
        living = Counter(container.role for container in self._containers.values())
        left = _read(self.room) - living.total()
        for role, total in getattr(self, "_asked", {}).items():
            more = max(0, min(total - living[role], left))
            left -= more
            self._allocation.set_demand(role, min(total, living[role] + more))
        super()._grant()


def _read(room: Path) -> int:
    try:
        return int(room.read_text())
    except (FileNotFoundError, ValueError):
        return sys.maxsize


def main() -> int:
    """Run one AM attempt."""
    CrampedSource.room = Path(sys.argv.pop(1))
    vars(allocator)["LocalAllocator"] = CrampedSource  # production has no hook for it
    return am.main()

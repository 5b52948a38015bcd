"""The devices of a role as they were measured. Pure."""

from __future__ import annotations

import statistics

from tony.advice.facts import RoleFacts
from tony.dataclass import dataclass
from tony.history.metrics_reader import Peak


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device of one task.

    Attributes:
        number: among the task's own, from 0.
        util: share of the time in which it computed.
        opened: bytes of its memory that were in use, the most; infinite if that is not known.
    """

    task: str
    number: int
    util: Peak
    opened: float


def devices(known: RoleFacts) -> list[Device] | None:
    """All devices of a role; None unless all of them were measured."""
    found = []
    for task, used in known.used.items():
        for number in range(known.gpus):
            util, memory = used.get(f"gpu{number}.util"), used.get(f"gpu{number}.memory")
            if util is None:
                return None
            opened = memory.most if memory else float("inf")
            found.append(Device(task=task, number=number, util=util, opened=opened))
    return found if len(found) >= known.gpus * known.tasks > 0 else None


def mean_use(known: RoleFacts) -> float | None:
    """The mean share of the time in which its devices computed; None unless all were measured."""
    found = devices(known)
    return statistics.fmean(device.util.mean for device in found) if found else None

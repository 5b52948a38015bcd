"""GPU metrics of a role. Pure."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from tony.advice.facts import RoleFacts
from tony.history.metrics_reader import Peak


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One GPU of one task.

    Attributes:
        number: index among the GPUs of the task, from 0.
        util: utilisation, 0 to 1.
        opened: peak memory in use, bytes; infinite if unknown.
    """

    task: str
    number: int
    util: Peak
    opened: float


def devices(known: RoleFacts) -> list[Device] | None:
    """Return all GPUs of a role; None unless metrics of all are known."""
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
    """Return the mean utilisation of its GPUs; None unless metrics of all are known."""
    found = devices(known)
    return statistics.fmean(device.util.mean for device in found) if found else None

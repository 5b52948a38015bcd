"""What a job holds of the machine, divided among its containers. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tony.model.job import Resources
from tony.units import format_size


class Allotment:
    """A granted claim's memory (bytes) and devices."""

    def __init__(self, memory: int, devices: Sequence[str]) -> None:
        self._memory = memory
        self._devices = list(devices)

    def take(self, wanted: Resources) -> tuple[str, ...] | None:
        """The devices of a new container (none if it wants none); None if there is no room for it now."""
        if wanted.memory > self._memory or wanted.gpus > len(self._devices):
            return None
        self._memory -= wanted.memory
        devices, self._devices = self._devices[: wanted.gpus], self._devices[wanted.gpus :]
        return tuple(devices)

    def give_back(self, memory: int, devices: Sequence[str]) -> None:
        """What a container held is free again."""
        self._memory += memory
        self._devices.extend(devices)

    def describe_free(self) -> str:
        """What is free now: `3g of memory and 1 GPU`."""
        gpus = len(self._devices)
        return f"{format_size(self._memory)} of memory and {gpus} GPU{'' if gpus == 1 else 's'}"

"""Who of a job's roles gets a container next, within what the job holds of the machine. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from tony.model.job_spec import JobSpec, Resources
from tony.units import format_size


class Grants:
    """A job's demand, and its claim divided among containers. Roles are served in the job's order."""

    def __init__(self, spec: JobSpec) -> None:
        self._roles = {name: (role.instances, role.resources) for name, role in spec.effective_roles.items()}
        self._demand: Counter[str] = Counter()
        self._living: Counter[str] = Counter()
        self._memory = 0
        self._devices: list[str] = []
        self._used: set[str] = set()

    def admit(self, memory: int, devices: Sequence[str]) -> None:
        """The claim was granted: bytes, and ids of devices. What living containers hold of it they keep."""
        self._memory += memory
        self._devices = [device for device in devices if device not in self._used]

    def enlarge(self, memory: int, devices: Sequence[str]) -> None:
        """The claim has grown by so many bytes; its devices are all that it has now."""
        self._memory += memory
        self._devices = [device for device in devices if device not in self._used]

    def adopt(self, role: str, devices: Sequence[str]) -> None:
        """A container lives that an earlier application master was granted; before `admit` or after it."""
        self._count(role, devices)
        self._devices = [device for device in self._devices if device not in self._used]

    def impossible(self, role: str, total: int) -> str:
        """Why a demand can never be met; empty if it can."""
        if role not in self._roles:
            return f"the job has no role {role}"
        most, _ = self._roles[role]
        if total > most:
            return f"{total} containers of {role} were asked for, and the job's claim has room for {most}"
        return ""

    def want(self, role: str, total: int) -> None:
        """Sets a role's demand."""
        self._demand[role] = total

    def take(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yields role and devices of each container that is wanted and has room; it counts as living from then on."""
        for role, (_, resources) in self._roles.items():
            while self._living[role] < self._demand[role] and self._has_room(resources):
                devices, self._devices = self._devices[: resources.gpus], self._devices[resources.gpus :]
                self._count(role, devices)
                yield role, tuple(devices)

    def ended(self, role: str, devices: Sequence[str]) -> None:
        """A container is gone: what it held is free."""
        self._living[role] -= 1
        self._memory += self._roles[role][1].memory
        self._devices.extend(devices)
        self._used.difference_update(devices)

    def shortage(self, *, grows: bool = False) -> str:
        """What is wanted and has no room until other containers of the job end; empty if nothing.

        Args:
            grows: what the job holds may become more.
        """
        missing = {role: self._demand[role] - self._living[role] for role in self._roles}
        short = " and ".join(f"{count} of {role}" for role, count in missing.items() if count > 0)
        if not short:
            return ""
        holders = ", ".join(role for role in self._roles if self._living[role])
        gpus = f"{len(self._devices)} GPU{'' if len(self._devices) == 1 else 's'}"
        return (
            f"no room for {short} within what the job holds ({format_size(self._memory)} of memory and {gpus} free) "
            f"until containers of {holders} end{', or other jobs on this machine' if grows else ''}"
        )

    def _count(self, role: str, devices: Sequence[str]) -> None:
        self._living[role] += 1
        self._memory -= self._roles[role][1].memory
        self._used.update(devices)

    def _has_room(self, wanted: Resources) -> bool:
        return wanted.memory <= self._memory and wanted.gpus <= len(self._devices)

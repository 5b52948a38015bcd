"""Divide a job's claim on the machine among its roles: which one gets a container next. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from tony.model.job_spec import JobSpec
from tony.units import format_count, format_size


class RoleAllocation:
    """A job's demand, and its claim divided among containers. Roles are served in the job's order."""

    def __init__(self, spec: JobSpec) -> None:
        self._roles = {name: (role.instances, role.resources) for name, role in spec.effective_roles.items()}
        self._memory_of = {name: role.resources.memory for name, role in spec.effective_roles.items()}
        self._demand: Counter[str] = Counter()
        self._running_count: Counter[str] = Counter()
        self._memory = 0
        self._devices: list[str] = []
        self._used: set[str] = set()

    def enlarge(self, memory: int, devices: Sequence[str]) -> None:
        """Add some bytes to the claim; `devices` are all of its devices now. Running containers keep their share."""
        self._memory += memory
        self._devices = [device for device in devices if device not in self._used]

    def set_memory(self, role: str, memory: int) -> None:
        """Set the bytes of each further container of a role."""
        self._memory_of[role] = memory

    def get_memory(self, role: str) -> int:
        """Return the bytes of the next container of a role."""
        return self._memory_of[role]

    def add_recovered(self, role: str, devices: Sequence[str], memory: int) -> None:
        """Count a container of an earlier AM attempt that is still running; before or after `enlarge`."""
        self._count(role, devices, memory)
        self._devices = [device for device in self._devices if device not in self._used]

    def explain_impossible(self, role: str, total: int) -> str:
        """Return why a demand can never be met; empty if it can."""
        if role not in self._roles:
            return f"the job has no role {role}"
        most, _ = self._roles[role]
        if total > most:
            return f"{total} containers of {role} requested, but the job's claim covers {most}"
        return ""

    def set_demand(self, role: str, total: int) -> None:
        """Set a role's demand."""
        self._demand[role] = total

    def allocate(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield role and devices of each container that can be granted; it counts as running from then on."""
        for role, (_, resources) in self._roles.items():
            memory = self._memory_of[role]
            while self._running_count[role] < self._demand[role] and self._is_within_claim(memory, resources.gpus):
                devices, self._devices = self._devices[: resources.gpus], self._devices[resources.gpus :]
                self._count(role, devices, memory)
                yield role, tuple(devices)

    def release(self, role: str, devices: Sequence[str], memory: int) -> None:
        """Return the resources of an ended container."""
        self._running_count[role] -= 1
        self._memory += memory
        self._devices.extend(devices)
        self._used.difference_update(devices)

    def find_pending_reason(self, *, grows: bool = False) -> str:
        """Return why demanded containers have to wait for others of the job to end; empty if none wait.

        Args:
            grows: the job's claim may be enlarged.
        """
        missing = {role: self._demand[role] - self._running_count[role] for role in self._roles}
        short = " and ".join(f"{count} of {role}" for role, count in missing.items() if count > 0)
        if not short:
            return ""
        holders = ", ".join(role for role in self._roles if self._running_count[role])
        gpus = format_count(len(self._devices), "GPU")
        return (
            f"waiting: not enough resources in the job's claim for {short} ({format_size(self._memory)} of memory and "
            f"{gpus} free) until containers of {holders} end{', or other jobs on this machine' if grows else ''}"
        )

    def _count(self, role: str, devices: Sequence[str], memory: int) -> None:
        self._running_count[role] += 1
        self._memory -= memory
        self._used.update(devices)

    def _is_within_claim(self, memory: int, gpus: int) -> bool:
        return memory <= self._memory and gpus <= len(self._devices)

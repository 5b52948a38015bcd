"""Checks of what jobs on this machine use: control groups, GPUs, the ledger of reserved resources."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator

from tony.linux import container_cgroup
from tony.model.health_check import Health, HealthCheck
from tony.schedulers.local.claims import ledger
from tony.schedulers.local.claims.machine_capacity import measure
from tony.schedulers.local.settings import DEFAULT_LEDGER, LocalSettings
from tony.units import format_size

_GROUP_BYTES = 64 * 1024 * 1024


def check_machine(settings: LocalSettings) -> Iterator[HealthCheck]:
    """Yield the checks; creates and removes a control group, and asks the NVIDIA tools."""
    yield _check_cgroup()
    machine = measure(settings, with_gpus=True)
    yield HealthCheck(
        name="memory", state=Health.OK, detail=f"{format_size(machine.memory)} for jobs ({machine.memory_origin})"
    )
    if machine.gpus:
        yield HealthCheck(name="GPUs", state=Health.OK, detail=f"{len(machine.gpus)} ({machine.gpus_origin})")
        yield _check_gpu_metrics()
    else:
        yield HealthCheck(
            name="GPUs",
            state=Health.MISSING,
            detail=machine.gpus_origin or "no NVIDIA device",
            cost="jobs that request GPUs cannot run on this machine",
            remedy="install the NVIDIA driver, and in a container pass the devices into it",
        )
    yield _check_ledger(settings)


def _check_cgroup() -> HealthCheck:
    folders = container_cgroup.create(f"check-{os.getpid()}", _GROUP_BYTES, None)
    if not folders:
        return HealthCheck(
            name="control groups",
            state=Health.MISSING,
            detail="none with a memory limit can be created (no delegation)",
            cost="memory limits are checked by measuring, so a task can exceed its limit for a moment",
            remedy="run tony in a delegated group: systemd-run --user --scope -p Delegate=yes tony submit ...",
        )
    container_cgroup.remove(folders)
    version = "v1" if "/memory/" in folders[0] else "v2"
    return HealthCheck(
        name="control groups", state=Health.OK, detail=f"{version}: the kernel enforces memory limits of tasks"
    )


def _check_gpu_metrics() -> HealthCheck:
    if importlib.util.find_spec("pynvml") is not None:
        return HealthCheck(name="GPU metrics", state=Health.OK, detail="package nvidia-ml-py")
    return HealthCheck(
        name="GPU metrics",
        state=Health.MISSING,
        detail="package nvidia-ml-py is not installed next to tony",
        cost="utilization and memory of GPUs are not recorded, unless the job's own Python has the package",
        remedy="pip install nvidia-ml-py",
    )


def _check_ledger(settings: LocalSettings) -> HealthCheck:
    place = settings.ledger or DEFAULT_LEDGER
    problem = ledger.explain_unusable(place)
    if not problem:
        return HealthCheck(name="ledger", state=Health.OK, detail=str(place))
    return HealthCheck(
        name="ledger",
        state=Health.MISSING,
        detail=f"{place}: {problem}",
        cost="jobs of other users are not taken into account, so that together they may exceed this machine",
        remedy="set scheduler.local.ledger to a folder that all users may write",
        required=settings.ledger is not None,
    )

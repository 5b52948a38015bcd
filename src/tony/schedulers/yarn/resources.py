"""Resources as YARN states them."""

from __future__ import annotations

from tony.hadoop.wire.yarn_records import Resource, ResourceValue
from tony.model.job_spec import MIB, Resources
from tony.schedulers.yarn.settings import YarnSettings

#: YARN's name for GPUs.
GPU = "yarn.io/gpu"


def build_capability(resources: Resources) -> Resource:
    """Return a task's resources as YARN's; memory is rounded up to whole MiB."""
    others = dict(resources.others)
    if resources.gpus:
        others.setdefault(GPU, resources.gpus)
    return Resource(
        memory=round_memory(resources.memory),
        vcores=resources.vcores,
        others=tuple(ResourceValue(name=name, value=value, units="") for name, value in sorted(others.items())),
    )


def round_memory(size: int) -> int:
    """Return bytes as YARN's whole MiB, rounded up."""
    return -(-size // MIB)


def count_gpus(resources: Resources) -> int:
    """Return the number of GPUs of a task, whichever setting requests them."""
    return dict(resources.others).get(GPU, resources.gpus)


def build_master_capability(settings: YarnSettings) -> Resource:
    """Return the application master's resources."""
    return Resource(memory=round_memory(settings.am_memory), vcores=settings.am_vcores)

"""A container of the local scheduler, and its stages."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum

from tony.model.job_spec import Resources
from tony.schedulers.local.containers.executor_processes import ExecutorProcess


class ContainerStage(Enum):
    GRANTED = "granted"  #: nothing runs in it
    STARTING = "starting"  #: its files are being copied
    RUNNING = "running"  #: its executor runs
    ENDING = "ending"  #: remaining processes of the executor are being killed


@dataclass(slots=True, kw_only=True, eq=False)
class LocalContainer:
    """A container of the local scheduler.

    Attributes:
        adopted: an earlier AM attempt launched it.
        groups: folders of its control group; empty before the start, and where control groups cannot be used.
        cause: why the AM ends it; empty as long as it does not.
        force: kills it when the grace period of `release` has passed.
    """

    id: str
    role: str
    resources: Resources
    devices: tuple[str, ...]
    stage: ContainerStage = ContainerStage.GRANTED
    executor: ExecutorProcess | None = None
    adopted: bool = False
    groups: tuple[str, ...] = ()
    cause: str = ""
    force: asyncio.TimerHandle | None = None

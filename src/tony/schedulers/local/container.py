"""One container of this machine, as the application master remembers it until its end has been told."""

from __future__ import annotations

import asyncio
from enum import Enum

from tony.dataclass import dataclass
from tony.model.job_spec import Resources
from tony.schedulers.local.executor_processes import ExecutorProcess


class ContainerStage(Enum):
    GRANTED = "granted"  #: nothing runs in it
    STARTING = "starting"  #: its files are laid down
    RUNNING = "running"  #: its executor lives
    ENDING = "ending"  #: what the executor left is ended


@dataclass(slots=True, kw_only=True, eq=False)
class LocalContainer:
    """A container.

    Attributes:
        adopted: an earlier application master has launched it.
        groups: folders of its control group; empty before the start, and where there can be none.
        cause: why we end it; empty as long as we do not.
        force: ends it when the patience of `release` is over.
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

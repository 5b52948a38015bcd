"""The settings of the local scheduler: `[scheduler.local]` in a job file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tony.dataclass import dataclass
from tony.errors import Problem
from tony.schedulers.settings_schema import SchedulerSetting, SettingType, read_values

#: One for all users, whatever their TMPDIR says.
DEFAULT_LEDGER = Path("/tmp/tony-ledger")
DEFAULT_EXECUTOR = "tony.executor.main"
DEFAULT_MASTER = "tony.am.main"

SETTINGS: Sequence[SchedulerSetting] = (
    SchedulerSetting(
        name="memory",
        type=SettingType.SIZE,
        default="nine tenths of the machine's memory, or of the limit we run under",
        meaning="Memory that all jobs of this machine may hold together.",
        minimum=1,
    ),
    SchedulerSetting(
        name="gpus",
        type=SettingType.INT,
        default="the NVIDIA devices that are found",
        meaning="Pretend this many GPUs, with the ids 0, 1, 2 and so on; 0 hides real ones. For tests of GPU jobs.",
    ),
    SchedulerSetting(
        name="ledger",
        type=SettingType.PATH,
        default=str(DEFAULT_LEDGER),
        meaning="Folder in which the jobs of all users of this machine write down what they hold.",
    ),
    SchedulerSetting(
        name="executor",
        type=SettingType.TEXT,
        default=DEFAULT_EXECUTOR,
        meaning="Module that is started in each container, and its arguments. Another one is for rehearsing faults.",
    ),
    SchedulerSetting(
        name="master",
        type=SettingType.TEXT,
        default=DEFAULT_MASTER,
        meaning="Module of the application master, and its arguments. Another one is for rehearsing faults.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    """The table's values, read.

    Attributes:
        memory: bytes, or None to measure.
        gpus: how many to pretend, or None to look for real ones.
        ledger: the folder that was asked for, or None for the usual places.
    """

    memory: int | None = None
    gpus: int | None = None
    ledger: Path | None = None
    executor: str = DEFAULT_EXECUTOR
    master: str = DEFAULT_MASTER


def read_settings(values: Mapping[str, object]) -> tuple[LocalSettings, list[Problem]]:
    """Reads `JobSpec.scheduler_settings`. What is wrong is told, and left out."""
    read, problems = read_values("local", SETTINGS, values)
    memory, gpus, ledger = read.get("memory"), read.get("gpus"), read.get("ledger")
    settings = LocalSettings(
        memory=None if memory is None else int(memory),
        gpus=None if gpus is None else int(gpus),
        ledger=None if ledger is None else Path(str(ledger)),
        executor=str(read.get("executor", DEFAULT_EXECUTOR)),
        master=str(read.get("master", DEFAULT_MASTER)),
    )
    return settings, problems

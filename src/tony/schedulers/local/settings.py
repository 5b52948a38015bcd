"""The settings of the local scheduler: `[scheduler.local]` in a job file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tony.dataclass import dataclass
from tony.errors import Problem
from tony.schedulers.settings import SchedulerSetting, SettingType
from tony.units import parse_size

#: One for all users, whatever their TMPDIR says.
DEFAULT_LEDGER = Path("/tmp/tony-ledger")
DEFAULT_EXECUTOR = "tony.executor.main"

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


def read_settings(values: Mapping[str, object]) -> tuple[LocalSettings, list[Problem]]:
    """Reads `JobSpec.scheduler_settings`. What is wrong is told, and left out."""
    known = {setting.name: setting for setting in SETTINGS}
    read: dict[str, int | str] = {}
    problems = []
    for name, value in values.items():
        try:
            if name not in known:
                raise ValueError(f"the local scheduler has no such setting; it has {', '.join(known)}.")
            read[name] = _read(known[name], value)
        except ValueError as error:
            problems.append(Problem(key=f"scheduler.local.{name}", value=str(value), message=str(error)))
    memory, gpus, ledger = read.get("memory"), read.get("gpus"), read.get("ledger")
    settings = LocalSettings(
        memory=None if memory is None else int(memory),
        gpus=None if gpus is None else int(gpus),
        ledger=None if ledger is None else Path(str(ledger)),
        executor=str(read.get("executor", DEFAULT_EXECUTOR)),
    )
    return settings, problems


def _read(setting: SchedulerSetting, value: object) -> int | str:
    if setting.type is SettingType.SIZE and isinstance(value, str):
        value = parse_size(value)
    if setting.type in (SettingType.SIZE, SettingType.INT):
        if isinstance(value, bool) or not isinstance(value, int) or value < setting.minimum:
            raise ValueError(f"expected {_expected(setting)}.")
        return value
    if not isinstance(value, str) or not value:
        raise ValueError(f"expected {_expected(setting)}.")
    if setting.type is SettingType.PATH and not value.startswith("/"):
        raise ValueError("expected an absolute path.")
    return value


def _expected(setting: SchedulerSetting) -> str:
    match setting.type:
        case SettingType.SIZE:
            return 'a size such as "4g"'
        case SettingType.INT:
            return f"a whole number from {setting.minimum} on"
        case SettingType.PATH:
            return "a path"
        case SettingType.TEXT:
            return "text"

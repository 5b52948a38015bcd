"""The settings of the local scheduler: `[scheduler.local]` in a job file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tony.errors import Problem
from tony.schedulers.settings_schema import SchedulerSetting, SettingType, read_values

#: One for all users, independent of TMPDIR.
DEFAULT_LEDGER = Path("/tmp/tony-ledger")

SETTINGS: Sequence[SchedulerSetting] = (
    SchedulerSetting(
        "memory",
        SettingType.SIZE,
        "nine tenths of the machine's memory, or of the memory limit of the control group",
        "Memory that all jobs on this machine may reserve together.",
        minimum=1,
    ),
    SchedulerSetting(
        "gpus",
        SettingType.INT,
        "the NVIDIA devices detected",
        "Simulate this many GPUs, with ids 0, 1, 2 and so on; 0 hides real ones. For tests of GPU jobs.",
    ),
    SchedulerSetting(
        "ledger",
        SettingType.PATH,
        str(DEFAULT_LEDGER),
        "Folder in which the jobs of all users of this machine record their reserved memory and GPUs.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    """Parsed settings of the local scheduler.

    Attributes:
        memory: bytes, or None to measure.
        gpus: number of GPUs to simulate, or None to detect real ones.
        ledger: the folder that was set, or None for the default locations.
    """

    memory: int | None = None
    gpus: int | None = None
    ledger: Path | None = None


def read_settings(values: Mapping[str, object]) -> tuple[LocalSettings, list[Problem]]:
    """Parse `JobSpec.scheduler_settings`; invalid values are reported as problems and left out."""
    read, problems = read_values("local", SETTINGS, values)
    given: dict[str, object] = dict(read)
    if "ledger" in given:
        given["ledger"] = Path(str(given["ledger"]))
    return LocalSettings(**given), problems  # type: ignore[arg-type]

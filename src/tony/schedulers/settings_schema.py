"""The settings of a scheduler as a table, from which validation and docs are derived."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import cast

from tony.errors import Problem
from tony.model.job_spec import SettingValue
from tony.model.state_directory import JobFolder
from tony.schedulers.registry import package_of
from tony.units import parse_duration, parse_size


class SettingType(Enum):
    """Type by which the text of a setting is parsed."""

    SIZE = "size"  #: `4g`; parsed to int (bytes)
    INT = "int"  #: a whole number
    DURATION = "duration"  #: `90s`; parsed to float (seconds)
    PATH = "path"  #: absolute, or relative to the folder of the file that sets it
    TEXT = "text"  #: unchanged
    TRUTH = "truth"  #: true or false
    WORDS = "words"  #: a list of words; parsed to a tuple
    TABLE = "table"  #: a table of JSON values


_EXPECTED = {
    SettingType.SIZE: 'a size such as "4g"',
    SettingType.INT: "a whole number of at least {minimum}",
    SettingType.DURATION: 'a duration such as "90s"',
    SettingType.PATH: "a path",
    SettingType.TEXT: "text",
    SettingType.TRUTH: "true or false",
    SettingType.WORDS: "a list of words",
    SettingType.TABLE: "a table",
}


@dataclass(frozen=True, slots=True)
class SchedulerSetting:
    """One key of `[scheduler.<name>]`, or of `[roles.<role>.<name>]`.

    Attributes:
        default: in words, for the docs; the scheduler has the value itself.
        meaning: one or two sentences.
        minimum: smallest value of a size (bytes), a whole number or a duration (seconds).
    """

    name: str
    type: SettingType
    default: str
    meaning: str
    minimum: int = 0


def load_settings(scheduler: str) -> tuple[SchedulerSetting, ...]:
    """Return the settings of one scheduler, without loading the scheduler itself.

    Raises:
        LookupError: there is no scheduler of that name.
    """
    return tuple(cast(Sequence[SchedulerSetting], import_module(f"{package_of(scheduler)}.settings").SETTINGS))


def role_settings_of(scheduler: str) -> tuple[SchedulerSetting, ...]:
    """Return the settings of one scheduler for each role. Raises like `load_settings`."""
    module = import_module(f"{package_of(scheduler)}.settings")
    return tuple(cast(Sequence[SchedulerSetting], getattr(module, "ROLE_SETTINGS", ())))


def load_recorded_values(folder: JobFolder) -> Mapping[str, object]:
    """Return `JobSpec.scheduler_settings` of a recorded job, unparsed; none if it is not recorded here."""
    try:
        values = json.loads(folder.job.read_bytes())["spec"]["scheduler_settings"]
    except (OSError, ValueError, LookupError, TypeError):
        return {}
    return values if isinstance(values, dict) else {}


def read_values(
    scheduler: str, settings: Sequence[SchedulerSetting], values: Mapping[str, object]
) -> tuple[dict[str, SettingValue], list[Problem]]:
    """Parse `JobSpec.scheduler_settings`; return the valid values by name, and a problem for each invalid one."""
    known = {setting.name: setting for setting in settings}
    read: dict[str, SettingValue] = {}
    problems = []
    for name, value in values.items():
        try:
            if name not in known:
                raise ValueError(f"unknown setting of the {scheduler} scheduler; its settings are {', '.join(known)}.")
            read[name] = _read(known[name], value)
        except ValueError as error:
            problems.append(Problem(key=f"scheduler.{scheduler}.{name}", value=str(value), message=str(error)))
    return read, problems


def _read(setting: SchedulerSetting, value: object) -> SettingValue:
    read = _convert(setting, value)
    if read is None:
        raise ValueError(f"expected {_EXPECTED[setting.type].format(minimum=setting.minimum)}.")
    if setting.type is SettingType.PATH and not str(read).startswith("/"):
        raise ValueError("expected an absolute path.")
    return read


def _convert(setting: SchedulerSetting, value: object) -> SettingValue | None:
    """Return a value by the setting's type; None if it is not of that type, or too small."""
    match setting.type, value:
        case SettingType.TRUTH, bool():
            return value
        case SettingType.WORDS, list() | tuple():
            return tuple(value) if all(isinstance(word, str) and word for word in value) else None
        case SettingType.TABLE, Mapping():
            return value
        case SettingType.TEXT | SettingType.PATH, str():
            return value or None
        case SettingType.SIZE, str():
            value = parse_size(value)
        case SettingType.DURATION, str():
            value = parse_duration(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or value < setting.minimum:
        return None
    if setting.type is SettingType.DURATION:
        return float(value)
    return value if setting.type in (SettingType.SIZE, SettingType.INT) and isinstance(value, int) else None

"""What can be set for one scheduler, as a table: validation and docs are made from it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from importlib import import_module
from typing import cast

from tony.dataclass import dataclass
from tony.schedulers.registry import package_of


class SettingType(Enum):
    """How the text of a setting is read."""

    SIZE = "size"  #: `4g`; bytes as int once it is read
    INT = "int"  #: a whole number
    PATH = "path"  #: absolute, or relative to the folder of the file that sets it
    TEXT = "text"  #: as it is


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSetting:
    """One key of `[scheduler.<name>]`.

    Attributes:
        default: in words, for the docs; what it is by number the scheduler knows.
        meaning: one sentence or two.
        minimum: smallest value of a size (bytes) or whole number.
    """

    name: str
    type: SettingType
    default: str
    meaning: str
    minimum: int = 0


def settings_of(scheduler: str) -> tuple[SchedulerSetting, ...]:
    """All that can be set for one scheduler; read without loading the scheduler itself.

    Raises:
        LookupError: there is no scheduler of that name.
    """
    return tuple(cast(Sequence[SchedulerSetting], import_module(f"{package_of(scheduler)}.settings").SETTINGS))

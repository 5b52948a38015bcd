"""Data classes of recommendations."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from tony.config.table.layers import format_key, quote
from tony.units import Unit


class Severity(Enum):
    """Severity of a recommendation, most severe first."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One number that supports a recommendation; `what` is its label."""

    what: str
    value: float
    measure: Unit = Unit.COUNT


@dataclass(frozen=True, slots=True)
class Interval:
    """The expected range of a number."""

    least: float
    most: float


def savings_range(values: Iterable[float]) -> Interval | None:
    """Return the range of the savings of several runs; None without savings."""
    found = sorted(max(0.0, value) for value in values)
    return Interval(found[0], found[-1]) if found and found[-1] > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """The saving of a run like the last ones. None: nothing, or unknown.

    Attributes:
        gb_hours: of memory; a GB is 1024³ bytes.
        seconds: shorter run time.
    """

    gb_hours: Interval | None = None
    gpu_hours: Interval | None = None
    core_hours: Interval | None = None
    seconds: Interval | None = None


class SettingKey(tuple[str, ...]):
    """The parts of a setting's key; as text dotted, with parts in quotes where necessary: `roles.worker.memory`."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> SettingKey:
        """Return the key of its text.

        Raises:
            ValueError: the text is not a dotted key.
        """
        parts = []
        values: object = _parse_toml(f"{text} = 0")
        while isinstance(values, dict):
            ((part, values),) = values.items()
            parts.append(part)
        return cls(parts)

    def __str__(self) -> str:
        return format_key(self)


class SettingValue(NamedTuple):
    """A value of a setting, None and false if it is not set; as text TOML: `"2g"`, `3`, empty if it is not set."""

    value: str | int | float | None = None

    @classmethod
    def parse(cls, text: str) -> SettingValue:
        """Return the value of its text.

        Raises:
            ValueError: the text is neither empty nor one TOML value that is a text or a number.
        """
        if not text:
            return cls()
        found = _parse_toml(f"value = {text}")
        if len(found) != 1 or not isinstance(found["value"], str | int | float):
            raise ValueError("not a text or a number")
        return cls(found["value"])

    def __bool__(self) -> bool:
        return self.value is not None

    def __str__(self) -> str:
        if self.value is None:
            return ""
        return quote(self.value) if isinstance(self.value, str) else str(self.value).lower()


def _parse_toml(text: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingChange:
    """One value of the job file; a size or duration is a text as in the file: `2g`.

    Attributes:
        old: the present value.
        new: the recommended value.
    """

    key: SettingKey
    old: SettingValue
    new: SettingValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """One recommendation.

    Attributes:
        heuristic: name of the heuristic and its help page: `memory-over-asked`.
        role: the role that it is about; empty if it is about the job.
        says: one sentence.
        hint: what to do, if no change of the job file does it; one sentence, else empty.
        patch: changes of the job file; empty if none is certain.
        runs: number of runs that it is based on.
    """

    heuristic: str
    severity: Severity
    role: str
    says: str
    evidence: tuple[Evidence, ...]
    saving: Saving
    patch: tuple[SettingChange, ...] = ()
    hint: str = ""
    runs: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """All recommendations for a job.

    Attributes:
        runs: jobs that were read, newest first; the first one is the job itself.
        unknown: what could not be checked for lack of data; one sentence each.
        patch: the changes of all recommendations that can be made together.
        later: the other changes, to make after a run with the patch, which changes the load.
        problems: heuristics that failed, job directories that could not be read; one sentence each.
    """

    job: str
    runs: tuple[str, ...]
    findings: tuple[Recommendation, ...]
    patch: tuple[SettingChange, ...]
    later: tuple[SettingChange, ...] = ()
    unknown: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

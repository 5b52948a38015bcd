"""Nouns of advice."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from tony.dataclass import dataclass


class Severity(Enum):
    """How much it matters; ordered by what it costs to leave things as they are."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Measure(Enum):
    """What a number of the evidence counts."""

    BYTES = "B"
    SECONDS = "s"
    CORES = "cores"
    SHARE = "share"  #: 0 to 1
    COUNT = "count"
    TIMES = "times"
    RATE = "B/s"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One number that a finding goes by; `what` is for people."""

    what: str
    value: float
    measure: Measure = Measure.COUNT


@dataclass(frozen=True, slots=True)
class Interval:
    """Between these it is expected to lie."""

    least: float
    most: float


def savings_range(values: Iterable[float]) -> Interval | None:
    """From the least to the most of what several runs would have saved; None without any."""
    found = sorted(max(0.0, value) for value in values)
    return Interval(found[0], found[-1]) if found and found[-1] > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """What a run like the last ones would do without. None: nothing, or it cannot be told.

    Attributes:
        gb_hours: of memory; a GB is 1024³ bytes.
        seconds: that it would be over earlier.
    """

    gb_hours: Interval | None = None
    gpu_hours: Interval | None = None
    core_hours: Interval | None = None
    seconds: Interval | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingChange:
    """One value of the job file.

    Attributes:
        key: dotted, `roles.worker.memory`.
        old: as the job has it, written as in a job file; empty if it has none.
        new: what to write instead, as in a job file: `"2g"`, `3`.
    """

    key: str
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that could be better.

    Attributes:
        heuristic: whose, `memory-over-asked`: the name of its help page.
        role: that it is about; empty if it is about the job.
        says: one sentence.
        hint: what to do, where no change of the job file does it; one sentence, else empty.
        patch: changes of the job file; empty if there is none that is surely right.
        runs: how many runs it was seen in.
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
    """All that there is to say of a job.

    Attributes:
        runs: jobs that were looked at, newest first; the first one is the job itself.
        unknown: what was not known, so that nothing could be said about it; a few words each.
        patch: the changes of all findings that may be made at once.
        later: the others, which go by a load that the patch changes: they wait for a run with it.
        problems: heuristics that failed, records that could not be read; one sentence each.
    """

    job: str
    runs: tuple[str, ...]
    findings: tuple[Finding, ...]
    patch: tuple[SettingChange, ...]
    later: tuple[SettingChange, ...] = ()
    unknown: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

"""Hours that nobody had anything of: of one run, and summed up by user and week. Pure.

A lower bound, made of the same thresholds as the findings: memory that was held and is beyond the highest peak with
its headroom; devices that never computed; and everything that was held while work was done again, something restarted,
or the program was over. The time of start-up is not in it, nor are a killed job's hours: somebody wanted those.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from tony.advice.facts import RoleFacts, Run, gigabytes
from tony.advice.gpus import devices
from tony.advice.heuristic import rounded_memory
from tony.advice.heuristics.idle_gpus import GpusIdle
from tony.advice.heuristics.memory_over_requested import MemoryOverAsked
from tony.dataclass import dataclass
from tony.history.goodput import Bucket

#: What is lost of all that is held.
LOST = (Bucket.REDONE, Bucket.RESTART, Bucket.IDLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hours:
    """Of memory (GB are 1024³ bytes) and of devices."""

    gb_hours: float = 0.0
    gpu_hours: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Waste:
    """One run's.

    Attributes:
        at: when it ended, or was submitted if it has not; seconds since 1970.
        held: all that its containers had; wasted: of it.
        parts: why -> hours: `unused` (asked for and never used), and the buckets of `LOST`.
        measured: what programs used is known; else `unused` is 0 for want of knowledge.
    """

    job: str
    user: str
    name: str
    at: float
    held: Hours
    wasted: Hours
    parts: Mapping[str, Hours]
    measured: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WeekOfWaste:
    """A user's week.

    Attributes:
        week: ISO 8601, in UTC: `2026-W47`.
        parts: as in `Waste`.
        worst: jobs that wasted most, the first one most; a few.
    """

    user: str
    week: str
    jobs: int
    held: Hours
    wasted: Hours
    parts: Mapping[str, Hours]
    worst: tuple[str, ...]


def compute_unused(run: Run) -> Waste:
    """What of a run was for nothing, as far as that is known."""
    sums = run.ledger
    parts: dict[str, Hours] = {}
    for bucket in LOST:
        memory, gpus = sums.gb_hours.get(bucket.value), sums.gpu_hours.get(bucket.value)
        if memory or gpus:
            parts[bucket.value] = Hours(gb_hours=memory or 0.0, gpu_hours=gpus or 0.0)
    lost = {name: _lost_share(run, name) for name in run.roles}
    unused = [_unused(known, 1 - lost[name]) for name, known in run.roles.items()]
    beyond = total(unused)
    if beyond.gb_hours or beyond.gpu_hours:
        parts["unused"] = beyond
    return Waste(
        job=run.job,
        user=run.user,
        name=run.name,
        at=run.submitted if run.ended is None else run.ended,
        held=Hours(gb_hours=sums.whole_gb_hours, gpu_hours=sums.whole_gpu_hours),
        wasted=total(parts.values()),
        parts=parts,
        measured=any(known.peak is not None for known in run.roles.values()),
    )


def by_week(wastes: Iterable[Waste], worst: int = 3) -> tuple[WeekOfWaste, ...]:
    """Sums for each user and week, the newest week first, in it who wasted most GPU-hours, then GB-hours."""
    groups: dict[tuple[str, str], list[Waste]] = {}
    for waste in wastes:
        groups.setdefault((week_of(waste.at), waste.user), []).append(waste)
    found = [_week(user, week, mine, worst) for (week, user), mine in groups.items()]
    found.sort(key=lambda each: (each.wasted.gpu_hours, each.wasted.gb_hours), reverse=True)
    found.sort(key=lambda each: each.week, reverse=True)
    return tuple(found)


def week_of(at: float) -> str:
    """The week of a moment, seconds since 1970: `2026-W47`."""
    year, week, _ = datetime.fromtimestamp(at, UTC).isocalendar()
    return f"{year}-W{week:02d}"


def total(hours: Iterable[Hours]) -> Hours:
    """Their sum."""
    every = list(hours)
    return Hours(
        gb_hours=math.fsum(each.gb_hours for each in every), gpu_hours=math.fsum(each.gpu_hours for each in every)
    )


def _week(user: str, week: str, mine: list[Waste], worst: int) -> WeekOfWaste:
    names = sorted({name for waste in mine for name in waste.parts})
    dearest = sorted(mine, key=lambda waste: (waste.wasted.gpu_hours, waste.wasted.gb_hours), reverse=True)
    return WeekOfWaste(
        user=user,
        week=week,
        jobs=len(mine),
        held=total(waste.held for waste in mine),
        wasted=total(waste.wasted for waste in mine),
        parts={name: total(waste.parts[name] for waste in mine if name in waste.parts) for name in names},
        worst=tuple(each.job for each in dearest[:worst] if each.wasted.gpu_hours or each.wasted.gb_hours),
    )


def _lost_share(run: Run, role: str) -> float:
    """Of the time for which a role's containers were held, what counts as lost already."""
    mine = [task.held for task in run.ledger.tasks if task.role == role]
    whole = math.fsum(value for held in mine for value in held.values() if value is not None)
    lost = math.fsum(held[bucket.value] or 0.0 for held in mine for bucket in LOST)
    return lost / whole if whole else 0.0


def _unused(known: RoleFacts, rest: float) -> Hours:
    """What was held for good work and not needed for it; nothing where it is not known what was."""
    hours = known.held * rest
    memory = 0.0
    if known.peak is not None and known.counted >= known.tasks and not known.out_of_memory:
        limits = _MEMORY.limits
        needed = rounded_memory(limits["headroom"] * known.peak + limits["reserve"])
        memory = max(0.0, gigabytes(known.memory - needed))
    found = devices(known) or []
    idle = sum(device.util.most < _GPUS.limits["used"] for device in found)
    return Hours(gb_hours=hours * memory, gpu_hours=hours * idle / known.tasks if known.tasks else 0.0)


_MEMORY, _GPUS = MemoryOverAsked(), GpusIdle()

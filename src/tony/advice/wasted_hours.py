"""Reserved but unused GPU- and GB-hours: of one run, and by user and week. Pure.

A lower bound, with the same thresholds as the recommendations: memory beyond the highest peak with its headroom; GPUs
that never computed; and everything that was reserved while lost work was recomputed, tasks restarted, or programs had
exited. Container setup and the hours of killed jobs are not included.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from tony.advice.facts import RoleFacts, Run, gigabytes
from tony.advice.heuristic import round_memory
from tony.advice.heuristics.gpus import IdleGpus, devices
from tony.advice.heuristics.memory import MemoryOverRequested
from tony.history.goodput import Bucket

#: Buckets of goodput that count as unused.
LOST = (Bucket.REDONE, Bucket.RESTART, Bucket.IDLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hours:
    """GB-hours of memory (GB of 1024³ bytes) and GPU-hours."""

    gb_hours: float = 0.0
    gpu_hours: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Waste:
    """The unused resources of one run.

    Attributes:
        at: when it ended, or was submitted if it has not ended; seconds since 1970.
        held: all that was reserved; wasted: the unused part.
        parts: reason -> hours: `unused` (requested and never used), and the buckets of `LOST`.
    """

    job: str
    user: str
    name: str
    at: float
    held: Hours
    wasted: Hours
    parts: Mapping[str, Hours]


@dataclass(frozen=True, slots=True, kw_only=True)
class WeekOfWaste:
    """The unused resources of a user in a week.

    Attributes:
        week: ISO 8601, in UTC: `2026-W47`.
        parts: as in `Waste`.
        worst: the jobs with most unused resources, the worst first.
    """

    user: str
    week: str
    jobs: int
    held: Hours
    wasted: Hours
    parts: Mapping[str, Hours]
    worst: tuple[str, ...]


def compute_unused(run: Run) -> Waste:
    """Return the unused resources of a run, as far as known."""
    sums = run.ledger
    parts: dict[str, Hours] = {}
    for bucket in LOST:
        memory, gpus = sums.gb_hours.get(bucket.value), sums.gpu_hours.get(bucket.value)
        if memory or gpus:
            parts[bucket.value] = Hours(gb_hours=memory or 0.0, gpu_hours=gpus or 0.0)
    lost = {name: _compute_lost_share(run, name) for name in run.roles}
    unused = [_compute_unused_of_role(known, 1 - lost[name]) for name, known in run.roles.items()]
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
    )


def sum_by_week(wastes: Iterable[Waste], worst: int = 3) -> tuple[WeekOfWaste, ...]:
    """Return sums by user and week: newest week first, then most unused GPU-hours, then GB-hours."""
    groups: dict[tuple[str, str], list[Waste]] = {}
    for waste in wastes:
        groups.setdefault((format_week(waste.at), waste.user), []).append(waste)
    found = [_week(user, week, group, worst) for (week, user), group in groups.items()]
    found.sort(key=lambda each: (each.wasted.gpu_hours, each.wasted.gb_hours), reverse=True)
    found.sort(key=lambda each: each.week, reverse=True)
    return tuple(found)


def format_week(at: float) -> str:
    """Return the week of a time, seconds since 1970: `2026-W47`."""
    year, week, _ = datetime.fromtimestamp(at, UTC).isocalendar()
    return f"{year}-W{week:02d}"


def total(hours: Iterable[Hours]) -> Hours:
    """Return the sum."""
    every = list(hours)
    return Hours(
        gb_hours=math.fsum(each.gb_hours for each in every), gpu_hours=math.fsum(each.gpu_hours for each in every)
    )


def _week(user: str, week: str, wastes: list[Waste], worst: int) -> WeekOfWaste:
    names = sorted({name for waste in wastes for name in waste.parts})
    dearest = sorted(wastes, key=lambda waste: (waste.wasted.gpu_hours, waste.wasted.gb_hours), reverse=True)
    return WeekOfWaste(
        user=user,
        week=week,
        jobs=len(wastes),
        held=total(waste.held for waste in wastes),
        wasted=total(waste.wasted for waste in wastes),
        parts={name: total(waste.parts[name] for waste in wastes if name in waste.parts) for name in names},
        worst=tuple(each.job for each in dearest[:worst] if each.wasted.gpu_hours or each.wasted.gb_hours),
    )


def _compute_lost_share(run: Run, role: str) -> float:
    """Return the share of the reserved time of a role that already counts as lost."""
    held_seconds = [task.held for task in run.ledger.tasks if task.role == role]
    whole = math.fsum(value for held in held_seconds for value in held.values() if value is not None)
    lost = math.fsum(held[bucket.value] or 0.0 for held in held_seconds for bucket in LOST)
    return lost / whole if whole else 0.0


def _compute_unused_of_role(known: RoleFacts, rest: float) -> Hours:
    """Return what was reserved and never used, outside of the lost time; zero without metrics."""
    hours = known.held * rest
    memory = 0.0
    if known.peak is not None and known.counted >= known.tasks and not known.out_of_memory:
        limits = _MEMORY.limits
        needed = round_memory(limits["headroom"] * known.peak + limits["reserve"])
        memory = max(0.0, gigabytes(known.memory - needed))
    found = devices(known) or []
    idle = sum(device.util.most < _GPUS.limits["used"] for device in found)
    return Hours(gb_hours=hours * memory, gpu_hours=hours * idle / known.tasks if known.tasks else 0.0)


_MEMORY = MemoryOverRequested()
_GPUS = IdleGpus()

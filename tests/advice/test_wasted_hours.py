"""Allocated but unused hours, by run, user and week."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tests.advice.fleet import facts
from tests.advice.jobs import gpus_idle, healthy, idle_after_end, memory_over_asked
from tony.advice.wasted_hours import Hours, Waste, compute_unused, format_week, sum_by_week
from tony.model.job_spec import GIB


def test_memory_that_is_never_used() -> None:
    """What is beyond the peak and its headroom, for as long as it was held."""
    known = facts(memory_over_asked(Random(3)), Random(3))
    waste, role = compute_unused(known.run), known.run.roles["worker"]
    assert waste.held.gb_hours == pytest.approx(role.memory / GIB * role.held, rel=0.01)
    assert role.peak is not None
    most = (role.memory - role.peak) / GIB * role.held
    assert 0.5 * most < waste.wasted.gb_hours < most
    assert {"unused"} == set(waste.parts)


def test_devices_that_never_compute() -> None:
    plan = gpus_idle(Random(2))
    known = facts(plan, Random(2))
    idle = sum(not busy for busy in plan.uses["worker"].devices)
    assert compute_unused(known.run).wasted.gpu_hours == pytest.approx(idle * known.run.roles["worker"].held, rel=0.01)


def test_containers_that_are_no_longer_needed() -> None:
    """They count as a whole; unused memory in them is not counted a second time."""
    waste = compute_unused(facts(idle_after_end(Random(1)), Random(1)).run)
    assert waste.parts["idle"].gb_hours > 0.1 * waste.held.gb_hours
    assert waste.wasted.gb_hours < waste.held.gb_hours


def test_waste_is_at_most_what_was_allocated() -> None:
    """Whatever the job; and parts add up."""
    for seed in range(30):
        chance = Random(seed)
        waste = compute_unused(facts(healthy(chance), chance).run)
        assert 0 <= waste.wasted.gb_hours <= waste.held.gb_hours + 1e-9
        assert 0 <= waste.wasted.gpu_hours <= waste.held.gpu_hours + 1e-9
        assert waste.wasted.gb_hours == pytest.approx(sum(part.gb_hours for part in waste.parts.values()))


def one(user: str, at: float, gb: float, gpu: float = 0.0, job: str = "j") -> Waste:
    hours = Hours(gb_hours=gb, gpu_hours=gpu)
    held = Hours(gb_hours=2 * gb, gpu_hours=2 * gpu)
    parts = {"unused": hours}
    return Waste(job=job, user=user, name="n", at=at, held=held, wasted=hours, parts=parts)


def test_sums_by_user_and_week() -> None:
    """The newest week first, in it who wasted most; weeks are those of ISO 8601, in UTC."""
    monday = 1_769_990_400.0  # 2026-02-02T00:00Z
    assert ("2026-W05", "2026-W06") == (format_week(monday - 1), format_week(monday))
    wastes = [
        one("ann", monday - 1, 5.0),
        one("ann", monday, 1.0, job="a"),
        one("ann", monday + 86_400, 3.0, job="b"),
        one("bob", monday, 1.0, gpu=2.0),
        replace(one("cem", monday, 0.0), parts={}),
    ]
    weeks = sum_by_week(wastes)
    assert [("2026-W06", "bob"), ("2026-W06", "ann"), ("2026-W06", "cem"), ("2026-W05", "ann")] == [
        (week.week, week.user) for week in weeks
    ]
    ann = weeks[1]
    assert (2, 4.0, 8.0, ("b", "a")) == (ann.jobs, ann.wasted.gb_hours, ann.held.gb_hours, ann.worst)
    assert {"unused": Hours(gb_hours=4.0)} == ann.parts
    assert () == weeks[2].worst

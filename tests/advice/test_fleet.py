"""A synthetic fleet: what was planted is found, nothing is said of healthy jobs, and no proposal would hurt."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random

import pytest

from tests.advice.fleet import Plan, facts, run, simulate
from tests.advice.jobs import PLANTED, healthy
from tony.advice.engine import BUILT_IN, advise
from tony.advice.facts import Facts
from tony.advice.heuristics.checkpoints import compute_overhead
from tony.advice.recommendation import Advice, SettingChange, SettingValue
from tony.model.job_spec import JobSpec, Role
from tony.model.states import JobState
from tony.units import parse_duration, parse_size

#: Jobs of each kind of waste.
EACH = 6


@cache
def advised(kind: str, seed: int) -> tuple[Plan, Facts, Advice]:
    """One job with a kind of waste, and what is said of it."""
    chance = Random(f"{kind} {seed}")
    plan = PLANTED[kind](chance)
    known = facts(plan, chance)
    return plan, known, advise(known)


def test_every_heuristic_has_its_waste() -> None:
    """A new heuristic needs a planted job that triggers it."""
    assert {heuristic.name for heuristic in BUILT_IN} == set(PLANTED)


def test_a_hundred_healthy_jobs_get_no_recommendation() -> None:
    for seed in range(100):
        chance = Random(seed)
        advice = advise(facts(healthy(chance), chance))
        assert ((), ()) == (advice.findings, advice.problems), seed


def test_more_than_nine_of_ten_wastes_are_found() -> None:
    """All kinds together; and of each kind more than half."""
    found = {}
    for kind in PLANTED:
        advices = [advised(kind, seed)[2] for seed in range(EACH)]
        assert not [problem for advice in advices for problem in advice.problems]
        found[kind] = sum(kind in {each.heuristic for each in advice.findings} for advice in advices)
    assert sum(found.values()) > 0.9 * EACH * len(PLANTED), found
    assert min(found.values()) > EACH / 2, found


@pytest.mark.parametrize("kind", PLANTED)
def test_no_proposal_hurts_the_next_run(kind: str) -> None:
    """Later runs of the job, by the same lot, have what they need; and are not slower by more than 5 %."""
    for seed in range(EACH):
        plan, known, advice = advised(kind, seed)
        chance = Random(f"later {kind} {seed}")
        for number in range(2):
            later = run(simulate(plan, chance, number))
            for change in advice.patch:
                _bears(change, known, later.spec, {name: role.peak for name, role in later.roles.items()})
                if change.key[0] == "params":
                    _is_no_slower(change, known)
                if change.key == ("min_uptime",):
                    _ends_no_good_run(change, plan, known)
                if change.key[-1] == "vcores":
                    name = change.key[1]
                    assert as_number(change.new) >= (later.roles[name].find_maximum("cpu") or 0.0) or as_number(
                        change.new
                    ) > as_number(change.old)
                if change.key[-1] == "gpus":
                    name = change.key[1]
                    assert as_number(change.new) >= sum(each > 0 for each in plan.uses[name].devices) > 0


def as_number(value: SettingValue) -> int:
    assert isinstance(value.value, int)
    return value.value


def _bears(change: SettingChange, known: Facts, spec: JobSpec, peaks: dict[str, int | None]) -> None:
    """Memory is enough for the next run, and where servers are fewer for what the others had."""
    _, name, what, *_ = *change.key, "", ""
    role: Role | None = spec.effective_roles.get(name)
    if role is None:
        return
    peak = peaks[name] or 0
    if what == "memory":
        assert parse_size(str(change.new.value)) > peak
    if what == "instances":
        assert peak * role.instances / as_number(change.new) < role.resources.memory


def _is_no_slower(change: SettingChange, known: Facts) -> None:
    """With nothing failing it costs less than 5 % more; with what fails on average it is a gain."""
    saves = known.run.saves
    assert saves is not None
    assert saves.every is not None
    every = saves.every * as_number(change.new) / as_number(change.old)
    assert saves.cost / every <= saves.cost / saves.every + 0.05
    failures = sum(len(run.failures) for run in known.runs)
    if failures:
        mttf = sum(run.running for run in known.runs) / failures
        assert compute_overhead(saves.cost, every, mttf) < compute_overhead(saves.cost, saves.every, mttf)


def _ends_no_good_run(change: SettingChange, plan: Plan, known: Facts) -> None:
    """Only a job that has never succeeded is stopped earlier, and only where it fails sooner than that."""
    assert plan.ends is JobState.FAILED
    assert not any(each.succeeded for each in known.runs)
    assert parse_duration(str(change.new.value)) > max(plan.fails)


def test_a_second_look_has_nothing_more_to_say() -> None:
    """After runs with the memory proposed, no less is proposed, nor more."""
    plan, _, advice = advised("memory-over-asked", 0)
    (change,) = advice.patch
    role = plan.spec.roles["worker"]
    memory = parse_size(str(change.new.value))
    spec = replace(plan.spec, roles={"worker": replace(role, resources=replace(role.resources, memory=memory))})
    chance = Random(1)
    assert () == advise(facts(replace(plan, spec=spec, runs=5), chance)).findings

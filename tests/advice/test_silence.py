"""What keeps findings from proposing what would hurt: each of the reasons alone."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import takewhile
from random import Random

import pytest

from tests.advice import jobs
from tests.advice.fleet import Plan, facts, run, simulate
from tony.advice.engine import advise
from tony.advice.facts import Facts, is_same_job
from tony.advice.facts_builder import run_of
from tony.advice.recommendation import Recommendation, Saving
from tony.advice.wasted_hours import compute_unused
from tony.history.metrics_reader import Peak
from tony.model.job_spec import MIB
from tony.model.progress import CheckpointRecord
from tony.model.states import JobState
from tony.units import parse_size


def found(plan: Plan, seed: int = 0) -> dict[str, Recommendation]:
    return {each.heuristic: each for each in advise(facts(plan, Random(seed))).findings}


def worker(plan: Plan, **use: object) -> Plan:
    """The same with another use by its workers."""
    return replace(plan, uses={**plan.uses, "worker": replace(plan.uses["worker"], **use)})  # type: ignore[arg-type]


def test_one_run_with_a_high_peak_counts() -> None:
    """Less than the highest peak of any run is never proposed, be it the oldest, or one that failed."""
    plan = jobs.memory_over_asked(Random(0))
    known = facts(replace(plan, runs=4), Random(0))
    role = known.runs[-1].roles["worker"]
    high = replace(known.runs[-1], roles={"worker": replace(role, peak=int(role.memory * 0.9))}, state=JobState.FAILED)
    assert "memory-over-asked" in {each.heuristic for each in advise(known).findings}
    assert not advise(Facts(runs=(*known.runs[:-1], high))).findings


def test_a_job_killed_for_memory_gets_no_less_memory() -> None:
    """Even if the recorded metrics show that it never used much."""
    known = facts(jobs.memory_over_asked(Random(0)), Random(0))
    role = replace(known.runs[1].roles["worker"], out_of_memory=1)
    died = Facts(runs=(known.runs[0], replace(known.runs[1], roles={"worker": role}), *known.runs[2:]))
    assert "memory-over-asked" not in {each.heuristic for each in advise(died).findings}


def test_more_memory_saves_nothing() -> None:
    """A run that died of too little was lost: that more memory would save its hours is not said."""
    plans = [jobs.memory_tight(Random(seed)) for seed in range(8)]
    died = [found(plan)["memory-tight"] for plan in plans if plan.out_of_memory]
    assert died
    assert all(each.patch and each.saving == Saving() for each in died)


def test_a_job_killed_for_memory_gets_more_than_its_peak() -> None:
    """Which may be above its request: the limit of its container has a share for the executor."""
    plan = next(each for seed in range(8) if (each := jobs.memory_tight(Random(seed))).out_of_memory)
    requested = plan.spec.roles["worker"].resources.memory
    (change,) = found(worker(plan, memory=2.0 * requested))["memory-tight"].patch
    assert parse_size(str(change.new.value)) > 2.5 * requested


def test_a_task_that_was_not_measured() -> None:
    """May be the one that uses most: such a run proves nothing; enough others do."""
    known = facts(replace(jobs.memory_over_asked(Random(0)), runs=4), Random(0))
    role = known.runs[0].roles["worker"]
    unseen = replace(known.runs[0], roles={"worker": replace(role, counted=role.tasks - 1)})
    assert not advise(Facts(runs=(unseen, *known.runs[1:3]))).findings
    assert advise(Facts(runs=(unseen, *known.runs[1:]))).findings


@pytest.mark.parametrize("more", [{"duration": 100.0}, {"runs": 2}, {"ends": None}])
def test_too_little_to_go_by(more: dict[str, object]) -> None:
    """Short runs, few runs, runs that failed: nothing is proposed."""
    plan = jobs.memory_over_asked(Random(0))
    if more.get("ends", 0) is None:
        assert not found(replace(plan, fails=(400.0,), ends=JobState.FAILED))
    else:
        assert not found(replace(plan, **more))  # type: ignore[arg-type]


def test_cores_that_were_taken_away_are_no_proof_of_little_need() -> None:
    """A limit stood in the way."""
    plan = jobs.cpu_over_asked(Random(0))
    assert "cpu-over-asked" in found(plan)
    assert "cpu-over-asked" not in found(worker(plan, throttled=0.05))


def test_page_cache_is_not_memory_that_is_nearly_too_little() -> None:
    """The kernel takes it back; but less than it had is not proposed."""
    plan = jobs.memory_over_asked(Random(0))
    memory = plan.spec.roles["worker"].resources.memory
    assert not found(worker(plan, memory=memory * 0.3, cache=memory * 0.69))


@pytest.mark.parametrize(
    ("devices", "opened", "procs", "gpus"),
    [
        ((0.9, 0.0, 0.0, 0.0), False, 1, "1"),
        ((0.9, 0.9, 0.0, 0.0), False, 2, "2"),
        ((0.9, 0.0, 0.0, 0.0), True, 1, None),
        ((0.0, 0.9, 0.0, 0.0), False, 1, None),
        ((0.9, 0.0, 0.0, 0.0), False, 4, None),
        ((0.0, 0.0, 0.0, 0.0), False, 1, None),
    ],
)
def test_fewer_gpus_only_where_they_are_not_missed(
    devices: tuple[float, ...], opened: bool, procs: int, gpus: str | None
) -> None:
    """The last ones, never opened, no process for each; and never none at all."""
    plan = jobs.memory_over_asked(Random(1))
    role = plan.spec.roles["worker"]
    role = replace(role, resources=replace(role.resources, gpus=4), procs_per_task=procs)
    plan = worker(replace(plan, spec=replace(plan.spec, roles={"worker": role})), devices=devices, opened=opened)
    recommendation = found(plan)["gpus-idle"]
    assert ([gpus] if gpus else []) == [str(change.new) for change in recommendation.patch]
    assert bool(recommendation.hint) == (gpus is None)


def test_a_checkpoint_interval_is_proposed_only_for_a_known_parameter() -> None:
    """By a value whose name speaks of saving and that is what was measured; two of them are none."""
    plan = jobs.checkpoint_bound(Random(0))
    (change,) = found(plan)["checkpoint-bound"].patch
    assert ("params.save_every", plan.spec.params["save_every"]) == (str(change.key), str(change.old.value))
    old = plan.spec.params["save_every"]
    for params in ({"save_every": "77"}, {"epochs": old}, {"save_every": old, "save_too": old}):
        recommendation = found(replace(plan, spec=replace(plan.spec, params=params)))["checkpoint-bound"]
        assert () == recommendation.patch
        assert "every" in recommendation.hint
    seconds = replace(
        plan, save_steps=12345, spec=replace(plan.spec, env={"CKPT_SECONDS": "45"}, params={}), save_every=45.0
    )
    (change,) = found(seconds)["checkpoint-bound"].patch
    assert ("env", "CKPT_SECONDS") == change.key
    assert int(str(change.new)) > 60


def test_rare_checkpoints_of_a_job_that_never_fails() -> None:
    plan = replace(jobs.checkpoint_interval(Random(0)), fails=())
    assert not found(plan)


def test_restarts_that_once_helped() -> None:
    """Are left alone, as are those after different failures, and those that came farther each time."""
    plan = jobs.restarts_in_vain(Random(0))
    assert "restarts-in-vain" in found(plan)
    known = facts(plan, Random(0))
    helped = replace(known.runs[1], state=JobState.SUCCEEDED)
    assert not advise(Facts(runs=(known.runs[0], helped, *known.runs[2:]))).findings
    other = replace(known.runs[0].failures[0], how="SIGSEGV")
    mixed = replace(known.runs[0], failures=(other, *known.runs[0].failures[1:]))
    assert not advise(Facts(runs=(mixed,))).findings
    farther = replace(known.runs[0], furthest={1: 10.0, 2: 20.0, 3: 30.0})
    assert not advise(Facts(runs=(farther,))).findings


def test_late_failures_get_no_proposal() -> None:
    """Something may be saved by then."""
    plan = jobs.restarts_in_vain(Random(0))
    recommendation = found(replace(plan, fails=tuple(3600.0 for _ in plan.fails)))["restarts-in-vain"]
    assert () == recommendation.patch


def test_servers_with_a_busy_network_stay() -> None:
    plan = jobs.parameter_servers(Random(0))
    assert "parameter-servers" in found(plan)
    busy = replace(plan.uses["ps"], network=3e8)
    assert "parameter-servers" not in found(replace(plan, uses={**plan.uses, "ps": busy}))
    assert "parameter-servers" not in found(replace(plan, spec=replace(plan.spec, framework="pytorch")))


@pytest.mark.parametrize("absurd", [math.inf, -1.0, 1e300, math.nan])
def test_impossible_numbers(absurd: float) -> None:
    """Records are untrusted input: such numbers count as unknown and change nothing else."""
    simulated = simulate(jobs.checkpoint_bound(Random(0)), Random(0))
    worst = Peak(absurd, absurd, absurd)
    for used in simulated.measured.used.values():
        used.update(dict.fromkeys(("pss", "rss", "cpu", "gpu0.util", "throttled", "user.data_wait"), worst))
    simulated.measured.saved.append(CheckpointRecord("worker:0", 1, 1, 1, absurd, absurd))
    simulated.measured.curves["worker"] = [absurd] * 10
    made = run(simulated)
    assert made.saves is not None
    assert made.saves.cost < 100
    assert made.roles["worker"].resident is None
    assert not made.roles["worker"].wholly_measured
    assert compute_unused(made).held.gb_hours > 0
    advice = advise(Facts(runs=(made, made, made)))
    assert ((), {"checkpoint-bound"}) == (advice.problems, {each.heuristic for each in advice.findings})


def test_an_interval_is_known_where_a_report_came_late() -> None:
    """The times of checkpoints are those of their arrival, less their age: a late report overtakes the next one."""
    simulated = simulate(jobs.checkpoint_bound(Random(0)), Random(0))
    saved = simulated.measured.saved
    expected = run(simulated).saves
    assert expected is not None
    assert expected.steps is not None
    assert expected.every is not None
    late, delay = saved[1], 1.5 * expected.every
    saved[1] = replace(late, since=late.since + delay, until=late.until + delay)
    saved.sort(key=lambda each: each.since)
    found = run(simulated).saves
    assert found is not None
    assert expected.steps == found.steps
    assert found.every == pytest.approx(expected.every, rel=0.1)


def test_runs_of_one_job() -> None:
    """Have the same name, user, framework, and roles with as many tasks and the same commands."""
    plan = jobs.memory_over_asked(Random(0))
    record = simulate(plan, Random(0)).record
    role = record.spec.roles["worker"]
    larger = replace(role, resources=replace(role.resources, memory=MIB))
    assert is_same_job(record, replace(record, spec=replace(record.spec, roles={"worker": larger}, tags=("a",))))
    assert not is_same_job(record, replace(record, user="bob"))
    for spec in (
        replace(record.spec, name="other"),
        replace(record.spec, framework="none"),
        replace(record.spec, command="other"),
        replace(record.spec, roles={"worker": replace(role, instances=role.instances + 1)}),
        replace(record.spec, roles={"other": role}),
    ):
        assert not is_same_job(record, replace(record, spec=spec))


def test_a_running_job_is_measured_up_to_now() -> None:
    simulated = simulate(jobs.memory_over_asked(Random(0)), Random(0))
    first = takewhile(lambda entry: entry.event.kind != "exited", simulated.entries)
    so_far = run_of(simulated.record, first, until=1000.0 + 5000.0)  # it was accepted at second 1000
    assert so_far.ended is None
    assert not so_far.succeeded
    assert so_far.running == pytest.approx(5000.0, abs=60.0)
    assert run(simulated).running < 30_000.0

"""Plans on the simulation: no promise is broken, every job ends, and the same plan does the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.specs import FAILED, OK, staged, task, with_restarts, workers
from tests.support.faults.plan import FaultPlan
from tests.support.faults.plan_parser import parse_plan, write_plan
from tests.support.faults.random_plan import random_plan
from tests.support.faults.simulation_run import rehearse
from tests.support.simulation import Program, Simulation
from tony.core.actions import Finish
from tony.model.exit_status import ExitStatus
from tony.model.job_spec import JobSpec, Role
from tony.model.states import JobState, RestartScope, RoleKind

JOBS = {
    "workers": with_restarts(workers(4), 3),
    "staged": with_restarts(staged(), 2),
    "alone": JobSpec(
        command="x",
        max_restarts=3,
        roles={"worker": Role(instances=3, restart=RestartScope.TASK), "ps": Role(kind=RoleKind.UNTRACKED)},
    ),
}


def ends(program: Program) -> ExitStatus | None:
    """One worker fails in the first session; boards and servers never end by themselves."""
    if program.task.role in ("board", "ps"):
        return None
    return FAILED if program.task == task("worker:1") and program.session == program.try_ == 1 else OK


def run(spec: JobSpec, plan: FaultPlan) -> tuple[Simulation, Finish]:
    """A job under a plan."""
    simulation = Simulation(spec)
    return simulation, rehearse(simulation, plan, ends)


@settings(max_examples=150)
@given(st.sampled_from(sorted(JOBS)), st.integers(0, 10**9))
def test_whatever_happens_no_promise_is_broken_and_the_job_ends(name: str, seed: int) -> None:
    """Random faults of every kind."""
    spec = JOBS[name]
    plan = random_plan(seed, sorted(Simulation(spec).app.state.tasks), faults=4)
    run(spec, plan)


@pytest.mark.long
@settings(max_examples=20_000)
@given(st.sampled_from(sorted(JOBS)), st.integers(0, 10**12))
def test_whatever_happens_many_times(name: str, seed: int) -> None:
    """The same with more of everything."""
    spec = JOBS[name]
    run(spec, random_plan(seed, sorted(Simulation(spec).app.state.tasks), faults=8, longest=60.0))


@pytest.mark.parametrize("seed", range(10))
def test_the_same_plan_does_the_same(seed: int) -> None:
    """Event by event; and so does what is read from its text."""
    spec = JOBS["staged"]
    plan = random_plan(seed, sorted(Simulation(spec).app.state.tasks))
    first, again = run(spec, plan)[0], run(spec, parse_plan(write_plan(plan)))[0]
    assert first.log == again.log
    assert first.digests == again.digests


@pytest.mark.parametrize(
    ("plan", "session", "deaths"),
    [
        ("", 2, 0),
        ("kill worker:2 when worker:2 started in session 2", 3, 0),
        ("kill executor worker:2 when session 2 opens + 1ms", 2, 0),
        ("kill master before the effects of event 9; kill master while event 20 is logged", 2, 2),
        ("kill master when session 2 opens; kill master when the job is stopping", 2, 2),
        ("partition worker:0 when worker:0 started in session 2 for 10s", 2, 0),
        ("partition worker:0 when worker:0 started in session 2", 3, 0),
        ("stop executor worker:0 when worker:0 started in session 2 for 1s", 2, 0),
        (
            "drop 0.3 of messages of worker:0; duplicate 0.5 of reports of worker:1; delay reports of worker:2 by 1s",
            2,
            0,
        ),
        ("drop 0.3 of commands of worker:0; drop heartbeats of worker:1 for 1s", 2, 0),
    ],
)
def test_what_a_plan_does(plan: str, session: int, deaths: int) -> None:
    """The job succeeds in this session, after so many deaths of its master."""
    simulation, finish = run(JOBS["workers"], parse_plan(plan))
    assert (finish.state, simulation.app.state.session, simulation.deaths) == (JobState.SUCCEEDED, session, deaths)

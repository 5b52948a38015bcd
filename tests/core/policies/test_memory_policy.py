"""More memory for the next attempt of a task that was killed for memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.simulated import made, seen, started
from tests.core.specs import FAILED, OK, task
from tests.facts import mentions
from tests.support.simulation import Simulation
from tony.core import actions as act
from tony.core import events as ev
from tony.model.job_report import RaisedMemory
from tony.model.job_spec import GIB, MIB, JobSpec, MemoryGrowth, Resources, Role
from tony.model.program_exit import ExitReason, ExitStatus
from tony.model.setting_choices import RestartScope

KILLED = ExitStatus(reason=ExitReason.MEMORY, signal="SIGKILL", message="ran out of memory (limit 1g)")


def growing(up_to: int = 8 * GIB, **fields: object) -> JobSpec:
    """Two workers of 1 GiB that may restart."""
    worker = Role(instances=2, resources=Resources(memory=GIB))
    spec = JobSpec(
        command="x", roles={"worker": worker}, max_restarts=5, memory_on_oom=MemoryGrowth(factor=1.5, up_to=up_to)
    )
    return replace(spec, **fields)  # type: ignore[arg-type]


def restarted(spec: JobSpec, times: int = 1, who: str = "worker:0") -> Simulation:
    """A job of which the task was killed for memory, once or several times."""
    simulation = started(spec)
    for _ in range(times):
        simulation.exit(task(who), KILLED)
        simulation.run()
        while not simulation.finished and simulation.app.state.restart and not simulation.running():
            simulation.advance()
            simulation.run()
    return simulation


def launches(simulation: Simulation) -> list[tuple[str, int | None]]:
    return [(str(launch.task), launch.memory) for launch in made(simulation, act.Launch)]


def test_all_tasks_of_the_role_get_more_memory_with_the_next_session() -> None:
    simulation = restarted(growing())
    larger = 3 * GIB // 2
    assert made(simulation, act.SetMemory) == [act.SetMemory(role="worker", memory=larger)]
    assert sorted(launches(simulation)[2:]) == [("worker:0", larger), ("worker:1", larger)]
    assert seen(simulation).raised_memory == (RaisedMemory(role="worker", memory=larger, requested=GIB),)
    assert mentions(seen(simulation).session_reason, "1.5g", "instead of 1g", "memory_on_oom")
    report = made(simulation, act.ReportFailure)[0]
    assert (report.decision, report.memory) == (ev.FailureResponse.RESTART, larger)


def test_memory_is_requested_before_the_containers_that_need_it() -> None:
    """The demand stays: a scheduler replaces the containers that end."""
    simulation = restarted(growing())
    orders = [a for a in simulation.actions if isinstance(a, act.SetMemory | act.SetDemand | act.Kill)]
    assert [type(a) for a in orders] == [act.SetDemand, act.SetMemory, act.Kill, act.Kill]


def test_without_the_setting_memory_stays_the_same() -> None:
    simulation = restarted(replace(growing(), memory_on_oom=MemoryGrowth()))
    assert made(simulation, act.SetMemory) == []
    assert simulation.app.state.session == 2
    assert len(launches(simulation)) == 2


def test_other_failures_raise_nothing() -> None:
    simulation = started(growing())
    simulation.exit(task("worker:0"), FAILED)
    simulation.run()
    assert simulation.app.state.session == 2
    assert made(simulation, act.SetMemory) == []


def test_memory_is_raised_up_to_the_limit_and_then_the_job_fails_and_says_why() -> None:
    simulation = restarted(growing(up_to=2 * GIB), times=3)
    assert [a.memory for a in made(simulation, act.SetMemory)] == [3 * GIB // 2, 2 * GIB]
    simulation.settle()
    assert simulation.finished
    failure = simulation.finished.failure
    assert failure
    assert (failure.cause, simulation.finished.exit_code) == ("memory", 1)
    assert mentions(failure.no_restart_reason, "worker", "2g", "memory_on_oom.up_to")


def test_a_task_that_restarts_alone_moves_to_a_larger_container() -> None:
    """Its peers keep theirs."""
    worker = Role(instances=2, resources=Resources(memory=GIB), restart=RestartScope.TASK)
    simulation = restarted(growing(roles={"worker": worker}))
    assert simulation.app.state.session == 1
    assert launches(simulation)[2:] == [("worker:0", 3 * GIB // 2)]
    simulation.exit(task("worker:1"), KILLED)  # killed with what it had from the start: no further growth
    simulation.run()
    assert [a.memory for a in made(simulation, act.SetMemory)] == [3 * GIB // 2]
    assert launches(simulation)[3:] == [("worker:1", 3 * GIB // 2)]


def test_the_setting_of_the_role_counts() -> None:
    worker = Role(resources=Resources(memory=100 * MIB), memory_on_oom=MemoryGrowth(factor=3.0, up_to=GIB))
    simulation = restarted(growing(roles={"worker": worker}), times=2)
    assert [a.memory for a in made(simulation, act.SetMemory)] == [300 * MIB, 900 * MIB]


def test_a_container_granted_before_is_given_back() -> None:
    """Its grant crossed the request for more."""
    simulation = restarted(growing())
    crossed = ev.Granted(container="late", role="worker", host="h", memory=GIB)
    assert act.Release(container="late") in simulation.deliver(crossed)
    assert not any(launch.container == "late" for launch in made(simulation, act.Launch))


def test_what_can_never_be_granted_fails_the_job_with_the_first_failure() -> None:
    simulation = started(growing())
    simulation.exit(task("worker:0"), KILLED)
    simulation.run(lambda: bool(made(simulation, act.SetMemory)))
    simulation.deliver(ev.Unsatisfiable(role="worker", reason="this machine has 2g"))
    simulation.settle()
    assert simulation.finished
    assert simulation.finished.failure
    assert (simulation.finished.failure.cause, simulation.finished.failure.task) == ("memory", task("worker:0"))
    assert mentions(simulation.finished.failure.no_restart_reason, "this machine has 2g")


def test_a_later_am_attempt_requests_as_much() -> None:
    simulation = restarted(growing())
    before = len(made(simulation, act.SetMemory))
    simulation.die()
    simulation.run()
    assert made(simulation, act.SetMemory)[before:] == [act.SetMemory(role="worker", memory=3 * GIB // 2)]


def test_used_memory_is_that_of_the_containers() -> None:
    simulation = restarted(growing())
    for who in ("worker:0", "worker:1"):
        simulation.exit(task(who), OK)
    simulation.settle()
    role = simulation.app.state.roles["worker"]
    assert role.used * GIB <= role.used_memory <= role.used * 3 * GIB // 2


@pytest.mark.parametrize("up_to", [GIB, GIB // 2])
def test_a_limit_below_what_the_role_has_never_lowers_it(up_to: int) -> None:
    simulation = restarted(growing(up_to=up_to))
    assert made(simulation, act.SetMemory) == []
    assert simulation.app.state.roles["worker"].memory == GIB

"""The invariants notice what they are for: each kind of damage has its sentence."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.core.simulated import started
from tests.core.specs import OK, task, with_restarts, workers
from tests.facts import mentions
from tests.support.invariants import find_violations
from tests.support.simulation import Simulation
from tony.core.deadline import Deadline
from tony.core.state import ContainerIntent, GrantedContainer, State
from tony.model.states import JobState, TaskState


def running() -> Simulation:
    simulation = started(with_restarts(workers(2), 1))
    return simulation


def set_state(who: str, state: TaskState) -> Callable[[State], None]:
    """A task's state is changed behind the machine's back."""
    return lambda s: setattr(s.tasks[task(who)], "state", state)


def timer(name: str) -> Callable[[State], None]:
    return lambda s: s.timers.set(Deadline.parse(name), 1.0)


def report_of_pending_task(state: State) -> None:
    """The exit report of a program is awaited that never ran."""
    set_state("worker:0", TaskState.PENDING)(state)
    state.tasks[task("worker:0")].container_ended_at = 1.0


DAMAGE: list[tuple[Callable[[State], object], str]] = [
    (set_state("worker:0", TaskState.STOPPING), "the counters of worker are not its tasks' states"),
    (lambda s: setattr(s.roles["worker"], "started", 1), "worker counts 1 started programs"),
    (lambda s: setattr(s.roles["worker"], "unstarted", 1), "worker counts 1 tasks that ended and never ran, not 0"),
    (lambda s: s.roles["worker"].arrived.add(1), "worker has a wrong set of registered tasks"),
    (lambda s: setattr(s, "living", 1), "the counter of running programs is wrong"),
    (lambda s: setattr(s.roles["worker"], "held", 1), "worker counts 1 containers, not 2"),
    (
        lambda s: s.containers.__setitem__("c-9", GrantedContainer("c-9", "worker", "h")),
        "c-9 belongs to no task and is not released",
    ),
    (lambda s: s.containers.pop("c-1"), "worker:0 holds c-1, which has ended"),
    (lambda s: setattr(s.tasks[task("worker:0")], "container", None), "worker:0 runs without a container"),
    (lambda s: setattr(s.tasks[task("worker:0")], "session", 0), "a program of worker:0 from session 0 runs in sess"),
    (
        lambda s: setattr(s.containers["c-1"], "intent", ContainerIntent.RELEASED),
        "worker:0 is running in c-1, which was released",
    ),
    (lambda s: s.roles["worker"].waiting.join(0), "containers of worker are requested for {0}, and set() need one"),
    (set_state("worker:0", TaskState.STOPPING), "worker:0 was stopped for no reason"),
    (lambda s: setattr(s, "job", JobState.RESTARTING), "worker:0 was not told to stop, and the job is restarting"),
    (report_of_pending_task, "the exit report of worker:0 is awaited, which is pending"),
    (timer("registration:worker:0"), "registration:worker:0 is set and worker:0 is running"),
    (timer("report:worker:0"), "report:worker:0 is set and worker:0 is running"),
    (timer("stop-limit"), "stop-limit is set and nothing is being stopped"),
    (timer("force-limit"), "force-limit is set and nothing is being stopped"),
    (timer("allocation"), "the allocation deadline is set and no container is missing"),
    (timer("gang-patience"), "the gang-patience deadline is set and no container is missing"),
    (timer("gang-pause"), "the gang-pause deadline is set and no container is missing"),
    (lambda s: setattr(s.roles["worker"], "blocked", True), "worker can never start and the job continues"),
    (lambda s: setattr(s, "job", JobState.STOPPING), "the job is stopping and its result is None"),
]


@pytest.mark.parametrize(("damage", "sentence"), DAMAGE, ids=[sentence for _, sentence in DAMAGE])
def test_damage_is_noticed(damage: Callable[[State], object], sentence: str) -> None:
    """A healthy job has nothing to say; a damaged one says what is wrong with it."""
    simulation = running()
    assert find_violations(simulation.app) == []
    damage(simulation.app.state)
    assert any(said.startswith(sentence) for said in find_violations(simulation.app)), find_violations(simulation.app)


def test_a_job_that_waits_for_nothing_is_noticed() -> None:
    """Nothing moves and nothing will: the job would hang."""
    simulation = running()
    state = simulation.app.state
    for each in state.tasks.values():
        state.roles["worker"].counts[each.state] -= 1
        each.state = TaskState.PENDING
        state.roles["worker"].counts[TaskState.PENDING] += 1
    state.living = 0
    assert mentions(find_violations(simulation.app), "waits for nothing")


def test_an_end_with_something_left_is_noticed() -> None:
    """A job that has ended holds nothing, runs nothing and knows its exit code."""
    simulation = running()
    for program in simulation.running():
        simulation.exit(program.task, OK)
    simulation.settle()
    state = simulation.app.state
    assert find_violations(simulation.app) == []
    state.timers.set(Deadline.parse("job"), 9.0)
    assert mentions(find_violations(simulation.app), "programs, containers or deadlines")
    state.final = None
    assert mentions(find_violations(simulation.app), "exit code")

"""A gang that may have fewer tasks waits for all, makes do with enough, and asks for all again in the next session."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.random_jobs import Life
from tests.core.simulated import seen, started
from tests.core.specs import FAILED, OK, roles, task
from tests.facts import mentions
from tests.support.simulation import Simulation
from tony.core import actions as act
from tony.core import events as ev
from tony.core.deadline import Deadline, DeadlineKind
from tony.core.sentences import describe_note
from tony.core.state import RoleState
from tony.core.steps import gang
from tony.model.job_report import RoleSize
from tony.model.job_spec import JobSpec, Role, Timeouts, find_placed, place_among
from tony.model.setting_choices import AfterCondition, RoleKind, StopOn
from tony.model.states import JobState, TaskState

ELASTIC = JobSpec(
    command="x",
    roles={"worker": Role(instances=4, min_instances=2)},
    max_restarts=5,
    backoff=0.0,
    gang_wait=10.0,
    shrink_after=3.0,
    gang_patience=None,
)


def begun(spec: JobSpec = ELASTIC, capacity: int = 4, *, gangs: bool = True) -> Simulation:
    """A job that has been granted as much as there is room for, and has started if that is all."""
    simulation = started(spec, capacity=capacity, gangs=gangs)
    return simulation


def running(simulation: Simulation) -> list[str]:
    return sorted(str(program.task) for program in simulation.running())


def worker(simulation: Simulation) -> RoleState:
    return simulation.app.state.roles["worker"]


def published(simulation: Simulation) -> list[act.Publish]:
    return [action for action in simulation.actions if isinstance(action, act.Publish)]


def holder(simulation: Simulation, name: str) -> str:
    container = simulation.app.state.tasks[task(name)].container
    assert container is not None
    return container


def lose(simulation: Simulation, name: str) -> None:
    """A task's container goes, and its room with it."""
    simulation.capacity -= 1
    simulation.lose(holder(simulation, name), "its node burned", silent=True)
    simulation.run()


def fail(simulation: Simulation, name: str) -> None:
    """A task's program fails: the session is given up."""
    simulation.exit(task(name), FAILED)
    simulation.run()


def timers(simulation: Simulation) -> set[str]:
    """What is waited for, registrations left aside."""
    return {str(each) for each in simulation.app.state.timers.all if each.kind is not DeadlineKind.REGISTRATION}


def test_with_room_for_all_it_starts_at_once() -> None:
    """No task waits, and none is left out."""
    simulation = begun()
    assert running(simulation) == ["worker:0", "worker:1", "worker:2", "worker:3"]
    assert (simulation.now, timers(simulation), worker(simulation).left_out) == (0.0, set(), set())
    assert published(simulation)[0].spec.absent == {}


def test_the_gang_starts_smaller_after_the_wait() -> None:
    """Not before; then the missing tasks are no longer requested, and the others get each other's addresses only."""
    simulation = begun(capacity=3)
    assert (running(simulation), timers(simulation)) == ([], {"gang-wait"})
    assert simulation.demand == {"worker": 4}
    assert simulation.advance()
    simulation.run()
    assert simulation.now == 10.0
    assert running(simulation) == ["worker:0", "worker:1", "worker:2"]
    assert (simulation.demand, timers(simulation)) == ({"worker": 3}, set())
    spec = published(simulation)[0].spec
    assert (spec.roles, spec.absent) == ({"worker": ("h:1", "h:2", "h:3")}, {"worker": (3,)})
    said = [event for event, _ in simulation.log if isinstance(event, ev.GangSizeSet)]
    assert said == [ev.GangSizeSet(session=1, tasks={"worker": 3}, absent={"worker": (3,)})]


def test_reports_of_an_elastic_gang() -> None:
    """For how long it waits; then its size, the tasks left out and the reason."""
    simulation = begun(capacity=3)
    said = seen(simulation, 4.0)
    assert mentions(said.waiting, "4 s", "6 s", "worker:3", "gang_wait")
    assert said.sizes == (RoleSize(role="worker", tasks=4, least=2, most=4),)
    simulation.advance()
    simulation.run()
    said = seen(simulation)
    assert said.sizes == (RoleSize(role="worker", tasks=3, least=2, most=4, left_out=(task("worker:3"),)),)
    assert (said.tasks[3].state, said.waiting) == (TaskState.PENDING, "")
    assert mentions(said.tasks[3].note, "session 1", "10 s", "gang_wait")


def test_no_wait_at_all() -> None:
    """`gang_wait = "0s"` goes as soon as there are enough, and those that come together with them."""
    simulation = begun(replace(ELASTIC, gang_wait=0.0), capacity=3)
    simulation.advance()
    simulation.run()
    assert running(simulation) == ["worker:0", "worker:1", "worker:2"]
    assert simulation.now <= gang.SETTLE_SECONDS


def test_never_fewer_than_the_least() -> None:
    """One is too few: it waits on, and goes without the others soon after there are enough."""
    simulation = begun(capacity=1)
    simulation.advance()
    simulation.run()
    assert (running(simulation), simulation.demand) == ([], {"worker": 4})
    assert mentions(seen(simulation, 11.0).waiting, "11 s", "worker:1", "worker:2", "worker:3")
    simulation.now, simulation.capacity = 50.0, 3
    simulation.grant()
    simulation.run()
    assert timers(simulation) == {"gang-soon"}  # containers often come together
    simulation.advance()
    simulation.run()
    assert (simulation.now, running(simulation)) == (51.0, ["worker:0", "worker:1", "worker:2"])


def test_a_session_shrinks_and_the_next_one_grows() -> None:
    """A container that nothing replaces: 3 of 4 after `shrink_after`. When there is room again, the next has all."""
    simulation = begun()
    lose(simulation, "worker:1")
    assert (simulation.app.state.session, timers(simulation)) == (2, {"shrink-after"})
    before = simulation.now
    simulation.advance()
    simulation.run()
    assert simulation.now == before + 3.0
    assert running(simulation) == ["worker:0", "worker:2", "worker:3"]
    spec = published(simulation)[-1].spec
    assert (len(spec.roles["worker"]), spec.absent) == (3, {"worker": (1,)})
    simulation.capacity = 4
    fail(simulation, "worker:3")
    assert simulation.app.state.session == 3
    assert running(simulation) == ["worker:0", "worker:1", "worker:2", "worker:3"]
    assert published(simulation)[-1].spec.absent == {}
    for program in simulation.running():
        simulation.exit(program.task, OK)
    simulation.settle()
    assert simulation.finished is not None
    assert simulation.finished.exit_code == 0


def test_a_small_session_succeeds_without_those_left_out() -> None:
    """They have ended with the job, and say why they never ran."""
    simulation = begun(capacity=2)
    simulation.advance()
    simulation.run()
    for program in simulation.running():
        simulation.exit(program.task, OK)
    simulation.settle()
    said = seen(simulation)
    assert (said.state, said.exit_code) == (JobState.SUCCEEDED, 0)
    assert [each.state for each in said.tasks] == [TaskState.SUCCEEDED] * 2 + [TaskState.STOPPED] * 2
    assert mentions(said.tasks[3].note, "session 1", "10 s", "gang_wait")
    assert said.sizes[0].tasks == 2


def test_the_chief_may_be_left_out() -> None:
    """Then the first one that takes part is the chief: its success ends the job."""
    simulation = begun(replace(ELASTIC, stop_on=StopOn.CHIEF))
    lose(simulation, "worker:0")
    assert simulation.app.state.chief == task("worker:0")
    simulation.advance()
    simulation.run()
    assert simulation.app.state.chief == task("worker:1")
    simulation.exit(task("worker:3"), OK)
    simulation.run()
    assert simulation.app.state.final is None
    simulation.exit(task("worker:1"), OK)
    simulation.settle()
    assert simulation.finished is not None
    assert simulation.finished.exit_code == 0


PS = replace(ELASTIC, roles={"worker": Role(instances=4, min_instances=2), "ps": Role(kind=RoleKind.UNTRACKED)})


def test_all_of_every_other_role_must_be_there() -> None:
    """However long it has waited: without its ps nothing starts; with it, at once."""
    simulation = begun(PS, capacity=2)
    simulation.advance()
    simulation.run()
    assert (running(simulation), timers(simulation)) == ([], set())
    simulation.containers["there"] = "ps"
    simulation.deliver(ev.Granted(container="there", role="ps", host="h"))
    simulation.run()
    simulation.advance()
    simulation.run()
    assert running(simulation) == ["ps:0", "worker:0", "worker:1"]


def test_a_role_above_its_minimum_makes_room() -> None:
    """The workers have all containers, and the ps has none: after the wait the last worker is released for it."""
    simulation = begun(PS, capacity=4)
    assert running(simulation) == []
    simulation.advance()
    assert timers(simulation) == {"gang-soon"}
    simulation.run()
    assert running(simulation) == ["ps:0", "worker:0", "worker:1", "worker:2"]
    assert (simulation.now, timers(simulation)) == (10.0, set())
    assert mentions(describe_note(simulation.app.state.tasks[task("worker:3")].note), "session 1", "min = 2")
    assert published(simulation)[0].spec.absent == {"worker": (3,)}


def test_it_makes_room_bit_by_bit_and_never_below_the_least() -> None:
    """Where one container less does not help, another one goes after a while; then it waits."""
    simulation = begun(PS, capacity=4)
    simulation.capacity = 0
    for expected in ({3}, {2, 3}, {2, 3}):
        simulation.advance()
        simulation.run()
        assert worker(simulation).left_out == expected
    assert (simulation.now, timers(simulation), running(simulation)) == (30.0, set(), [])
    simulation.capacity = 3
    simulation.grant()
    simulation.run()
    assert running(simulation) == ["ps:0", "worker:0", "worker:1"]


def test_a_role_that_starts_later_waits_by_itself() -> None:
    """Its own time begins when it may start, and those that run already are left as they are."""
    late = Role(instances=4, min_instances=1, after={"prep": AfterCondition.SUCCEEDED})
    simulation = begun(replace(ELASTIC, roles={"prep": Role(), "worker": late}), capacity=2)
    simulation.now = 100.0
    simulation.exit(task("prep:0"), OK)
    simulation.run()
    assert simulation.app.state.timers.all[Deadline.parse("gang-wait")] == 110.0
    simulation.advance()
    simulation.run()
    assert running(simulation) == ["worker:0"]  # prep keeps its container: it may have to run again
    assert published(simulation)[-1].spec.absent == {"worker": (1, 2, 3)}


def test_a_late_container_is_released() -> None:
    """The gang had started without it."""
    simulation = begun(capacity=3)
    simulation.advance()
    simulation.containers["late"] = "worker"
    late = ev.Granted(container="late", role="worker", host="h")
    assert act.Release(container="late") in simulation.deliver(late)


@pytest.mark.parametrize("later", [False, True], ids=["gang_wait", "shrink_after"])
def test_off_waits_for_all(later: bool) -> None:
    """Without a limit the gang is whole or does not start."""
    simulation = begun(
        replace(ELASTIC, shrink_after=None) if later else replace(ELASTIC, gang_wait=None), 4 if later else 3
    )
    if later:
        lose(simulation, "worker:1")
    assert (timers(simulation), running(simulation)) == (set(), [])
    simulation.capacity = 4
    simulation.grant()
    simulation.run()
    assert len(running(simulation)) == 4


def test_the_allocation_timeout_starts_a_smaller_gang() -> None:
    """It ends the waiting, as always; and the job only if there are too few."""
    spec = replace(ELASTIC, timeouts=Timeouts(allocation=5.0))
    simulation = begun(spec, capacity=2)
    simulation.advance()
    simulation.run()
    assert (simulation.now, running(simulation)) == (5.0, ["worker:0", "worker:1"])
    assert mentions(
        describe_note(simulation.app.state.tasks[task("worker:3")].note), "session 1", "5 s", "allocation_timeout"
    )
    simulation = begun(spec, capacity=1)
    simulation.settle()
    assert simulation.failure.cause == "allocation-timeout"


def test_a_gang_above_its_minimum_does_not_back_off() -> None:
    """Where other gangs may want the rest: it starts soon. With too few it releases all, and later waits anew."""
    spec = replace(ELASTIC, gang_patience=1.0)
    simulation = begun(spec, capacity=2, gangs=False)
    simulation.advance()
    simulation.advance()
    simulation.run()
    assert running(simulation) == ["worker:0", "worker:1"]
    simulation = begun(spec, capacity=1, gangs=False)
    simulation.advance()
    simulation.run()
    assert (simulation.containers, simulation.app.state.pausing) == ({}, True)
    simulation.capacity = 3
    while simulation.app.state.pausing:
        simulation.advance()
        simulation.run()
    assert running(simulation) == []  # it waits for the fourth again
    assert simulation.app.state.timers.all[Deadline.parse("gang-wait")] == simulation.now + 10.0
    while not running(simulation):
        assert simulation.advance()
        simulation.run()
    assert len(running(simulation)) == 3


def test_a_task_lost_before_its_start_is_left_out_after_the_wait() -> None:
    """Within the wait its container is replaced."""
    simulation = begun(capacity=3)
    simulation.freeze(holder(simulation, "worker:0"))
    simulation.capacity = 2
    simulation.lose(holder(simulation, "worker:2"), "refused")
    simulation.run()
    assert (worker(simulation).left_out, simulation.demand) == (set(), {"worker": 4})
    simulation.advance()
    simulation.run()
    assert worker(simulation).left_out == {2, 3}


@pytest.mark.parametrize("death", range(1, 60))
def test_the_application_master_dies_after_any_event(death: int) -> None:
    """It shrinks and grows all the same: the successor knows who is left out, and tells executors the same."""
    simulation = Simulation(ELASTIC, capacity=3)
    simulation.dies = lambda number: number == death
    simulation.begin()
    for expected in (3, 4):
        while len(simulation.running()) < expected:
            simulation.run()
            if len(simulation.running()) < expected:
                assert simulation.advance(), "nothing more comes"
        session = simulation.app.state.session
        sizes = {a.spec.session: len(a.spec.roles["worker"]) for a in published(simulation)}
        assert sizes[session] == expected
        simulation.capacity = 4
        if expected == 3:
            simulation.exit(task("worker:1"), FAILED)
    while simulation.running():
        simulation.exit(simulation.running()[0].task, OK)
    simulation.settle()
    assert simulation.finished is not None
    assert simulation.finished.exit_code == 0


def find_places(simulation: Simulation, session: int) -> dict[str, list[int]]:
    """Role -> the places that the programs of a session were told, by what was published before they started."""
    places: dict[str, list[int]] = {}
    absent: dict[int, dict[str, tuple[int, ...]]] = {}
    for action in simulation.actions:
        if isinstance(action, act.Publish) and action.spec.session == session:
            absent[action.spec.version] = dict(action.spec.absent)
        elif isinstance(action, act.Start) and action.session == session and action.version:
            own = absent[action.version].get(action.task.role, ())
            places.setdefault(action.task.role, []).append(place_among(action.task.index, own))
    return {role: sorted(set(found)) for role, found in places.items()}


@settings(max_examples=60)
@given(st.randoms(use_true_random=False), st.integers(1, 5), st.integers(0, 4))
def test_programs_of_a_session_count_without_gaps(chance: Random, most: int, more: int) -> None:
    """Room comes and goes, containers are lost: each session's programs are 0 to n - 1, and n is what was published."""
    least = chance.randint(1, most)
    role = Role(instances=most + more, min_instances=least) if least < most + more else Role(instances=most)
    spec = replace(ELASTIC, roles={"worker": role, "ps": Role(kind=RoleKind.UNTRACKED)}, max_restarts=20)
    life = Life(chance, spec, faults=("fail", "lose", "room", "refuse", "twice"))
    life.cluster.capacity = life.capacity = role.instances + 1
    life.live(chance.randint(50, 200))
    life.end()
    for action in published(life.cluster):
        count = len(action.spec.roles["worker"])
        assert least <= count <= role.instances
        found = find_places(life.cluster, action.spec.session)
        assert found.get("worker", []) == list(range(len(found.get("worker", ()))))
        assert len(found.get("worker", ())) in (0, count)


def test_other_jobs_are_as_they_were() -> None:
    """No waiting of this kind, no such events, no sizes."""
    simulation = begun(roles(worker=Role(instances=4)), capacity=3)
    assert timers(simulation) <= {"gang-patience"}
    assert seen(simulation, 0.0).sizes == ()


def test_the_task_at_a_place_is_found_again() -> None:
    for absent in ((), (0,), (1, 2), (0, 3), (0, 1, 2)):
        present = [index for index in range(5) if index not in absent]
        assert [find_placed(place, absent) for place in range(len(present))] == present

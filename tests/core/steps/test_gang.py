"""A gang that was granted in part releases its containers to other gangs and tries again: no gang waits for ever."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.simulated import seen, started
from tests.core.specs import OK, roles, task, with_restarts, workers
from tests.facts import mentions
from tests.support.simulation import Simulation
from tony.core import actions as act
from tony.core import events as ev
from tony.core.deadline import Deadline, DeadlineKind
from tony.core.policies import gang_size_policy
from tony.model.actor import Actor
from tony.model.job_spec import JobSpec, Role, Timeouts
from tony.model.setting_choices import AfterCondition, DistributedMode, RoleKind
from tony.model.states import JobState, TaskState

FOUR = workers(4, gang_patience=10.0)


def incomplete(spec: JobSpec = FOUR, capacity: int = 2, *, gangs: bool = False) -> Simulation:
    """A job that has been granted as much as there is room for."""
    simulation = started(spec, capacity=capacity, gangs=gangs)
    return simulation


def timers(simulation: Simulation) -> set[str]:
    """What is waited for, registrations left aside."""
    return {str(each) for each in simulation.app.state.timers.all if each.kind is not DeadlineKind.REGISTRATION}


def states(simulation: Simulation) -> set[TaskState]:
    return {each.state for each in simulation.app.state.tasks.values()}


def test_it_gives_way_and_asks_again() -> None:
    """After the patience all is given back and nothing asked for; after the pause the whole is requested again."""
    simulation = incomplete()
    assert timers(simulation) == {"gang-patience"}
    simulation.actions.clear()
    assert simulation.advance()
    assert 10.0 <= simulation.now <= 12.5
    assert timers(simulation) == {"gang-pause"}
    assert simulation.demand == {"worker": 0}
    ended = [action for action in simulation.actions if isinstance(action, act.Kill)]
    assert [action.container for action in ended] == ["c-1", "c-2"]
    assert mentions(ended[0].reason, "worker has 2 of 4", "h (2)", "10 s", "gang_patience")
    simulation.run()
    assert simulation.containers == {}
    said = seen(simulation)
    assert said.waiting.startswith(
        "the gang was incomplete for too long and released its containers; it requests them again"
    )
    assert {each.note for each in said.tasks[:2]} == {
        "no container yet (before: its container was released: the gang was incomplete)"
    }
    simulation.capacity = 4
    simulation.advance()
    assert simulation.demand == {"worker": 4}
    simulation.run()
    assert (states(simulation), timers(simulation)) == ({TaskState.RUNNING}, set())
    state = simulation.app.state
    assert (state.release_count, state.restarts_charged, state.session) == (0, 0, 1)
    assert {each.launches for each in state.tasks.values()} == {0}


def test_killed_while_it_waits_to_ask_again() -> None:
    """What was given back for an incomplete gang is no reason any longer for where its tasks stand."""
    simulation = incomplete()
    assert simulation.advance()
    simulation.run()
    simulation.deliver(ev.KillRequested(actor=Actor("ann")))
    simulation.run()
    said = seen(simulation)
    assert (said.state, {each.note for each in said.tasks}) == (JobState.KILLED, {""})


def test_each_grant_restarts_gang_patience() -> None:
    """As long as containers come one by one, nothing is released."""
    simulation = incomplete(capacity=1)
    first = simulation.app.state.timers.all[Deadline.parse("gang-patience")]
    simulation.now, simulation.capacity = 9.0, 2
    simulation.grant()
    simulation.run()
    assert simulation.app.state.timers.all[Deadline.parse("gang-patience")] == pytest.approx(first + 9.0)


def test_a_job_without_containers_does_not_back_off() -> None:
    """It keeps its requests; the first container that is granted starts `gang_patience` anew."""
    simulation = incomplete(capacity=0)
    assert simulation.advance()
    assert (simulation.demand, timers(simulation)) == ({"worker": 4}, set())
    simulation.capacity = 1
    simulation.grant()
    simulation.run()
    assert timers(simulation) == {"gang-patience"}


def test_a_container_that_crosses_is_given_back() -> None:
    """One that was granted while the gang backed off is of no use there."""
    simulation = incomplete(capacity=2)
    simulation.advance()
    simulation.run()
    simulation.containers["late"] = "worker"
    assert act.Release(container="late") in simulation.deliver(ev.Granted(container="late", role="worker", host="h"))
    assert simulation.demand == {"worker": 0}


@pytest.mark.parametrize(
    ("spec", "gangs"),
    [
        (FOUR, True),
        (replace(FOUR, gang_patience=None), False),
        (replace(FOUR, distributed_mode=DistributedMode.FCFS), False),
        (replace(roles(worker=Role(instances=2), board=Role(kind=RoleKind.SIDECAR)), gang_patience=10.0), False),
    ],
    ids=["gangs are granted", "off", "fcfs", "only a sidecar is missing"],
)
def test_when_no_gang_backoff_is_needed(spec: JobSpec, gangs: bool) -> None:
    """Nothing is released where the scheduler handles gangs, where backoff is off, and where no task waits for the
    missing ones."""
    assert timers(incomplete(spec, gangs=gangs)) == set()


def test_running_programs_are_kept() -> None:
    """Programs of an earlier stage are untouched; containers that its ended tasks keep for a restart are released,
    too."""
    spec = with_restarts(
        replace(
            roles(
                prep=Role(instances=2),
                server=Role(),
                worker=Role(instances=3, after={"prep": AfterCondition.SUCCEEDED}),
            ),
            gang_patience=10.0,
        ),
        1,
    )
    simulation = incomplete(spec, capacity=4)
    simulation.exit(task("prep:0"), OK)
    simulation.exit(task("prep:1"), OK)
    simulation.run()
    assert len(simulation.containers) == 4
    simulation.advance()
    simulation.run()
    assert list(simulation.containers.values()) == ["server"]
    assert simulation.app.state.tasks[task("server:0")].state is TaskState.RUNNING
    simulation.advance()
    simulation.run()
    assert {p.task.role for p in simulation.running()} == {"server", "worker"}


def test_the_allocation_timeout_is_not_prolonged_by_releasing() -> None:
    """Its message says role by role how many there were, where, and how many were missing."""
    spec = replace(roles(ps=Role(), worker=Role(instances=4)), gang_patience=10.0, timeouts=Timeouts(allocation=100.0))
    simulation = incomplete(spec, capacity=3)
    simulation.settle()
    assert 100.0 <= simulation.failure.at < 101.0
    reason = simulation.failure.reason
    assert reason.startswith("not every container was granted within 1 m 40 s (allocation_timeout): ps has ")
    assert "; worker has " in reason
    assert " times so far (gang_patience)" in reason


def test_a_kill_during_the_pause() -> None:
    """The job ends at once: there is nothing left to wait for."""
    simulation = incomplete()
    simulation.advance()
    simulation.run()
    simulation.deliver(ev.KillRequested(actor=Actor("ann")))
    assert simulation.app.state.job is JobState.KILLED


@pytest.mark.parametrize("pair", range(60))
def test_two_jobs_on_a_full_queue(pair: int) -> None:
    """Each needs more than half of the room and is granted a part: both run, one after the other."""
    jobs = [
        Simulation(FOUR, capacity=0, gangs=False, job_id=f"application_17_{pair * 2 + number:04}") for number in (0, 1)
    ]
    for job in jobs:
        job.begin()
    rounds = 0
    while not all(job.finished for job in jobs):
        settle(jobs, room=5)
        for job in jobs:
            for program in job.running():
                job.exit(program.task, OK)
        settle(jobs, room=5)
        let_time_pass(jobs)
        rounds += 1
        assert rounds < 60
    assert [job.finished and job.finished.state for job in jobs] == [JobState.SUCCEEDED] * 2
    assert any(event == ev.DeadlinePassed(deadline=Deadline.parse("gang-pause")) for j in jobs for event, _ in j.log)


def settle(jobs: list[Simulation], room: int) -> None:
    """Delivers all that is on its way; gives free containers to one job after the other, one at a time."""
    while True:
        for job in jobs:
            job.capacity = 0
            job.run()
        before = sum(len(job.containers) for job in jobs)
        for job in jobs:
            if sum(len(each.containers) for each in jobs) < room:
                job.capacity = len(job.containers) + 1
                job.grant()
        if sum(len(job.containers) for job in jobs) == before:
            return


def let_time_pass(jobs: list[Simulation]) -> None:
    due = [(when[0], number) for number, job in enumerate(jobs) if (when := job.app.state.timers.find_next())]
    if due:
        at, number = min(due)
        for job in jobs:
            job.now = max(job.now, at)
        jobs[number].advance()


def test_pauses_grow() -> None:
    """They double up to a minute, and no two jobs agree on them."""
    for seed in ("a", "b", "c"):
        assert all(
            middle / 2 <= gang_size_policy.compute_gang_pause(times, seed) <= middle * 1.5
            for times, middle in enumerate((5, 10, 20, 40, 60, 60), start=1)
        )
        assert 60.0 <= gang_size_policy.compute_gang_timeout(60.0, 3, seed) <= 75.0
    assert len({gang_size_policy.compute_gang_pause(1, f"job-{number}") for number in range(50)}) == 50

"""A node is lost before the exit of its program is confirmed: no other task takes its place while it may still run."""

from __future__ import annotations

import pytest

from tests.core.simulated import started
from tests.core.specs import OK, task, with_restarts, workers
from tests.facts import mentions
from tests.support.simulation import Simulation
from tony.core import events as ev
from tony.core.sentences import describe_note
from tony.core.steps.container_loss import DRIFT, SLACK_SECONDS, compute_latest_exit_time
from tony.model.actor import Actor
from tony.model.states import JobState, TaskState

#: Seconds of an executor's lease, and the stop grace of the job.
LEASE, GRACE = 100.0, 5.0
OVER = compute_latest_exit_time(0.0, LEASE, GRACE)
LOST = task("worker:0")


def running(*, until: float = 50.0) -> Simulation:
    simulation = started(with_restarts(workers(2, stop_grace=GRACE), 1))
    simulation.now = until
    return simulation


def given_up(simulation: Simulation, contact: float | None = None) -> str:
    """The node of the first worker is lost, and its executor does not report any longer."""
    container = simulation.app.state.tasks[LOST].container
    assert container is not None
    simulation.disconnect(container)
    simulation.give_up(container, LEASE, simulation.now if contact is None else contact)
    simulation.run()
    return container


def until(simulation: Simulation, end: float) -> None:
    """Lets time pass, with all deadlines that come meanwhile."""
    simulation.run()
    while simulation.wakes_at is not None and simulation.wakes_at <= end:
        simulation.advance()
        simulation.run()
    simulation.now = end


def test_the_arithmetic() -> None:
    """Lease and stop grace by a clock that is 5 % too slow, and time to notice."""
    assert compute_latest_exit_time(1000.0, 600.0, 30.0) == 1000.0 + 630.0 * (1 + DRIFT) + SLACK_SECONDS
    assert pytest.approx(1691.5) == compute_latest_exit_time(1000.0, 600.0, 30.0)


def test_the_next_session_waits_until_the_lease_is_over() -> None:
    """The other tasks are stopped at once, the lost one's program counts as living; people are told for how long."""
    simulation = running()
    container = given_up(simulation)
    state = simulation.app.state
    assert state.job is JobState.RESTARTING
    assert [state.tasks[LOST].state, state.tasks[task("worker:1")].state] == [TaskState.STOPPING, TaskState.STOPPED]
    assert mentions(describe_note(state.tasks[LOST].note), "2 m 20 s", "worker:0", "lost", "running")
    assert simulation.demand == {"worker": 1}
    until(simulation, 50.0 + OVER - 1.0)
    assert (state.session, state.job) == (1, JobState.RESTARTING)
    simulation.expire(container)
    until(simulation, 50.0 + OVER + 5.0)
    assert (state.session, state.job) == (2, JobState.RUNNING)
    assert len(simulation.running()) == 2
    assert state.restarts_charged == 0


def test_time_counts_from_the_last_contact() -> None:
    """The cluster takes minutes to give up a node: they have passed already."""
    simulation = running(until=80.0)
    container = given_up(simulation, contact=20.0)
    simulation.expire(container)
    until(simulation, 20.0 + OVER - 1.0)
    assert simulation.app.state.session == 1
    until(simulation, 20.0 + OVER + 5.0)
    assert simulation.app.state.session == 2


def test_a_lease_that_is_over_is_a_proof() -> None:
    simulation = running(until=200.0)
    container = simulation.app.state.tasks[LOST].container
    assert container is not None
    simulation.disconnect(container)
    simulation.give_up(container, LEASE, contact=10.0)
    simulation.expire(container)
    until(simulation, 205.0)
    assert (simulation.app.state.session, simulation.app.state.job) == (2, JobState.RUNNING)


def test_an_executor_that_hears_us_proves_it_at_once() -> None:
    """Only the node's daemon has died: the program is asked to stop, and reports its end."""
    simulation = running()
    container = simulation.app.state.tasks[LOST].container
    assert container is not None
    simulation.give_up(container, LEASE, simulation.now)
    until(simulation, 55.0)
    assert (simulation.app.state.session, simulation.app.state.job) == (2, JobState.RUNNING)
    assert container not in simulation.app.state.containers


def test_a_reconnected_executor_is_released() -> None:
    """After a network partition it reports the exit of its program, and is released."""
    simulation = running()
    container = given_up(simulation)
    until(simulation, 70.0)
    simulation.reconnect(container)
    until(simulation, 75.0)
    assert (simulation.app.state.session, simulation.app.state.job) == (2, JobState.RUNNING)


def test_a_late_proof_is_a_proof() -> None:
    """The node comes back, and the scheduler says that the container has ended."""
    simulation = running()
    container = given_up(simulation)
    simulation.expire(container)
    for _ in range(2):
        simulation.deliver(
            ev.ContainerEnded(container=container, cause="killed by its node", confirmation=ev.EndConfirmation.SILENT)
        )
    until(simulation, 55.0)
    assert (simulation.app.state.session, simulation.app.state.job) == (2, JobState.RUNNING)


def test_a_duplicate_report_is_ignored() -> None:
    """Whatever times it has."""
    simulation = running()
    container = given_up(simulation)
    before = simulation.app.compute_digest()
    unconfirmed = ev.EndConfirmation.UNCONFIRMED
    again = ev.ContainerEnded(container=container, cause="again", confirmation=unconfirmed, contact=60.0, lease=900.0)
    simulation.deliver(again)
    assert simulation.app.compute_digest() == before


def test_where_nothing_ran_nothing_is_waited_for() -> None:
    """The program had not been started: another container takes its place at once."""
    simulation = Simulation(with_restarts(workers(2, stop_grace=GRACE), 1))
    simulation.begin()
    simulation.run(until=lambda: len(simulation.executors) == 2)
    container = simulation.app.state.tasks[LOST].container
    assert container is not None
    simulation.disconnect(container)
    simulation.pending = [each for each in simulation.pending if each.source != container]
    simulation.give_up(container, LEASE, simulation.now)
    simulation.expire(container)
    simulation.run()
    assert len(simulation.running()) == 2
    assert simulation.app.state.session == 1


def test_the_successor_waits_as_long() -> None:
    """The application master dies meanwhile. That no scheduler knows the container is still no proof."""
    simulation = running()
    container = given_up(simulation)
    until(simulation, 60.0)
    simulation.cut_off.add(container)
    simulation.die()
    simulation.run()
    until(simulation, 50.0 + OVER - 1.0)
    assert simulation.app.state.session == 1
    simulation.expire(container)
    until(simulation, 50.0 + OVER + 15.0)  # the job was without an AM for ten seconds: they do not count
    assert (simulation.app.state.session, simulation.app.state.job) == (2, JobState.RUNNING)


def test_a_job_that_ends_does_not_wait_for_it() -> None:
    """Nothing takes its place, so no exit has to be confirmed: the job directory is closed as with any unconfirmed
    exit."""
    simulation = running()
    given_up(simulation)
    simulation.deaf = True  # the exit of its program stays unconfirmed
    simulation.deliver(ev.KillRequested(actor=Actor("ann")))
    until(simulation, 50.0 + GRACE + 25.0)
    assert simulation.finished
    assert simulation.app.state.job is JobState.KILLED


def test_it_may_have_succeeded() -> None:
    """An executor that comes back says so; its word counts like any other's."""
    simulation = started(workers(1, stop_grace=GRACE))
    container = simulation.app.state.tasks[LOST].container
    assert container is not None
    simulation.disconnect(container)
    simulation.exit(LOST, OK)
    simulation.reconnect(container)
    simulation.settle()
    assert simulation.app.state.job is JobState.SUCCEEDED

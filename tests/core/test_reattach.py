"""An executor that comes back is told all that it may have missed, and nothing that it must not do."""

from __future__ import annotations

import pytest

from tests.core.simulated import started
from tests.core.specs import task, with_restarts, workers
from tests.support.simulation import Simulation
from tony.core import actions as act
from tony.core import events as ev
from tony.model.actor import Actor
from tony.model.states import TaskState

START = act.Start(task=task("worker:0"), session=1, try_=1, version=1)


def running() -> Simulation:
    """Two workers run, in c-1 and c-2."""
    simulation = started(with_restarts(workers(2, stop_grace=3.0), 1))
    return simulation


def told(simulation: Simulation, incarnation: str = "i-c-1") -> list[act.Action]:
    """What the executor in c-1 is told."""
    before = simulation.app.compute_digest()
    actions = simulation.app.find_reattach_actions("c-1", incarnation)
    assert simulation.app.compute_digest() == before
    return actions


def test_a_task_that_should_run_is_started() -> None:
    """The first start may have been lost; a duplicate starts nothing."""
    assert told(running()) == [START]


def test_a_task_that_should_stop_is_started_and_stopped() -> None:
    """If the start was lost as well, no exit of that program would ever be reported."""
    simulation = running()
    simulation.stubborn.add(task("worker:0"))
    simulation.deliver(ev.KillRequested(actor=Actor("ann")))
    assert told(simulation) == [
        act.Stop(task=task("worker:0"), session=1, try_=1, grace=3.0),
        START,
    ]


def test_a_stop_and_a_start_that_were_both_lost_come_to_an_end_at_once() -> None:
    """The executor answers that nothing was started; nothing has to be ended by force."""
    simulation = Simulation(workers(2))
    simulation.begin()
    simulation.run(until=lambda: sum(isinstance(p.event, ev.Registered) for p in simulation.pending) == 2)
    simulation.disconnect("c-1")
    simulation.run()
    simulation.deliver(ev.KillRequested(actor=Actor("ann")))
    simulation.run()
    simulation.reconnect("c-1")
    simulation.run()
    assert simulation.finished
    assert (simulation.now, simulation.app.state.tasks[task("worker:0")].state) == (0.0, TaskState.STOPPED)


def test_a_preparing_task_gets_the_session() -> None:
    """The message of a new session may have been lost."""
    simulation = running()
    simulation.disconnect("c-1")
    simulation.lose("c-2", silent=True)
    simulation.run()
    simulation.reconnect("c-1")
    simulation.run(until=lambda: simulation.app.state.tasks[task("worker:0")].state is TaskState.STARTING)
    assert told(simulation) == [act.Renew(task=task("worker:0"), session=2)]


def test_an_unregistered_task_gets_nothing() -> None:
    """It registers for the session that it was launched for."""
    simulation = Simulation(workers(2))
    simulation.begin()
    simulation.run(until=lambda: "c-1" in simulation.executors)
    assert told(simulation) == []


def test_a_ready_task_waits_for_the_others() -> None:
    """Nothing is told before the gang is complete."""
    simulation = started(workers(2), capacity=1)
    assert simulation.app.state.tasks[task("worker:0")].state is TaskState.REGISTERED
    assert told(simulation) == []


@pytest.mark.parametrize("frozen", [False, True])
def test_an_unneeded_executor_is_released(frozen: bool) -> None:
    """Its container was released, or its task has another one."""
    simulation = running()
    simulation.deaf = True
    if frozen:
        simulation.freeze("c-1")
        simulation.deliver(ev.Silent(task=task("worker:0"), incarnation="i-c-1", silence=25.0, container="c-1"))
    else:
        simulation.deliver(ev.KillRequested(actor=Actor("ann")))
        simulation.run()
    assert told(simulation) == [act.Release(container="c-1")]

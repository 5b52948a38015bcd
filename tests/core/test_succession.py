"""The application master may die at any moment: its successor ends the job the same way, and starts nothing twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from tests.core.specs import FAILED, OK, staged, task, with_restarts, workers
from tests.support.simulation import Program, Simulation
from tony.core.actions import Kill, Launch
from tony.core.events import KillRequested
from tony.model.actor import Actor
from tony.model.ids import TaskId
from tony.model.job_spec import JobSpec, Role
from tony.model.program_exit import ExitStatus
from tony.model.setting_choices import AfterCondition, RoleKind
from tony.model.states import JobState

#: Ends a program, or lets it run on.
Behaviour = Callable[[Program], ExitStatus | None]


def _ends(program: Program) -> ExitStatus | None:
    """One of the workers fails in the first session; boards and servers never end by themselves."""
    if program.task.role in ("board", "ps"):
        return None
    if program.task == task("worker:1") and program.session == 1:
        return FAILED
    return OK


def drive(
    spec: JobSpec,
    dies: Callable[[int], bool] | None = None,
    *,
    late: bool = False,
    kill_at: int | None = None,
    enlists: bool = False,
) -> Simulation:
    """Runs a job whose programs end one after the other, each when nothing else is on its way."""
    simulation = Simulation(spec, enlists=enlists)
    simulation.dies, simulation.late = dies, late
    simulation.begin()
    for _ in range(10_000):
        if simulation.finished:
            return simulation
        if simulation.pending:
            simulation.deliver_pending()
            continue
        if kill_at is not None and len(simulation.log) >= kill_at:
            kill_at = None
            simulation.deliver(KillRequested(actor=Actor("ann")))
            continue
        ended = next(((p, s) for p in sorted(simulation.running(), key=_order) if (s := _ends(p))), None)
        if ended:
            simulation.exit(ended[0].task, ended[1])
        elif not simulation.advance():
            break
    raise AssertionError(f"the job does not end; it is {simulation.app.state.job}")


def _order(program: Program) -> tuple[TaskId, int]:
    return program.task, program.try_


def _at(event: int) -> Callable[[int], bool]:
    return lambda number: number == event


def _every(events: int) -> Callable[[int], bool]:
    return lambda number: number % events == 0


def outcome(simulation: Simulation) -> Mapping[str, object]:
    """What must be the same whenever the master died."""
    state = simulation.app.state
    return {
        "job": state.job,
        "sessions": state.session,
        "charged": state.restarts_charged,
        "exit": simulation.app.exit_code,
        "failure": state.final and state.final.failure and state.final.failure.cause,
        "tasks": {str(each.id): each.state for each in state.tasks.values()},
        "programs": simulation.programs,
    }


JOBS: Mapping[str, JobSpec] = {
    "one-role": workers(2),
    "restart": with_restarts(workers(3), 1),
    "stages": replace(with_restarts(staged(), 1), stop_grace=1.0),
    "no-restart-left": workers(2, max_restarts=0),
    "setup": JobSpec(
        command="x",
        roles={
            "first": Role(instances=1, kind=RoleKind.SETUP),
            "worker": Role(instances=2),
            "late": Role(after={"worker": AfterCondition.STARTED}),
        },
        max_restarts=2,
    ),
}


@pytest.mark.parametrize("late", [False, True], ids=["soon", "late"])
@pytest.mark.parametrize("name", JOBS)
def test_after_every_single_event(name: str, late: bool) -> None:
    """Killed after each event in turn, between what was logged and what came of it: result and starts are the same."""
    spec = JOBS[name]
    expected = outcome(drive(spec))
    events = len(drive(spec).log)
    for number in range(1, events + 1):
        simulation = drive(spec, _at(number), late=late)
        assert simulation.deaths == 1
        assert outcome(simulation) == expected, f"killed after event {number}: {simulation.log[number - 1]}"


@pytest.mark.parametrize("name", JOBS)
def test_executors_that_enlist_keep_their_containers(name: str) -> None:
    """One that has not registered when the AM dies may still be starting: its launch is repeated, it is not killed."""
    whole = drive(JOBS[name], enlists=True)
    for number in range(1, len(whole.log) + 1):
        simulation = drive(JOBS[name], _at(number), enlists=True)
        assert outcome(simulation) == outcome(whole), f"killed after event {number}"
        launched = {action.container for action in simulation.actions if isinstance(action, Launch)}
        killed = {action.container for action in simulation.actions if isinstance(action, Kill)}
        assert not launched & killed, f"killed after event {number}"


@pytest.mark.parametrize("name", JOBS)
def test_killed_again_and_again(name: str) -> None:
    """Killed every few events for as long as the job lasts, its successors end it the same way."""
    expected = outcome(drive(JOBS[name]))
    for every in (7, 11):
        simulation = drive(JOBS[name], _every(every))
        assert simulation.deaths
        assert outcome(simulation) == expected


def test_a_kill_is_kept() -> None:
    """The next AM attempt executes the user's kill request, whenever the AM dies."""
    spec = JOBS["stages"]
    whole = drive(spec, kill_at=30)
    assert whole.app.state.job is JobState.KILLED
    for number in range(1, len(whole.log) + 1):
        simulation = drive(spec, _at(number), kill_at=30)
        assert simulation.app.state.job is JobState.KILLED, number
        assert not simulation.running()
        assert not simulation.containers

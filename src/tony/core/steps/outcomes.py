"""A task is over: what follows for its container, its role, its session and its job."""

from __future__ import annotations

from tony.core.state import Task
from tony.core.steps import containers, ending, failing, programs, progress, restarting, stopping
from tony.core.tables import TaskMove
from tony.core.turn import Turn
from tony.model.report import Failure
from tony.model.states import JobState, RoleKind, StopOn, TaskState


def task_over(turn: Turn, task: Task) -> None:
    """What follows from one task's end, whatever it was. Its failure, if it was one, has been judged."""
    state = turn.state
    held = containers.held_by(state, task)
    if held and (state.job is JobState.STOPPING or (state.active and not state.may_restart)):
        containers.give_back(turn, held)
    if state.job is JobState.RESTARTING:
        restarting.open_if_all_is_over(turn)
    elif state.job is JobState.STOPPING:
        ending.end_if_nothing_is_left(turn)
    elif state.active:
        role = state.roles[task.id.role]
        if role.ended == role.total:
            if role.kind is RoleKind.SETUP and role.succeeded == role.total:
                containers.give_back_all(turn, role)  # whatever comes, it is not run again
            progress.role_over(turn, role)
        elif not task.started:
            progress.look_for_blocked(turn)
        elif state.spec.stop_on is not StopOn.CHIEF:
            return  # one of many: nobody waits for it alone
        progress.advance(turn)


def fault(turn: Turn, task: Task, failure: Failure) -> None:
    """A failure that is not told by the program's end: a time-out, silence, no container that works."""
    task.judged, task.note = True, failure.reason
    if not task.living:
        programs.close(turn, task, TaskMove.FAIL)
        held = containers.held_by(turn.state, task)
        if held and turn.state.active:
            containers.end_by_force(turn, held, failure.reason)
    elif task.state is TaskState.RUNNING:
        stopping.stop(turn, task, failure.reason)
    failing.of_task(turn, task, failure)
    if not task.living:
        task_over(turn, task)


def lost(turn: Turn, task: Task) -> None:
    """The container of a living program is gone and its report will not come."""
    failure = programs.lost(turn, task)
    if failure:
        failing.of_task(turn, task, failure)
    task_over(turn, task)

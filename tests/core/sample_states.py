"""States of a job, made directly: for what only reads them."""

from __future__ import annotations

from collections.abc import Mapping

from tony.core.state import RoleState, State
from tony.core.transitions import TaskMove
from tony.model.ids import TaskId
from tony.model.job_spec import JobSpec
from tony.model.states import TaskState

_UP = (TaskMove.REQUEST, TaskMove.PLACE, TaskMove.REGISTER, TaskMove.START)
#: State -> how a pending task gets there.
WAYS: Mapping[TaskState, tuple[TaskMove, ...]] = {
    TaskState.PENDING: (),
    TaskState.REQUESTED: _UP[:1],
    TaskState.STARTING: _UP[:2],
    TaskState.REGISTERED: _UP[:3],
    TaskState.RUNNING: _UP,
    TaskState.STOPPING: (*_UP, TaskMove.STOP),
    TaskState.SUCCEEDED: (*_UP, TaskMove.SUCCEED),
    TaskState.FAILED: (*_UP, TaskMove.FAIL),
    TaskState.STOPPED: (*_UP, TaskMove.STOP, TaskMove.END),
    TaskState.LOST: (*_UP, TaskMove.LOSE),
}


def standing(spec: JobSpec, **tasks: str) -> State:
    """A job in session 1 whose tasks stand like this: `worker="running failed"` in the order of their indexes.

    A role that is not named is pending. One that runs, or is past that, has been started; `*` before a state says that
    the task's program never was.
    """
    state = State("j", spec)
    state.session = 1
    for name, words in tasks.items():
        role = state.roles[name]
        role.ready = True
        for index, word in enumerate(words.split()):
            _put(state, role, TaskId(name, index), word)
    return state


def _put(state: State, role: RoleState, task: TaskId, word: str) -> None:
    goal = TaskState(word.removeprefix("*"))
    known = state.tasks[task]
    for move in WAYS[goal]:
        state.move_task(known, move, 0.0)
    if TaskMove.START in WAYS[goal] and not word.startswith("*"):
        known.session = known.try_ = 1
        known.started = True
        role.started += 1
    elif word.startswith("*"):
        role.unstarted += 1

"""Which tasks a job still waits for once another task has succeeded. Reads only."""

from __future__ import annotations

from tony.core.state import State
from tony.model.ids import TaskId, format_task_ranges
from tony.model.states import ENDED_TASK_STATES, JobState, RoleKind, TaskState

#: Maximum number of task ranges (`worker:0-6`) listed.
_SHOWN_RANGES = 3


def describe_unfinished(state: State) -> str:
    """Return a sentence such as `chief:0 has succeeded; still waiting for worker:0-1`.

    Empty while no tracked task has succeeded, or if none is waited for. Roles that others wait for with `after` are not
    mentioned: the next stage starting is expected.
    """
    if state.job is not JobState.RUNNING:
        return ""
    tracked = [role for role in state.roles.values() if role.kind is RoleKind.TRACKED and not role.finished]
    if not any(role.succeeded for role in tracked):
        return ""
    unfinished = [
        task.id
        for role in tracked
        if role.ended < role.total
        for task in role.members
        if task.state not in ENDED_TASK_STATES
    ]
    followed = {name for task in unfinished for name in state.roles[task.role].spec.after}
    succeeded: list[TaskId] = [
        task.id
        for role in tracked
        if role.succeeded and role.name not in followed
        for task in role.members
        if task.state is TaskState.SUCCEEDED
    ]
    if not succeeded or not unfinished:
        return ""
    verb = "has" if len(succeeded) == 1 else "have"
    return (
        f"{format_task_ranges(succeeded, _SHOWN_RANGES)} {verb} succeeded; "
        f"still waiting for {format_task_ranges(unfinished, _SHOWN_RANGES)}"
    )

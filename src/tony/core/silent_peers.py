"""Finds running tasks that have printed and reported nothing since a peer succeeded: they may wait for it forever."""

from __future__ import annotations

from collections.abc import Callable

from tony.core.state import RoleState, State, Task
from tony.model.ids import TaskId
from tony.model.states import DistributedMode, JobState, RoleKind, TaskState
from tony.units import format_duration

#: Programs that only take a little longer than their peers are not reported.
MIN_SILENCE_SECONDS = 60.0
#: Maximum number of tasks listed by name.
_MAX_NAMED = 3


def describe_silent_peers(state: State, now: float, find_silence: Callable[[TaskId], float | None]) -> str:
    """Return one sentence about the first role of which some tasks succeeded and all others are silent since then.

    Args:
        find_silence: returns the seconds since a task's program printed a line or reported a step; None if it never
            has.

    Returns:
        An empty text if there is no such role.
    """
    if state.job is not JobState.RUNNING or state.spec.distributed_mode is DistributedMode.FCFS:
        return ""
    for role in state.roles.values():
        if role.kind in (RoleKind.TRACKED, RoleKind.UNTRACKED):
            found = _describe_role(state, role, now, find_silence)
            if found:
                return found
    return ""


def _describe_role(state: State, role: RoleState, now: float, find_silence: Callable[[TaskId], float | None]) -> str:
    ended = [t for t in role.members if t.state is TaskState.SUCCEEDED and t.session == state.session]
    running = [t for t in role.members if t.state is TaskState.RUNNING]
    if not ended or not running:
        return ""
    silence = now - max(task.since for task in ended)
    ages = [find_silence(task.id) for task in running]
    if silence < MIN_SILENCE_SECONDS or any(age is not None and age < silence for age in ages):
        return ""
    has = "has" if len(running) == 1 else "have"
    return (
        f"{_format_names(ended)} ended {format_duration(silence)} ago with exit code 0, and {_format_names(running)} "
        f"{has} printed and reported nothing since; see: tony stacks {state.job_id}"
    )


def _format_names(tasks: list[Task]) -> str:
    names = [str(task.id) for task in tasks]
    if len(names) > _MAX_NAMED:
        return f"{', '.join(names[:_MAX_NAMED])} and {len(names) - _MAX_NAMED} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))

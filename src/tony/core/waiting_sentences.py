"""Sentences on what a job waits for: containers, unfinished tasks, tasks that are silent since a peer succeeded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tony.core.state import RoleState, State, Task
from tony.model.ids import TaskId, format_task_ranges
from tony.model.setting_choices import DistributedMode, RoleKind
from tony.model.states import ENDED_TASK_STATES, JobState, TaskState
from tony.units import format_duration, format_first

#: Maximum number of hosts listed for a role.
_MAX_HOSTS = 10
#: Maximum number of task ranges (`worker:0-6`) listed.
_SHOWN_RANGES = 3
#: Programs that only take a little longer than their peers are not reported.
MIN_SILENCE_SECONDS = 60.0
#: Maximum number of tasks listed by name.
_MAX_NAMED = 3


def describe_pending(state: State) -> str:
    """Return `worker has 2 of 4 containers (on a, b), 2 are missing; ps has 1 of 1 (on a)`; empty if none is."""
    ready = [role for role in state.roles.values() if role.ready and not role.finished]
    if not any(len(role.waiting) for role in ready):
        return ""
    return "; ".join(_describe_containers(role) for role in ready)


def _describe_containers(role: RoleState) -> str:
    missing = len(role.waiting)
    text = f"{role.name} has {role.total - missing} of {role.total} containers"
    hosts = Counter(task.host for task in role.tasks if task.container and task.host)
    if hosts:
        names = [f"{host} ({count})" if count > 1 else host for host, count in list(hosts.items())[:_MAX_HOSTS]]
        more = len(hosts) - _MAX_HOSTS
        text += f" (on {', '.join(names)}{f' and {more} more hosts' if more > 0 else ''})"
    return text + (f", {missing} {'is' if missing == 1 else 'are'} missing" if missing else "")


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
            found = _describe_silence(state, role, now, find_silence)
            if found:
                return found
    return ""


def _describe_silence(state: State, role: RoleState, now: float, find_silence: Callable[[TaskId], float | None]) -> str:
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
        return format_first(names, _MAX_NAMED)
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))

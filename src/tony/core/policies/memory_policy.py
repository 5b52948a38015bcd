"""Decides how much memory the tasks of a role are requested with after one of them was killed for memory."""

from __future__ import annotations

from tony.core.state import State, Task
from tony.model.failure import Failure, FailureCause
from tony.model.job_spec import MIB
from tony.units import format_size

#: Why a container is given up after the memory of its role was raised.
TOO_SMALL = "its role is requested with more memory now (memory_on_oom)"


def scale_memory(size: int, factor: float) -> int:
    """Return bytes times a factor, rounded up to whole MiB."""
    return -(-int(size * factor) // MIB) * MIB


def find_next_memory(state: State, failure: Failure) -> int | None:
    """Return the bytes with which tasks of the failed one's role are requested from now on, if that is more for it.

    None if the task was not killed for memory, the job does not set `memory_on_oom`, or its limit is reached.
    """
    if failure.task is None or failure.cause is not FailureCause.MEMORY:
        return None
    role, task = state.roles[failure.task.role], state.tasks[failure.task]
    growth = state.spec.memory_growth_of(role.name)
    if growth.up_to is None:
        return None
    if task.memory < role.memory:  # another task of the role was killed before, while this one ran
        return role.memory
    memory = min(scale_memory(role.memory, growth.factor), growth.up_to)
    return memory if memory > role.memory else None


def explain_limit(state: State, failure: Failure) -> str:
    """Return why a task that was killed for memory gets no more; empty if it does, or if the job sets no limit."""
    if failure.task is None or failure.cause is not FailureCause.MEMORY:
        return ""
    role = failure.task.role
    up_to = state.spec.memory_growth_of(role).up_to
    if up_to is None or find_next_memory(state, failure) is not None:
        return ""
    key = "memory_on_oom" if state.roles[role].spec.memory_on_oom is None else f"roles.{role}.memory_on_oom"
    has = format_size(state.tasks[failure.task].memory)
    return f"{role} had {has} of memory, and may not have more ({key}.up_to = {format_size(up_to)})"


def describe_growth(state: State, failure: Failure) -> str:
    """Return a phrase on the memory of the next attempt; empty if it is not raised."""
    memory = find_next_memory(state, failure)
    if memory is None or failure.task is None:
        return ""
    before = format_size(state.tasks[failure.task].memory)
    return f"{failure.task.role} gets {format_size(memory)} of memory instead of {before} (memory_on_oom)"


def is_too_small(state: State, task: Task) -> bool:
    """Return True if the container of a task has less memory than its role is requested with now."""
    held = state.containers[task.container] if task.container else None
    return held is not None and held.memory < state.roles[task.id.role].memory

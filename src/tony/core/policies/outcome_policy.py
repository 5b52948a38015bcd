"""Decides what the failure of one task means for the session, and when a job has succeeded."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tony.core.reasons import Success
from tony.core.state import RoleState, State
from tony.model.ids import TaskId
from tony.model.setting_choices import FailurePolicy, RoleKind, StopOn
from tony.model.states import TaskState

#: Why a session fails although each failure was tolerated.
ALL_FAILED = "every tracked task failed"


class Effect(Enum):
    """The consequence of a task's failure."""

    TOLERATE = "tolerate"
    FAIL_SESSION = "fail-session"  #: the restart policy decides next
    FAIL_JOB = "fail-job"
    FAIL_ALL = "fail-all"  #: every tracked task has failed: the session fails with the first of these failures


@dataclass(frozen=True, slots=True)
class FailureDecision:
    """An effect and its reason."""

    effect: Effect
    reason: str


def decide_on_failure(state: State, task: TaskId) -> FailureDecision:
    """Return what the failure of `task`, already counted in its role, means.

    `stop_on_failure` ends the job under every policy. Sidecars matter only under `any-task`. A failure of an untracked
    or a setup role fails the session under every policy. For tracked roles see `FailurePolicy`; `chief-or-all` is the
    rule of LinkedIn TonY, including that it tolerates no task whose program could not be started: the others have its
    address, or wait for it.
    """
    role = state.roles[task.role]
    policy = state.spec.failure_policy
    if role.spec.stop_on_failure:
        return FailureDecision(Effect.FAIL_JOB, f"{task.role} has stop_on_failure")
    if policy is FailurePolicy.ANY_TASK:
        return FailureDecision(Effect.FAIL_SESSION, 'failure_policy = "any-task": any failure counts')
    if role.kind is RoleKind.SIDECAR:
        return FailureDecision(Effect.TOLERATE, f"{task.role} is a sidecar")
    if role.kind is RoleKind.SETUP:
        return FailureDecision(
            Effect.FAIL_SESSION, f"{task.role} is a setup role: nothing else starts without its success"
        )
    if role.kind is RoleKind.UNTRACKED:
        return FailureDecision(Effect.FAIL_SESSION, f"{task.role} is untracked: not waited for, but its failure counts")
    if policy is FailurePolicy.ANY_TRACKED:
        return FailureDecision(Effect.FAIL_SESSION, f"{task.role} is tracked: every one of its tasks must succeed")
    return _decide_chief_or_all(state, task)


def _decide_chief_or_all(state: State, task: TaskId) -> FailureDecision:
    if state.tasks[task].session != state.session:
        return FailureDecision(Effect.FAIL_SESSION, f"{task} was never started")
    chief = state.chief
    if chief and (task == chief or task.role == chief.role == "chief"):
        return FailureDecision(Effect.FAIL_SESSION, f"{task} is the chief")
    if any(_may_succeed(role) for role in state.roles.values()):
        return FailureDecision(Effect.TOLERATE, 'failure_policy = "chief-or-all": others may still succeed')
    return FailureDecision(Effect.FAIL_ALL, ALL_FAILED)


def _may_succeed(role: RoleState) -> bool:
    """Return True if the role is tracked and one of its tasks has succeeded or still may."""
    return role.kind is RoleKind.TRACKED and (role.finished or role.ended < role.total or role.succeeded > 0)


def find_success(state: State) -> Success | None:
    """Return the success, if the job has succeeded now. Reads counters only: O(number of roles).

    With `stop_on = "chief"` the chief's success is enough. Otherwise every tracked task must have ended, and one must
    have succeeded; a failure that the failure policy does not tolerate has ended the session before.
    """
    if state.suspects:
        return None
    chief = state.chief
    if state.spec.stop_on is StopOn.CHIEF and chief and state.tasks[chief].state is TaskState.SUCCEEDED:
        return Success(rule=f'{chief} succeeded and stop_on = "chief"')
    tracked = [role for role in state.roles.values() if role.kind is RoleKind.TRACKED]
    if not all(role.finished or role.ended == role.total for role in tracked) or has_all_failed(state):
        return None
    failed = sum(role.ended - role.succeeded for role in tracked if not role.finished)
    rule = f"every tracked task has ended, {failed} failure(s) tolerated" if failed else "every tracked task succeeded"
    return Success(rule=rule)


def has_all_failed(state: State) -> bool:
    """Return True if every tracked task has ended, none with success. False if no tracked role is left."""
    tracked = [role for role in state.roles.values() if role.kind is RoleKind.TRACKED]
    return bool(tracked) and not any(role.finished or role.succeeded or role.ended < role.total for role in tracked)

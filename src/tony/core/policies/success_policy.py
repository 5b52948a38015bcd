"""Decides when a job has succeeded."""

from __future__ import annotations

from tony.core.reasons import Success
from tony.core.state import State
from tony.model.setting_choices import RoleKind, StopOn
from tony.model.states import TaskState


def judge(state: State) -> Success | None:
    """Return the success, if the job has succeeded now. Reads counters only: O(number of roles).

    With `stop_on = "chief"` the chief's success is enough. Otherwise every tracked task must have ended, and one must
    have succeeded; a failure that the failure policy does not tolerate has ended the session before.
    """
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

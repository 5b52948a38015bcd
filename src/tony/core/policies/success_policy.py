"""When a job has succeeded."""

from __future__ import annotations

from tony.core.state import RoleState, State
from tony.dataclass import dataclass
from tony.model.states import RoleKind, StopOn, TaskState


@dataclass(frozen=True, slots=True)
class Success:
    """The job has succeeded; `reason` says by what rule."""

    reason: str


def judge(state: State) -> Success | None:
    """Whether the job has succeeded now. Reads counters only: O(number of roles).

    With `stop_on = "chief"` the chief's success is enough. Otherwise every tracked task must be over, and one of them
    must have succeeded; failures that the failure policy did not tolerate have ended the session before this is asked.
    """
    chief = state.chief
    if state.spec.stop_on is StopOn.CHIEF and chief and state.tasks[chief].state is TaskState.SUCCEEDED:
        return Success(f'{chief} succeeded and stop_on = "chief"')
    tracked = [role for role in state.roles.values() if role.kind is RoleKind.TRACKED]
    if not all(_over(role) for role in tracked) or all_failed(state):
        return None
    failed = sum(role.ended - role.succeeded for role in tracked if not role.finished)
    return Success(
        f"every tracked task is over, {failed} failure(s) tolerated" if failed else "every tracked task succeeded"
    )


def all_failed(state: State) -> bool:
    """Whether every tracked task is over, and none has succeeded. There may be no tracked one left: then not."""
    tracked = [role for role in state.roles.values() if role.kind is RoleKind.TRACKED]
    return bool(tracked) and not any(role.finished or role.succeeded or role.ended < role.total for role in tracked)


def _over(role: RoleState) -> bool:
    return role.finished or role.ended == role.total

"""The machine that decides. One door: `Application.handle(event, now) -> actions`.

Rules that hold everywhere below:

- An event from outside may be late, doubled, or about something that is gone. It then changes nothing and is counted.
- Stop(n) and its proof come before Start(n + 1): a session opens only when no program of the one before can live.
- Deciding is the policies' work (`core/policies/`); the steps (`core/steps/`) make moves and actions of it.
- Handling is O(1), or O(what changed). Only opening, publishing and ending a session walk over all tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tony.core import events as ev
from tony.core.actions import Action, WakeAt
from tony.core.reattach import reattach_actions
from tony.core.state import State
from tony.core.state_digest import digest
from tony.core.step_context import StepContext
from tony.core.steps import (
    am_attempts,
    container_loss,
    containers,
    deadlines,
    elastic_start,
    executor_reports,
    failure_handling,
    gang_start,
    job_finish,
    node_exclusion,
    session_start,
    user_commands,
)
from tony.errors import ExitCode
from tony.model.ids import TaskId
from tony.model.job_spec import JobSpec


def _nothing(turn: StepContext, event: ev.Event) -> None:
    """It is for whoever reads the log or replays it; here nothing follows."""


_HANDLERS: Mapping[type[ev.Event], Callable[[StepContext, Any], None]] = {
    ev.AttemptStarted: am_attempts.started,
    ev.ContainersFound: am_attempts.containers_found,
    ev.ReconcileClosed: am_attempts.reconcile_closed,
    ev.SessionOpened: session_start.opened,
    ev.Gathered: _nothing,
    ev.Judged: _nothing,
    ev.Queued: containers.queued,
    ev.Unsatisfiable: failure_handling.unsatisfiable,
    ev.Excluded: node_exclusion.excluded,
    ev.Granted: elastic_start.granted,
    ev.Registered: gang_start.registered,
    ev.Started: executor_reports.started,
    ev.FirstOutput: executor_reports.first_output,
    ev.Exited: executor_reports.exited,
    ev.ContainerEnded: container_loss.container_ended,
    ev.ActionFailed: container_loss.action_failed,
    ev.Silent: container_loss.silent,
    ev.Deadline: deadlines.deadline,
    ev.UserCommand: user_commands.user_command,
    ev.Snapshot: _nothing,
}


class Application:
    """One job's life.

    Args:
        job_id: seeds the jitter, nothing else.
        spec: the resolved job.
    """

    def __init__(self, job_id: str, spec: JobSpec) -> None:
        self.state = State(job_id, spec)
        self._woken: tuple[float, str] | None = None

    def handle(self, event: ev.Event, now: float) -> list[Action]:
        """Takes one event at time `now` (seconds since the job was accepted) and answers what to do, in order.

        Raises:
            InvalidTransition: the shell fed something that cannot be (an attempt that does not rise, a session that
                nobody asked for). The state is unchanged.
        """
        turn = StepContext(self.state, now)
        _HANDLERS[type(event)](turn, event)
        if isinstance(event, ev.AttemptStarted):
            self._woken = None  # whoever was to wake us may be dead
        self.state.latest = now
        wake = self.state.timers.next()
        if wake and wake != self._woken:
            turn.ask(WakeAt(at=wake[0], name=wake[1]))
        self._woken = wake
        return turn.actions

    def accepts(self, task: TaskId, container: str, incarnation: str) -> bool:
        """Whether an executor that says it is `task` in `container` may speak for it. Reads only."""
        return gang_start.is_current_executor(self.state, task, container, incarnation)

    def wanted(self, container: str, incarnation: str) -> list[Action]:
        """What to tell an executor that was accepted and comes (back) on a new connection. Reads only."""
        return reattach_actions(self.state, container, incarnation)

    def digest(self) -> str:
        """Says in few bytes where the job stands: equal states, equal digests, in every process."""
        return digest(self.state)

    @property
    def exit_code(self) -> ExitCode | None:
        """What a follower's command line answers; None until the job has ended."""
        return job_finish.exit_code(self.state)

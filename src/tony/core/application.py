"""The state machine. One entry point: `Application.handle(event, now) -> actions`.

Rules that hold everywhere below:

- An event from outside may be late, duplicated, or about something that no longer exists. It is then counted and
  changes nothing.
- Stop(n) and its proof come before Start(n + 1): a session opens only when no program of the previous one can run.
- Policies (`core/policies/`) decide; steps (`core/steps/`) turn decisions into transitions and actions.
- Handling is O(1), or O(what changed). Only opening, publishing and ending a session walk over all tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tony.core import actions as act
from tony.core import events as ev
from tony.core.actions import Action, WakeAt
from tony.core.deadline import Deadline
from tony.core.state import State, Task
from tony.core.state_digest import compute_digest
from tony.core.step_context import StepContext
from tony.core.steps import (
    am_attempts,
    container_demand,
    container_loss,
    deadlines,
    executor_reports,
    failure_handling,
    gang,
    job_finish,
    node_exclusion,
    session_restart,
    session_start,
    stalls,
)
from tony.errors import ExitCode
from tony.model.ids import TaskId
from tony.model.job_spec import JobSpec
from tony.model.states import JobState, TaskState


def _ignore(ctx: StepContext, event: ev.Event) -> None:
    """Ignore an event that is only for readers of the log."""


def _start_remote_program(ctx: StepContext, event: ev.RemoteProgramRequested) -> None:
    """Start a user's program next to a task's own: an action, so that the log has the request first."""
    ctx.request(act.StartRequestedProgram(number=event.number))


_HANDLERS: Mapping[type[ev.Event], Callable[[StepContext, Any], None]] = {
    ev.AttemptStarted: am_attempts.on_started,
    ev.ContainersFound: am_attempts.on_containers_found,
    ev.ReconcileClosed: am_attempts.on_reconcile_closed,
    ev.SessionOpened: session_start.on_opened,
    ev.GangSizeSet: _ignore,
    ev.FailureClassified: _ignore,
    ev.Queued: container_demand.on_queued,
    ev.Unsatisfiable: failure_handling.on_unsatisfiable,
    ev.Excluded: node_exclusion.on_excluded,
    ev.Granted: gang.on_granted,
    ev.Registered: gang.on_registered,
    ev.Started: executor_reports.on_started,
    ev.FirstOutput: executor_reports.on_first_output,
    ev.Exited: executor_reports.on_exited,
    ev.ContainerEnded: container_loss.on_container_ended,
    ev.ActionFailed: container_loss.on_action_failed,
    ev.Silent: container_loss.on_silent,
    ev.Stalled: stalls.on_stalled,
    ev.StallEnded: stalls.on_stall_ended,
    ev.StragglerFound: stalls.on_straggler_found,
    ev.StragglerEnded: stalls.on_straggler_ended,
    ev.DeadlinePassed: deadlines.on_deadline,
    ev.KillRequested: job_finish.on_kill,
    ev.RestartRequested: session_restart.on_restart,
    ev.StacksRequested: _ignore,
    ev.RemoteProgramRequested: _start_remote_program,
    ev.LogLevelRequested: _ignore,
    ev.Snapshot: _ignore,
}


class Application:
    """The state machine of one job.

    Args:
        job_id: seeds the jitter, nothing else.
        spec: the resolved job.
        on_moved: called with each task whose state has changed.
    """

    def __init__(self, job_id: str, spec: JobSpec, on_moved: Callable[[Task], None] | None = None) -> None:
        self.state = State(job_id, spec, on_moved)
        self._last_wake: tuple[float, Deadline] | None = None

    def handle(self, event: ev.Event, now: float) -> list[Action]:
        """Handle one event at time `now` (seconds since the job was accepted) and return the actions, in order.

        Raises:
            InvalidTransitionError: an impossible event (an AM attempt that does not rise, a session that was not
                requested).
                The state is unchanged.
        """
        ctx = StepContext(self.state, now)
        _HANDLERS[type(event)](ctx, event)
        if isinstance(event, ev.AttemptStarted):
            self._last_wake = None  # the timer belonged to the previous AM attempt
        self.state.latest = now
        wake = self.state.timers.find_next()
        if wake and wake is not self._last_wake:
            ctx.request(WakeAt(at=wake[0], deadline=wake[1]))
        self._last_wake = wake
        return ctx.actions

    def accepts(self, task: TaskId, container: str, incarnation: str) -> bool:
        """Return True if the executor that claims to be `task` in `container` is the current one. Reads only."""
        return gang.is_current_executor(self.state, task, container, incarnation)

    def find_reattach_actions(self, container: str, incarnation: str) -> list[Action]:
        """Return the actions for an accepted executor that has (re)connected. Reads only.

        Messages to it may have been lost; repeated ones are harmless.
        """
        state = self.state
        held = state.containers[container]
        if held.is_released or held.task is None:
            return [act.Release(container=container)]
        task = state.tasks[held.task]
        if task.state is TaskState.RUNNING:
            return [_start(state, task)]
        if task.state is TaskState.STOPPING:
            spec = state.spec
            grace_of = spec.restart_grace_of if state.job is JobState.RESTARTING else spec.stop_grace_of
            stop = act.Stop(task=task.id, session=task.session, try_=task.try_, grace=grace_of(task.id.role))
            # The Start may have been lost: after a Stop it starts nothing, but makes the executor report the exit.
            return [stop, _start(state, task)]
        if task.state is TaskState.STARTING and task.incarnation == incarnation:
            return [act.Renew(task=task.id, session=state.session)]
        return []

    def compute_digest(self) -> str:
        """Return a short digest of the state: equal states have equal digests, in every process."""
        return compute_digest(self.state)

    @property
    def exit_code(self) -> ExitCode | None:
        """The exit code for clients that follow the job; None until the job has ended."""
        return job_finish.exit_code(self.state)


def _start(state: State, task: Task) -> act.Start:
    variables = state.collect_variables(task.id.role)
    return act.Start(task=task.id, session=task.session, try_=task.try_, version=task.version, variables=variables)

"""Times that have come. A deadline's name is what it limits, for a task or a role with `:` and who."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from tony.core import events as ev
from tony.core import failure_text
from tony.core.policies import gang_size_policy
from tony.core.step_context import StepContext
from tony.core.steps import (
    am_attempts,
    container_loss,
    elastic_start,
    failure_handling,
    gang_deadlock,
    gang_start,
    job_finish,
    node_exclusion,
    program_stop,
    role_readiness,
    session_restart,
    task_exit,
    unconfirmed_exit,
)
from tony.model.ids import TaskId
from tony.model.states import JobState, OnTimeout, RoleKind
from tony.units import format_duration


def deadline(turn: StepContext, event: ev.Deadline) -> None:
    """Does what is due; one that was moved, cancelled or is early does nothing."""
    if turn.state.timers.pop_due(event.name, turn.now) and not am_attempts.put_off(turn, event.name):
        kind, _, who = event.name.partition(":")
        _DUE[kind](turn, who)


def _task_is_late(kind: str, turn: StepContext, who: str) -> None:
    task = turn.state.tasks[TaskId.parse(who)]
    if task.outside is not None:
        task_exit.handle_external_stop(turn, task)
    elif task.gone_at is not None:
        task_exit.lost(turn, task)
    elif not task.judged:
        task_exit.fault(turn, task, failure_text.failure_from_timeout(turn.state, task, kind, turn.now))


def _on_report_timeout(turn: StepContext, who: str) -> None:
    task_exit.lost(turn, turn.state.tasks[TaskId.parse(who)])


def _nobody_said_who(turn: StepContext, who: str) -> None:
    task_exit.handle_external_stop(turn, turn.state.tasks[TaskId.parse(who)])


def _starts_again(turn: StepContext, who: str) -> None:
    gang_start.go_on(turn, turn.state.tasks[TaskId.parse(who)])


def _host_is_forgiven(turn: StepContext, who: str) -> None:
    node_exclusion.forgive(turn, who)


def _lease_is_over(turn: StepContext, who: str) -> None:
    end = unconfirmed_exit.ended(turn, turn.state.tasks[TaskId.parse(who)])
    if end:
        container_loss.container_ended(turn, end)


def _role_is_late(turn: StepContext, who: str) -> None:
    role = turn.state.roles[who]
    rule = role.spec.timeout_after
    if rule is None or not turn.state.active or role.ended == role.total:
        return
    if rule.on_timeout is OnTimeout.FAIL:
        failure_handling.of_group(turn, role, rule)
        return
    if role.kind is RoleKind.TRACKED:
        role.kind = RoleKind.UNTRACKED
    role_readiness.advance(turn)


def _job_is_late(kind: str, turn: StepContext, who: str) -> None:
    failure_handling.of_job(turn, failure_text.failure_from_job_timeout(turn.state, kind, turn.now))


def _containers_are_late(turn: StepContext, who: str) -> None:
    limit = format_duration(turn.state.spec.timeouts.allocation or 0)
    if not elastic_start.start_with_fewer(turn, f"within {limit} (allocation_timeout)"):
        _job_is_late("allocation", turn, who)


def _on_gang_timeout(turn: StepContext, who: str) -> None:
    elastic_start.waited(turn)


def _next_session_is_due(turn: StepContext, who: str) -> None:
    session_restart.delay_is_over(turn)


def _stop_was_not_proved(turn: StepContext, who: str) -> None:
    program_stop.force(turn)


def _force_was_not_proved(turn: StepContext, who: str) -> None:
    program_stop.force(turn)
    if turn.state.job is JobState.STOPPING:
        job_finish.abandon(turn)


def _no_other_came(turn: StepContext, who: str) -> None:
    gang_deadlock.release_partial_gang(turn)


def _gang_asks_again(turn: StepContext, who: str) -> None:
    gang_deadlock.ask_again(turn)


_DUE: Mapping[str, Callable[[StepContext, str], None]] = {
    "registration": partial(_task_is_late, "registration"),
    "startup": partial(_task_is_late, "startup"),
    "execution": partial(_task_is_late, "execution"),
    "report": _on_report_timeout,
    "word": _nobody_said_who,
    "again": _starts_again,
    "include": _host_is_forgiven,
    "lease": _lease_is_over,
    "group": _role_is_late,
    "allocation": _containers_are_late,
    "job": partial(_job_is_late, "job"),
    "gang-patience": _no_other_came,
    "gang-pause": _gang_asks_again,
    gang_size_policy.FIRST: _on_gang_timeout,
    gang_size_policy.LATER: _on_gang_timeout,
    gang_size_policy.SOON: _on_gang_timeout,
    "restart": _next_session_is_due,
    "stop-limit": _stop_was_not_proved,
    "force-limit": _force_was_not_proved,
}

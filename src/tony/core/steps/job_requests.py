"""Requests of users, signals and the scheduler: kill, restart. All others are only logged."""

from __future__ import annotations

from dataclasses import replace

from tony.core import events as ev
from tony.core import failures
from tony.core.step_context import StepContext
from tony.core.steps import job_finish, program_stop, session_restart
from tony.model.job_report import FailureCause, FailureClass
from tony.model.states import JobState


def on_restart(ctx: StepContext, event: ev.RestartRequested) -> None:
    """End this session and begin the next one, if there is one to restart."""
    if ctx.state.may_be_restarted:
        session_restart.restart_on_request(ctx, f"restart requested by {event.actor}")


def on_kill(ctx: StepContext, event: ev.KillRequested) -> None:
    """Kill the job; `now` on a job that is stopping skips the stop grace."""
    state = ctx.state
    if state.job.ended:
        return
    reason = f"killed by {event.actor}"
    grace = 0.0 if event.now else None
    if not state.final:
        failure = failures.failure_from_job(state, FailureCause.KILLED, FailureClass.KILLED, reason, ctx.now)
        job_finish.finish(ctx, JobState.KILLED, replace(failure, actor=event.actor), reason, grace)
    elif grace is not None:
        program_stop.stop_all(ctx, reason, grace)

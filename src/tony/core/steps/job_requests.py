"""Requests of users, signals and the scheduler: kill, restart. All others are only logged."""

from __future__ import annotations

from tony.core import events as ev
from tony.core import failure_builders
from tony.core.step_context import StepContext
from tony.core.steps import job_finish, program_stop, session_restart
from tony.model.states import JobState


def on_restart(ctx: StepContext, event: ev.RestartRequested) -> None:
    """End this session and begin the next one, if there is one to restart."""
    if ctx.state.may_be_restarted:
        session_restart.restart_on_request(ctx, event.actor)


def on_kill(ctx: StepContext, event: ev.KillRequested) -> None:
    """Kill the job; `now` on a job that is stopping skips the stop grace."""
    state = ctx.state
    if state.job.ended:
        return
    killed = failure_builders.failure_from_kill(state, event.actor, ctx.now)
    grace = 0.0 if event.now else None
    if not state.final:
        job_finish.finish(ctx, JobState.KILLED, killed, grace)
    elif grace is not None:
        program_stop.stop_all(ctx, killed, grace)

"""User requests: kill, restart. All others are only logged."""

from __future__ import annotations

from tony.core import events as ev
from tony.core import failures
from tony.core.step_context import StepContext
from tony.core.steps import job_finish, program_stop, session_restart
from tony.model.job_report import FailureClass
from tony.model.states import JobState


def on_user_command(ctx: StepContext, event: ev.UserCommand) -> None:
    """Handle the request of a user."""
    if event.what in ("kill", "kill-now"):
        _kill(ctx, event)
    elif event.what == "restart" and ctx.state.may_be_restarted:
        session_restart.restart_on_request(ctx, f"restart requested by {event.actor}")


def _kill(ctx: StepContext, event: ev.UserCommand) -> None:
    """Kill the job; `kill-now` on a job that is stopping skips the stop grace."""
    state = ctx.state
    if state.job.ended:
        return
    reason = f"killed by {event.actor}"
    grace = 0.0 if event.what == "kill-now" else None
    if not state.final:
        failure = failures.failure_from_job(state, "killed", FailureClass.KILLED, reason, ctx.now)
        job_finish.finish(ctx, JobState.KILLED, failure, reason, grace)
    elif grace is not None:
        program_stop.stop_all(ctx, reason, grace)

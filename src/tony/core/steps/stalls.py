"""Handles a session whose programs make no progress: it is reported, restarts, or the job fails (`on_stall`)."""

from __future__ import annotations

from tony.core import events as ev
from tony.core import failure_builders
from tony.core.step_context import StepContext
from tony.core.steps import failure_handling
from tony.model.setting_choices import OnStall
from tony.model.states import JobState


def on_stalled(ctx: StepContext, event: ev.Stalled) -> None:
    """Handle that the programs of a session stalled; of an ended session it means nothing."""
    state = ctx.state
    if event.session != state.session or state.job is not JobState.RUNNING:
        state.refused += 1
        return
    state.stall = event
    action = state.spec.on_stall
    if action is OnStall.REPORT:
        return
    failure = failure_builders.failure_from_stall(state, event, ctx.now)
    if action is OnStall.FAIL:
        failure_handling.fail_job(ctx, failure, 'on_stall = "fail"')
    else:
        failure_handling.restart_session(ctx, failure, 'on_stall = "restart"')


def on_stall_ended(ctx: StepContext, event: ev.StallEnded) -> None:
    """Handle that a program continued."""
    state = ctx.state
    if state.stall and state.stall.session == event.session:
        state.stall = None

"""Handles a session whose programs make no progress: it is reported, restarts, or the job fails (`on_stall`).

Slow tasks are only reported.
"""

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


def on_straggler_found(ctx: StepContext, event: ev.StragglerFound) -> None:
    """Handle that a task is slow; of an ended task attempt it means nothing."""
    task = ctx.state.tasks.get(event.task)
    if task is None or (task.session, task.try_) != (event.session, event.try_):
        ctx.state.refused += 1
        return
    ctx.state.stragglers[event.task] = event


def on_straggler_ended(ctx: StepContext, event: ev.StragglerEnded) -> None:
    """Handle that a task is as fast as the others again."""
    found = ctx.state.stragglers.get(event.task)
    if found and found.session == event.session:
        del ctx.state.stragglers[event.task]

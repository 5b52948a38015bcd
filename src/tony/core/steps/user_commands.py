"""What people ask for: an end, or another session. Whatever else they ask for stands in the log and decides nothing."""

from __future__ import annotations

from tony.core import events as ev
from tony.core import failure_text
from tony.core.step_context import StepContext
from tony.core.steps import job_finish, program_stop, session_restart
from tony.model.job_report import FailureClass
from tony.model.states import JobState


def user_command(turn: StepContext, event: ev.UserCommand) -> None:
    """Somebody asks for something."""
    if event.what in ("kill", "kill-now"):
        _kill(turn, event)
    elif event.what == "restart" and turn.state.may_be_restarted:
        session_restart.ordered(turn, f"{event.actor} asked for a restart")


def _kill(turn: StepContext, event: ev.UserCommand) -> None:
    """Somebody kills the job; a second time, without patience."""
    state = turn.state
    if state.job.ended:
        return
    reason = f"killed by {event.actor}"
    grace = 0.0 if event.what == "kill-now" else None
    if not state.final:
        failure = failure_text.failure_from_job(state, "killed", FailureClass.KILLED, reason, turn.now)
        job_finish.finish(turn, JobState.KILLED, failure, reason, grace)
    elif grace is not None:
        program_stop.stop_all(turn, reason, grace)

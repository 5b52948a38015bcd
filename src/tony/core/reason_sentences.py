"""Make the sentences of restarts, stops and notes of tasks; failures have `core/failure_sentences.py`."""

from __future__ import annotations

from typing import assert_never

from tony.core.reasons import (
    ContainerLost,
    GangReleased,
    LaterAttempt,
    LeftOutForLackOfContainers,
    LeftOutForOtherRoles,
    MissingExports,
    ProgramUnreachable,
    RestartAfterFailure,
    RestartOnRequest,
    RestartReason,
    StopReason,
    Success,
    TaskFailed,
    TaskNote,
)
from tony.model.exit_status import ExitStatus
from tony.model.job_report import Failure
from tony.units import format_duration


def describe_opening(reason: RestartReason | None) -> str:
    """Return why a session opens.

    Args:
        reason: None for the first session.
    """
    return describe_restart(reason) if reason else "the job starts"


def describe_restart(reason: RestartReason) -> str:
    """Return why a task or the gang restarts."""
    match reason:
        case RestartAfterFailure(failure=failure, decision=decision):
            return f"{failure.reason} ({decision})"
        case RestartOnRequest(actor=actor):
            return f"restart requested by {actor}"
        case _:
            assert_never(reason)


def describe_stop(reason: StopReason | None) -> str:
    """Return why a program is stopped.

    Args:
        reason: None if the stop is only repeated.
    """
    match reason:
        case None:
            return "stopping"
        case Failure(reason=sentence):
            return sentence
        case Success(rule=rule):
            return rule
        case _:
            return describe_restart(reason)


def describe_note(note: TaskNote | None) -> str:
    """Return what users should know about a task; empty if there is nothing."""
    match note:
        case None:
            return ""
        case ContainerLost(cause=cause):
            return cause
        case GangReleased():
            return "its container was released: the gang was incomplete"
        case LeftOutForLackOfContainers(session=session, limit=limit, setting=setting):
            return f"left out of session {session}: no container within {format_duration(limit)} ({setting})"
        case LeftOutForOtherRoles(session=session, minimum=minimum):
            return f"left out of session {session}: its container was needed for other roles (min = {minimum})"
        case ExitStatus():
            return note.describe()
        case MissingExports(status=status, variables=missing):
            lacks = (_describe_missing_export(name, text) for name, text in missing)
            return "; ".join([status.describe(), *lacks])
        case TaskFailed(failure=failure):
            return failure.reason
        case ProgramUnreachable(failure=failure, seconds=seconds):
            return f"{failure.reason}; its program may keep running there for another {format_duration(seconds)}"
        case RestartAfterFailure():
            return describe_restart(note)
        case LaterAttempt(number=number, before=before):
            return f"task attempt {number}, after: {describe_note(before)}"
        case _:
            assert_never(note)


def _describe_missing_export(name: str, text: str) -> str:
    return f"no line of its output contains {text!r}, so {name} is not set (exports)"

"""Make the sentence of a failure from its cause and facts; nothing else words failures."""

from __future__ import annotations

from typing import assert_never

from tony.model.failure_facts import (
    AllocationFacts,
    ContainerFacts,
    ContainerLoss,
    ExitFacts,
    FailureFacts,
    GroupTimeoutFacts,
    MessageFacts,
    SilenceFacts,
    TimeoutFacts,
)
from tony.model.ids import TaskId
from tony.model.job_report import FailureCause
from tony.units import format_duration

#: The cause of an external stop until the scheduler reports it.
_UNKNOWN_STOP = "its executor received a stop signal that the AM did not send"


def describe_failure(
    cause: FailureCause,
    facts: FailureFacts,
    who: str | None = None,
    host: str | None = None,
    exit_code: int | None = None,
    signal: str | None = None,
) -> str:
    """Return one sentence for users.

    Args:
        who: the task; None if it was no single one.
    """
    location = f" on {host}" if host else ""
    match facts:
        case ExitFacts(exit_message=message):
            return f"{who} {_describe_exit(cause, message, exit_code, signal)}{location}"
        case ContainerFacts():
            return _describe_container(facts, who, location)
        case SilenceFacts(silence=silence):
            return f"no heartbeat from {who} for {silence:.0f} s (heartbeat_timeout)"
        case GroupTimeoutFacts(group=group, limit=limit, was_running=was_running):
            still = "was still running" if was_running else "had not started"
            role = TaskId.parse(who or "").role
            after = f"{format_duration(limit)} after every task of group {group} had ended"
            return f"{who} {still} {after} (roles.{role}.timeout_after)"
        case AllocationFacts(pending=pending, releases=releases, queue=queue, limit=limit):
            released = f"released {releases} times so far (gang_patience)" if releases else ""
            known = "; ".join(filter(None, [pending, released, queue]))
            within = f"not every container was granted within {format_duration(limit)} (allocation_timeout)"
            return f"{within}: {known}" if known else within
        case TimeoutFacts(limit=limit):
            return _describe_timeout(cause, who, format_duration(limit))
        case MessageFacts(message=message):
            return message
        case _:
            assert_never(facts)


def _describe_exit(cause: FailureCause, message: str, exit_code: int | None, signal: str | None) -> str:
    if cause is FailureCause.MEMORY:
        return message
    if message:
        return f"failed: {message}"
    return f"was killed by {signal}" if signal else f"failed with exit code {exit_code}"


def _describe_container(facts: ContainerFacts, who: str | None, location: str) -> str:
    end = facts.end
    match facts.container:
        case ContainerLoss.STOPPED:
            return f"{who} was stopped externally: {end or _UNKNOWN_STOP}{location}"
        case ContainerLoss.OUT_OF_MEMORY:
            return f"{who} failed{location}: {end}"
        case ContainerLoss.LOST:
            return f"{who} was lost: {end}"
        case ContainerLoss.NOT_STARTED:
            ended = f"{facts.launches} containers of {who} ended before its program was started"
            return f"{ended}; the last one: {end}"
        case ContainerLoss.NOT_RESTARTED:
            return f"{who} lost its container before it could restart: {end}"


def _describe_timeout(cause: FailureCause, who: str | None, limit: str) -> str:
    if cause is FailureCause.REGISTRATION_TIMEOUT:
        return f"{who} did not register within {limit} (registration_timeout) after its container was granted"
    if cause is FailureCause.STARTUP_TIMEOUT:
        return (
            f"{who} printed nothing within {limit} (startup_timeout) after its program started; "
            "most frameworks wait forever for a peer that does not connect"
        )
    if cause is FailureCause.EXECUTION_TIMEOUT:
        return f"{who} ran longer than {limit} (execution_timeout)"
    return f"the job ran longer than {limit} (job_timeout)"

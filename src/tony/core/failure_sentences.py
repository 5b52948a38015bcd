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
#: The host of every task of a local job; naming it tells nothing.
_LOCAL_HOST = "127.0.0.1"


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
    match facts:
        case ExitFacts(exit_message=message):
            return f"{_locate(who, host)}: {message or (f'killed by {signal}' if signal else f'exit code {exit_code}')}"
        case ContainerFacts():
            return _describe_container(facts, who, host)
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


def _locate(who: str | None, host: str | None) -> str:
    return f"{who} on {host}" if host and host != _LOCAL_HOST else f"{who}"


def _describe_container(facts: ContainerFacts, who: str | None, host: str | None) -> str:
    end = facts.end
    match facts.container:
        case ContainerLoss.STOPPED:
            return f"{_locate(who, host)} was stopped externally: {end or _UNKNOWN_STOP}"
        case ContainerLoss.OUT_OF_MEMORY:
            return f"{_locate(who, host)}: {end}"
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

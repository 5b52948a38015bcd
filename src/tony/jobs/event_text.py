"""Format events for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from tony.core import events as ev
from tony.core.deadline import DeadlineKind
from tony.core.sentences import format_sizes
from tony.units import format_duration

#: Events that only recovery and replay need.
INTERNAL_EVENTS = (ev.ContainersFound, ev.ReconcileClosed, ev.Snapshot)
#: Names of events for people, where their kind in the log is a word of the code.
_NAMES = {"judged": "decided", "granted": "allocated"}
#: Explanations of deadlines.
_DEADLINES: Mapping[DeadlineKind, str] = {
    DeadlineKind.GANG_PATIENCE: ": no further container was granted in time, and some are still missing",
    DeadlineKind.GANG_PAUSE: ": the gang requests all missing containers again",
    DeadlineKind.GANG_WAIT: ": time is up; the gang starts without the missing tasks if enough are there",
    DeadlineKind.GANG_SOON: ": no further container was granted meanwhile",
    DeadlineKind.SHRINK_AFTER: ": time is up; the gang starts without the missing tasks if enough are there",
}


class EventWords:
    """Formats a job's events in order, tracking which task runs in which container."""

    def __init__(self) -> None:
        self._tasks: dict[str, str] = {}

    def describe(self, event: ev.Event) -> str:
        """Describe an event, without its kind."""
        text = describe(event)
        if isinstance(event, ev.Registered):
            self._tasks[event.container] = str(event.task)
        elif isinstance(event, ev.ContainerEnded) and event.container in self._tasks:
            text = f"{self._tasks.pop(event.container)} in {text}"
        return text


def name_event(event: ev.Event) -> str:
    """Return the name of an event for people."""
    return _NAMES.get(event.kind, event.kind)


def _format_exports(values: Mapping[str, str | None]) -> str:
    """Format the names of exported variables and of missing ones; not their values, which may be long."""
    given = [name for name, value in values.items() if value is not None]
    missing = [name for name, value in values.items() if value is None]
    text = f"; exports {', '.join(given)}" if given else ""
    return f"{text}; printed nothing for {', '.join(missing)}" if missing else text


def describe(event: ev.Event) -> str:
    """Describe an event, without its kind."""
    match event:
        case ev.AttemptStarted():
            return f"AM attempt {event.attempt}: pid {event.pid} on {event.host}"
        case ev.ContainersFound():
            return f"{len(event.containers)} containers of earlier AM attempts" if event.containers else "none"
        case ev.ReconcileClosed():
            return ""
        case ev.Queued():
            return event.reason or "no longer"
        case ev.Unsatisfiable():
            return f"{event.role}: {event.reason}"
        case ev.Excluded():
            hosts = ", ".join(event.hosts)
            return (
                f"no new containers on {hosts} for a while: tasks failed there" if hosts else "no host is excluded now"
            )
        case ev.Granted():
            return f"container {event.container} on {event.host} allocated to {event.role}"
        case ev.Registered():
            return f"{event.task} in {event.container} at {event.address} for session {event.session}"
        case ev.Started():
            return f"{event.task} runs, pid {event.pid} (session {event.session}, task attempt {event.try_})"
        case ev.FirstOutput():
            return f"{event.task} printed its first line"
        case ev.Exited():
            status = event.status
            ran = format_duration(status.duration)
            ended = f"{status.message}; it ran for {ran}" if status.message else f"{status.describe()} after {ran}"
            return f"{event.task} of session {event.session}: {ended}{_format_exports(event.exports)}"
        case ev.ContainerEnded():
            unseen = "; exit not confirmed" if event.is_unconfirmed else ""
            return f"{event.container}: {event.cause}{unseen}"
        case ev.Silent():
            return f"no heartbeat from {event.task} for {format_duration(event.silence)}"
        case ev.Stalled():
            return f"no further {event.what}: {event.reason}"
        case ev.StallEnded():
            return "the programs continue"
        case ev.StragglerFound():
            return f"{event.task}: {event.reason}"
        case ev.StragglerEnded():
            return f"{event.task} is as fast as the others again"
        case ev.SessionOpened():
            return f"session {event.session}: {event.reason}"
        case ev.GangSizeSet():
            return f"session {event.session} has {format_sizes(event.tasks, event.absent)}"
        case ev.FailureClassified():
            return f"{event.failure} -> {event.decision} ({event.reason})"
        case ev.JobRequest():
            return f"{event.actor} requested {event.what}"
        case ev.DeadlinePassed(deadline=deadline):
            return f"{deadline}{_DEADLINES.get(deadline.kind, '')}"
        case ev.ActionFailed():
            return f"{event.action} {event.task or event.container or ''}: {event.cause}"
        case ev.Snapshot():
            return f"state digest {event.digest[:12]}; a replay of this log must give the same"
        case _:
            assert_never(event)

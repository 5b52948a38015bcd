"""Events in words."""

from __future__ import annotations

from collections.abc import Mapping

from tony.core import events as ev
from tony.core.gang_size import sizes_text
from tony.units import format_duration

#: Deadlines whose names do not say it all.
_DEADLINES = {
    "gang-patience": "gang-patience: nothing more was granted, and containers are missing",
    "gang-pause": "gang-pause: the gang asks again for all that is missing",
    "gang-wait": "gang-wait: the wait is over; the gang goes without who has no container, if there are enough",
    "gang-soon": "gang-soon: no further container has come meanwhile",
    "shrink-after": "shrink-after: the wait is over; the gang goes without who has no container, if there are enough",
}


class EventWords:
    """Says a job's events in order, and remembers which task lives in which container."""

    def __init__(self) -> None:
        self._tasks: dict[str, str] = {}

    def of(self, event: ev.Event) -> str:
        """What happened, without its kind."""
        said = describe(event)
        if isinstance(event, ev.Registered):
            self._tasks[event.container] = str(event.task)
        elif isinstance(event, ev.ContainerEnded) and event.container in self._tasks:
            said = f"{self._tasks.pop(event.container)} in {said}"
        return said


def _exports(values: Mapping[str, str | None]) -> str:
    """Which variables a program handed on, and which it should have; not their values, which may be long."""
    given = [name for name, value in values.items() if value is not None]
    missing = [name for name, value in values.items() if value is None]
    said = f"; exports {', '.join(given)}" if given else ""
    return f"{said}; printed nothing for {', '.join(missing)}" if missing else said


def describe(event: ev.Event) -> str:
    """What happened, without its kind."""
    match event:
        case ev.AttemptStarted():
            return f"attempt {event.attempt}: application master with pid {event.pid} on {event.host}"
        case ev.ContainersFound():
            return f"{len(event.containers)} containers of earlier attempts" if event.containers else "none"
        case ev.Queued():
            return event.reason or "no longer"
        case ev.Unsatisfiable():
            return f"{event.role}: {event.reason}"
        case ev.Excluded():
            hosts = ", ".join(event.hosts)
            return f"nothing more on {hosts} for a while: tasks failed there" if hosts else "no host any more"
        case ev.Granted():
            return f"{event.role} gets {event.container} on {event.host}"
        case ev.Registered():
            return f"{event.task} at {event.address} for session {event.session} (executor {event.pid})"
        case ev.Started():
            return f"{event.task} runs, pid {event.pid} (session {event.session}, try {event.try_})"
        case ev.FirstOutput():
            return f"{event.task} printed its first line"
        case ev.Exited():
            status = event.status
            ran = format_duration(status.duration)
            ended = f"{status.message}; it ran for {ran}" if status.message else f"{status.describe()} after {ran}"
            return f"{event.task} of session {event.session}: {ended}{_exports(event.exports)}"
        case ev.ContainerEnded():
            unseen = "; nobody has seen it end" if event.presumed else ""
            return f"{event.container}: {event.cause}{unseen}"
        case ev.Silent():
            return f"nothing was heard of {event.task} for {format_duration(event.silence)}"
        case ev.SessionOpened():
            return f"session {event.session}: {event.reason}"
        case ev.Gathered():
            return f"session {event.session} has {sizes_text(event.tasks, event.absent)}"
        case ev.Judged():
            return f"{event.failure} -> {event.decision} ({event.reason})"
        case ev.UserCommand():
            return f"{event.actor} asked for {event.what}"
        case ev.Deadline():
            return _DEADLINES.get(event.name, event.name)
        case ev.ActionFailed():
            on = event.task or event.container or ""
            return f"{event.action} {on}: {event.cause}"
        case ev.Snapshot():
            return f"the state's digest is {event.digest[:12]}; a replay of this log must come to the same"
    return ""

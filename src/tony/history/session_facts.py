"""Reasons and sizes of a job's sessions, and its individual task restarts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from tony.core.events import Event, FailureClassified, FailureResponse, GangSizeSet, SessionOpened
from tony.errors import RecordError, StorageError
from tony.history.event_log import decode_entry, read_lines, segments
from tony.model.layout import JobFolder

E = TypeVar("E", bound=Event)
#: A job directory, to read the event log from; or events obtained elsewhere, at least those of `TELLING`.
EventSource = JobFolder | Sequence[Event]
TELLING: tuple[type[Event], ...] = (SessionOpened, GangSizeSet, FailureClassified)


def read_session_sizes(source: EventSource) -> dict[int, GangSizeSet]:
    """Return session -> number of tasks it started with, for jobs with elastic roles."""
    found: dict[int, GangSizeSet] = {}
    for event in _events(source, GangSizeSet):
        known = found.get(event.session)
        if known:  # a later role of the same session started
            event = replace(event, tasks={**known.tasks, **event.tasks}, absent={**known.absent, **event.absent})
        found[event.session] = event
    return found


def read_session_reasons(source: EventSource) -> dict[int, str]:
    """Return session -> why it started; invalid lines of the event log are skipped."""
    return {event.session: event.reason for event in _events(source, SessionOpened)}


def list_lone_restarts(source: EventSource) -> list[tuple[int, FailureClassified]]:
    """Return session and failure of each individual task restart, in order."""
    session = 0
    found = []
    for event in _events(source, SessionOpened, FailureClassified):
        if isinstance(event, SessionOpened):
            session = event.session
        elif isinstance(event, FailureClassified) and event.decision is FailureResponse.RETRY:
            found.append((session, event))
    return found


def _events(source: EventSource, *classes: type[E]) -> Iterator[E]:
    """Yield events of some kinds. Other lines are not even decoded: a log may be very long."""
    if not isinstance(source, JobFolder):
        yield from (event for event in source if isinstance(event, classes))
        return
    kinds = [cls.kind.encode() for cls in classes]
    with contextlib.suppress(RecordError, StorageError):
        for path, number, line, attempt in read_lines(segments(source.path)):
            if any(kind in line for kind in kinds):
                with contextlib.suppress(RecordError):
                    event = decode_entry(f"{path}:{number}", line, attempt).event
                    if isinstance(event, classes):
                        yield event

"""Why a job's sessions began, and with how many tasks; which tasks started again alone within them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TypeVar

from tony.core.events import Event, Gathered, Judged, SessionOpened
from tony.dataclass import replace
from tony.errors import RecordError
from tony.history.event_log import LONGEST_LINE, decode_entry, segments
from tony.history.json_files import open_plain
from tony.model.layout import JobFolder

E = TypeVar("E", bound=Event)
#: Who tells it: the folder with the log, or what happened, if that was asked for elsewhere; of it `TELLING` counts.
Told = JobFolder | Sequence[Event]
TELLING: tuple[type[Event], ...] = (SessionOpened, Gathered, Judged)


def session_sizes(told: Told) -> dict[int, Gathered]:
    """Session -> with how many tasks it started, of a job whose roles may have fewer than they ask for."""
    found: dict[int, Gathered] = {}
    for event in _events(told, Gathered):
        known = found.get(event.session)
        if known:  # a later role of the same session
            event = replace(event, tasks={**known.tasks, **event.tasks}, absent={**known.absent, **event.absent})
        found[event.session] = event
    return found


def session_reasons(told: Told) -> dict[int, str]:
    """Session -> why it began, as far as the job's event log says it; a line that makes no sense says nothing."""
    return {event.session: event.reason for event in _events(told, SessionOpened)}


def lone_restarts(told: Told) -> list[tuple[int, Judged]]:
    """Session and verdict of each restart of one task alone, in order."""
    session = 0
    found = []
    for event in _events(told, SessionOpened, Judged):
        if isinstance(event, SessionOpened):
            session = event.session
        elif isinstance(event, Judged) and event.decision == "retry":
            found.append((session, event))
    return found


def _events(told: Told, *classes: type[E]) -> Iterator[E]:
    """Every event of some kinds. Lines of others are not even taken apart: a log may have very many."""
    if not isinstance(told, JobFolder):
        yield from (event for event in told if isinstance(event, classes))
        return
    kinds = [cls.kind.encode() for cls in classes]
    with contextlib.suppress(OSError):
        for path in segments(told.path):
            with open_plain(path) as file:
                while line := file.readline(LONGEST_LINE):
                    if any(kind in line for kind in kinds):
                        with contextlib.suppress(RecordError):
                            event = decode_entry(str(path), line, 0).event
                            if isinstance(event, classes):
                                yield event

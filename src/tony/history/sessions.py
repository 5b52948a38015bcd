"""Why a job's sessions began, and with how many tasks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TypeVar

from tony.core.events import Event, Gathered, SessionOpened
from tony.dataclass import replace
from tony.errors import RecordError
from tony.history.log import LONGEST_LINE, decode_entry, segments
from tony.model.layout import JobFolder

E = TypeVar("E", bound=Event)


def session_sizes(folder: JobFolder) -> dict[int, Gathered]:
    """Session -> with how many tasks it started, of a job whose roles may have fewer than they ask for."""
    found: dict[int, Gathered] = {}
    for event in _events(folder, Gathered):
        known = found.get(event.session)
        if known:  # a later role of the same session
            event = replace(event, tasks={**known.tasks, **event.tasks}, absent={**known.absent, **event.absent})
        found[event.session] = event
    return found


def session_reasons(folder: JobFolder) -> dict[int, str]:
    """Session -> why it began, as far as the job's event log says it; a line that makes no sense says nothing."""
    return {event.session: event.reason for event in _events(folder, SessionOpened)}


def _events(folder: JobFolder, cls: type[E]) -> Iterator[E]:
    """Every event of a kind. Lines of others are not even taken apart: a log may have a hundred thousand of them."""
    kind = cls.kind.encode()
    with contextlib.suppress(OSError):
        for path in segments(folder.path):
            with path.open("rb") as file:
                while line := file.readline(LONGEST_LINE):
                    if kind in line:
                        with contextlib.suppress(RecordError):
                            event = decode_entry(str(path), line, 0).event
                            if isinstance(event, cls):
                                yield event

"""Why a job's sessions began."""

from __future__ import annotations

import contextlib

from tony.core.events import SessionOpened
from tony.errors import RecordError
from tony.history.log import LONGEST_LINE, decode_entry, segments
from tony.model.layout import JobFolder

_KIND = SessionOpened.kind.encode()


def session_reasons(folder: JobFolder) -> dict[int, str]:
    """Session -> why it began, as far as the job's event log says it; a line that makes no sense says nothing.

    Lines of other events are not even taken apart: a log may have a hundred thousand of them.
    """
    reasons: dict[int, str] = {}
    with contextlib.suppress(OSError):
        for path in segments(folder.path):
            with path.open("rb") as file:
                while line := file.readline(LONGEST_LINE):
                    if _KIND in line:
                        with contextlib.suppress(RecordError):
                            event = decode_entry(str(path), line, 0).event
                            if isinstance(event, SessionOpened):
                                reasons[event.session] = event.reason
    return reasons

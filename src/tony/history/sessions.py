"""Why a job's sessions began."""

from __future__ import annotations

import contextlib
import json

from tony.core.events import SessionOpened
from tony.history.log import segments
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
                for line in file:
                    if _KIND in line:
                        with contextlib.suppress(ValueError, KeyError, TypeError):
                            plain = json.loads(line)
                            if plain["event"] == SessionOpened.kind:
                                reasons[int(plain["data"]["session"])] = str(plain["data"]["reason"])
    return reasons

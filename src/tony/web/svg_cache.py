"""Pictures that were drawn: one of ten thousand tasks takes a while, and is looked at more than once."""

from __future__ import annotations

from collections import OrderedDict

from tony.history.timeline import Timeline
from tony.linux.threads import to_thread
from tony.web.job_source import JobView
from tony.web.timeline_svg import Drawing, draw

#: Pictures that are kept, and spans and marks of their timelines, each of which takes some 150 bytes.
_KEPT = 32
_KEPT_PARTS = 100_000
_Key = tuple[str, float, float | None]


class SvgCache:
    """The latest of them, by job and by the part of the time that they show."""

    def __init__(self) -> None:
        self._known: OrderedDict[_Key, tuple[Timeline, Drawing]] = OrderedDict()

    def has(self, job: str) -> bool:
        """Whether any was drawn of a job."""
        return any(key[0] == job for key in self._known)

    async def of(self, view: JobView, since: float, until: float | None) -> tuple[Timeline, Drawing] | None:
        """A job's timeline and its picture; None if no events were kept."""
        line = await view.timeline()
        if line is None:
            return None
        if not 0 <= since < (line.until if until is None else until):
            since, until = 0.0, None
        key = (view.job, since, until)
        known = self._known.get(key)
        if known is None or known[0] is not line:
            known = line, await to_thread(draw, line, since, until)
            self._known[key] = known
        self._known.move_to_end(key)
        room = _KEPT_PARTS - sum(_parts(line) for line, _ in self._known.values())
        while len(self._known) > 1 and (len(self._known) > _KEPT or room < 0):
            _, (oldest, _) = self._known.popitem(last=False)
            room += _parts(oldest)
        return known


def _parts(line: Timeline) -> int:
    return len(line.spans) + len(line.marks)

"""A cache of timeline pictures: drawing one of ten thousand tasks takes a while."""

from __future__ import annotations

from collections import OrderedDict

from tony.history.timeline import Timeline
from tony.jobs.directory.view import DirectoryJobView
from tony.linux.thread_pools import to_thread
from tony.web.timeline_svg import Drawing, draw

#: Cached pictures, and spans and markers of their timelines, each of which takes some 150 bytes.
_MAX_PICTURES = 32
_MAX_PARTS = 100_000
_Key = tuple[str, float, float | None]


class SvgCache:
    """The most recently used pictures, by job and time range."""

    def __init__(self) -> None:
        self._known: OrderedDict[_Key, tuple[Timeline, Drawing]] = OrderedDict()

    def has(self, job: str) -> bool:
        """Return True if a picture of the job is cached."""
        return any(key[0] == job for key in self._known)

    async def load_drawing(
        self, view: DirectoryJobView, since: float, until: float | None
    ) -> tuple[Timeline, Drawing] | None:
        """Return a job's timeline and its picture, drawn if needed; None if the job's events were not kept."""
        line = await view.timeline()
        if line is None:
            return None
        if not 0 <= since < (line.until if until is None else until):
            since, until = 0.0, None
        key = (view.id, since, until)
        known = self._known.get(key)
        if known is None or known[0] is not line:
            known = line, await to_thread(draw, line, since, until)
            self._known[key] = known
        self._known.move_to_end(key)
        room = _MAX_PARTS - sum(_count_parts(line) for line, _ in self._known.values())
        while len(self._known) > 1 and (len(self._known) > _MAX_PICTURES or room < 0):
            _, (oldest, _) = self._known.popitem(last=False)
            room += _count_parts(oldest)
        return known


def _count_parts(line: Timeline) -> int:
    return len(line.spans) + len(line.marks)

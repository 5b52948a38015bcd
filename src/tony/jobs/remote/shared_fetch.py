"""A fetch that concurrent requests share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from tony import clock

#: Running fetches, referenced so that they are not garbage-collected.
_RUNNING: set[asyncio.Task[None]] = set()


class SharedFetch:
    """A fetch that concurrent requests share. It is repeated once its result is no longer fresh.

    Requests wait only for a while; a longer fetch continues in the background for later ones.

    Attributes:
        result: what the last one returned.
    """

    def __init__(self) -> None:
        self.result = ""
        self._finished_at = self._give_up_at = float("-inf")
        self._work: asyncio.Task[None] | None = None

    async def run(
        self, fetch: Callable[[], Coroutine[object, object, str]], fresh_seconds: float, timeout_seconds: float
    ) -> bool:
        """Fetch, unless the result is fresh; return False if that takes longer than the timeout.

        Raises what the fetch raises.
        """
        if self._work is None and clock.monotonic() - self._finished_at >= fresh_seconds:
            self._give_up_at = clock.monotonic() + timeout_seconds
            self._work = asyncio.get_running_loop().create_task(self._fetch(fetch()))
            _RUNNING.add(self._work)
            self._work.add_done_callback(_RUNNING.discard)
        work = self._work
        if work is not None:
            done, _ = await asyncio.wait([work], timeout=max(0.0, self._give_up_at - clock.monotonic()))
            if not done:
                return False
            work.result()
        return True

    async def _fetch(self, work: Coroutine[object, object, str]) -> None:
        try:
            self.result = await work
        finally:
            self._finished_at, self._work = clock.monotonic(), None

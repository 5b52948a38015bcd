"""Fetchers of the output of one job that concurrent requests share: one for each task that is followed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from tony.jobs.remote.log_fetcher import LogFetcher


class SharedLogFetchers:
    """The running fetchers of one job, by the name of a task or role."""

    def __init__(self) -> None:
        self._fetchers: dict[str, LogFetcher] = {}
        self._users: dict[LogFetcher, int] = {}

    @asynccontextmanager
    async def follow(self, name: str, create_fetcher: Callable[[], LogFetcher]) -> AsyncIterator[None]:
        """Fetch inside the context, with the running fetcher of this name or else a new one."""
        fetcher = self._fetchers.get(name)
        if fetcher is None or not fetcher.is_running:
            fetcher = self._fetchers[name] = create_fetcher()
            await fetcher.__aenter__()
        self._users[fetcher] = self._users.get(fetcher, 0) + 1
        try:
            yield
        finally:
            self._users[fetcher] -= 1
            if not self._users[fetcher]:
                del self._users[fetcher]
                if self._fetchers.get(name) is fetcher:
                    del self._fetchers[name]
                await fetcher.__aexit__()

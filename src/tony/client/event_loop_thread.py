"""The event loop of the blocking API: in its own thread, so that it works where a loop is already running."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


class _Loop:
    """A thread that runs an event loop until the process exits."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="tony", daemon=True)
        self._thread.start()


_lock = threading.Lock()
_current: _Loop | None = None


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine and return its result. Blocks only the calling thread.

    An interrupt of the caller (Ctrl-C) cancels the coroutine.
    """
    future = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def iterate(stream: AsyncGenerator[T, None]) -> Iterator[T]:
    """Yield the items of an async generator; close it if the caller stops early."""
    try:
        while (item := run(_next(stream))) is not None:
            yield item[0]
    finally:
        run(stream.aclose())


async def _next(stream: AsyncGenerator[T, None]) -> tuple[T] | None:
    async for item in stream:
        return (item,)
    return None


def _loop() -> asyncio.AbstractEventLoop:
    """Return the loop; created on first use, and again in a forked process."""
    global _current
    with _lock:
        if _current is None or _current.process != os.getpid():
            _current = _Loop()
        return _current.loop

"""Blocking methods, made of those of a job view; and the loop they run in.

The event loop has its own thread, so that blocking methods work where a loop is already running.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
V = TypeVar("V")


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
        while (item := run(_fetch_next(stream))) is not None:
            yield item[0]
    finally:
        run(stream.aclose())


async def _fetch_next(stream: AsyncGenerator[T, None]) -> tuple[T] | None:
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


def make_blocking(
    method: Callable[Concatenate[V, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """Return the blocking version of a view's method, for a class with the view in its attribute `aio`."""

    @wraps(method)
    def call(job: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = run(getattr(job.aio, method.__name__)(*args, **kwargs))
        return result

    return call


def make_blocking_iterator(
    method: Callable[Concatenate[V, P], AsyncGenerator[T, None]],
) -> Callable[Concatenate[Any, P], Iterator[T]]:
    """Return the blocking version of a view's method that yields items, like `make_blocking`."""

    @wraps(method)
    def call(job: Any, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return iterate(getattr(job.aio, method.__name__)(*args, **kwargs))

    signature = inspect.signature(method)
    items = str(signature.return_annotation).replace("AsyncGenerator", "Iterator").replace(", None]", "]")
    call.__signature__ = signature.replace(return_annotation=items)  # type: ignore[attr-defined]
    return call

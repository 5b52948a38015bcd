"""Blocking work beside the event loop, in a thread if there can be one more."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar
from weakref import WeakKeyDictionary

P = ParamSpec("P")
T = TypeVar("T")

#: Threads of one loop at one time: what they do waits for disks and other processes, and a few fill those.
_MOST = 8
_TURNS: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


async def beside(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """As `asyncio.to_thread`; where the process table is full the work is done all the same, and the loop waits for it.

    A thread of its own each time: a pool's threads stay, its end needs one more, and what it was given is done twice if
    it was told that there is no thread.
    """
    loop = asyncio.get_running_loop()
    async with _TURNS.setdefault(loop, asyncio.Semaphore(_MOST)):
        return await _run(loop, partial(contextvars.copy_context().run, work, *args, **kwargs))


async def _run(loop: asyncio.AbstractEventLoop, run: Callable[[], T]) -> T:
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def report() -> None:
        result, error = None, None
        try:
            result = run()
        except BaseException as caught:  # whatever it is, it is raised where the work was asked for
            error = caught
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, error)

    try:
        threading.Thread(target=report, name="beside the loop").start()
    except RuntimeError:  # "can't start new thread"
        return run()
    return await done

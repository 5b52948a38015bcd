"""The background tasks of an AM attempt, and the outcome for which its main loop waits."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

Outcome = TypeVar("Outcome")


class SupervisedTasks(Generic[Outcome]):
    """Background tasks, and one outcome: a result, or the first error of a task or of a callback of the event loop.

    Not a `TaskGroup`: messages start tasks from before `wait` until after it has returned, callbacks fail as well as
    tasks do, and the caller needs the first error itself, not a group of errors.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    @property
    def has_outcome(self) -> bool:
        return self._outcome.done()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task; if it fails, its error is the outcome."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)

    def finish(self, result: Outcome) -> None:
        """Set the result, unless there is an outcome already."""
        if not self._outcome.done():
            self._outcome.set_result(result)

    def fail(self, error: BaseException) -> None:
        """Set an error as the outcome, unless there is one already."""
        if not self._outcome.done():
            self._outcome.set_exception(error)

    async def wait(self) -> Outcome:
        """Return the result or raise the error, once no task is left: tasks that still run are cancelled."""
        try:
            return await self._outcome
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error:
            self.fail(error)

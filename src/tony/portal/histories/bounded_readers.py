"""Reads many items concurrently, each with a time limit, so that one that hangs does not block the others."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from tony import clock
from tony.errors import StorageError

T = TypeVar("T")
R = TypeVar("R")


@dataclass(slots=True)
class _PendingRead(Generic[T, R]):
    item: T
    started_at: float = 0.0
    result: R | None = None
    error: Exception | None = None
    is_finished: bool = False


class Readers(Generic[T, R]):
    """A pool of threads.

    A thread that exceeds the time limit is abandoned and replaced; it exits when it returns. If too many are
    abandoned, the whole location is considered hanging.

    Args:
        look: called with each item.
        threads: number of threads.
        longest: seconds for one item.
        most_lost: threads that may be abandoned.
    """

    def __init__(self, look: Callable[[T], R], threads: int, longest: float, most_lost: int = 8) -> None:
        self._look = look
        self._threads = threads
        self._longest = longest
        self._most_lost = most_lost

    def read_each(self, items: Iterable[T]) -> Iterator[tuple[T, R | Exception]]:
        """Yield every item with its result or error, in order of completion. Only a few items are read ahead.

        Raises:
            StorageError: too many threads hang.
        """
        todo: queue.SimpleQueue[_PendingRead[T, R] | None] = queue.SimpleQueue()
        done: queue.SimpleQueue[_PendingRead[T, R]] = queue.SimpleQueue()
        running: dict[int, _PendingRead[T, R]] = {}
        lost = 0
        workers = 0
        source = iter(items)
        try:
            while True:
                while len(running) < 2 * self._threads:
                    try:
                        task: _PendingRead[T, R] = _PendingRead(next(source))
                    except StopIteration:
                        break
                    running[id(task)] = task
                    todo.put(task)
                    if workers < self._threads:
                        workers += 1
                        threading.Thread(target=self._work, args=(todo, done), daemon=True).start()
                if not running:
                    return
                for finished in self._wait_finished(done, running):
                    del running[id(finished)]
                    if finished.is_finished:
                        if finished.error is not None:
                            yield finished.item, finished.error
                        else:
                            yield finished.item, finished.result  # type: ignore[misc]
                        continue
                    lost += 1
                    workers -= 1
                    if lost > self._most_lost:
                        raise StorageError(f"{lost} jobs could not be read within {self._longest:.0f} s each")
                    why = f"it could not be read within {self._longest:.0f} s"
                    yield finished.item, StorageError(why)
                while workers < min(self._threads, len(running)):
                    workers += 1
                    threading.Thread(target=self._work, args=(todo, done), daemon=True).start()
        finally:
            for _ in range(workers + lost):
                todo.put(None)

    def _wait_finished(
        self, done: queue.SimpleQueue[_PendingRead[T, R]], running: dict[int, _PendingRead[T, R]]
    ) -> list[_PendingRead[T, R]]:
        """Return the tasks that are finished, or that exceeded the time limit."""
        while True:
            oldest = min((task.started_at for task in running.values() if task.started_at), default=clock.monotonic())
            try:
                finished = done.get(timeout=max(0.01, oldest + self._longest - clock.monotonic()))
            except queue.Empty:
                now = clock.monotonic()
                late = [task for task in running.values() if task.started_at and now - task.started_at > self._longest]
                if late:
                    return late
                continue
            if id(finished) in running:  # else it was abandoned before
                return [finished]

    def _work(
        self, todo: queue.SimpleQueue[_PendingRead[T, R] | None], done: queue.SimpleQueue[_PendingRead[T, R]]
    ) -> None:
        while (task := todo.get()) is not None:
            task.started_at = clock.monotonic()
            try:
                task.result = self._look(task.item)
            except Exception as error:  # raised or returned by the consumer
                task.error = error
            task.is_finished = True
            late = clock.monotonic() - task.started_at > self._longest
            done.put(task)
            if late:
                return

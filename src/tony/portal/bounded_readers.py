"""Looks at many things at once, each for a bounded time: one that hangs holds up nobody else."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from tony import clock
from tony.dataclass import dataclass
from tony.errors import StorageError

T = TypeVar("T")
R = TypeVar("R")


@dataclass(slots=True)
class _Task(Generic[T, R]):
    item: T
    began: float = 0.0
    result: R | None = None
    error: Exception | None = None
    over: bool = False


class Readers(Generic[T, R]):
    """Some threads.

    A thread that hangs is left behind, and another one takes its place; it ends when it comes back. After too many
    of them the whole place is taken for hanging.

    Args:
        look: what is done with each item.
        threads: at the same time.
        longest: seconds for one item.
        most_lost: threads that may be left behind.
    """

    def __init__(self, look: Callable[[T], R], threads: int, longest: float, most_lost: int = 8) -> None:
        self._look = look
        self._threads = threads
        self._longest = longest
        self._most_lost = most_lost

    def each(self, items: Iterable[T]) -> Iterator[tuple[T, R | Exception]]:
        """Every item with what came of it, in the order in which they are done. At most a few are ahead of us.

        Raises:
            StorageError: too many of them hang.
        """
        todo: queue.SimpleQueue[_Task[T, R] | None] = queue.SimpleQueue()
        done: queue.SimpleQueue[_Task[T, R]] = queue.SimpleQueue()
        running: dict[int, _Task[T, R]] = {}
        lost = 0
        workers = 0
        source = iter(items)
        try:
            while True:
                while len(running) < 2 * self._threads:
                    try:
                        task: _Task[T, R] = _Task(next(source))
                    except StopIteration:
                        break
                    running[id(task)] = task
                    todo.put(task)
                    if workers < self._threads:
                        workers += 1
                        threading.Thread(target=self._work, args=(todo, done), daemon=True).start()
                if not running:
                    return
                for finished in self._wait(done, running):
                    del running[id(finished)]
                    if finished.over:
                        if finished.error is not None:
                            yield finished.item, finished.error
                        else:
                            yield finished.item, finished.result  # type: ignore[misc]
                        continue
                    lost += 1
                    workers -= 1
                    if lost > self._most_lost:
                        raise StorageError(f"{lost} records could not be read within {self._longest:.0f} s each")
                    why = f"it could not be read within {self._longest:.0f} s"
                    yield finished.item, StorageError(why)
                while workers < min(self._threads, len(running)):
                    workers += 1
                    threading.Thread(target=self._work, args=(todo, done), daemon=True).start()
        finally:
            for _ in range(workers + lost):
                todo.put(None)

    def _wait(self, done: queue.SimpleQueue[_Task[T, R]], running: dict[int, _Task[T, R]]) -> list[_Task[T, R]]:
        """What is over, or takes too long."""
        while True:
            oldest = min((task.began for task in running.values() if task.began), default=clock.monotonic())
            try:
                finished = done.get(timeout=max(0.01, oldest + self._longest - clock.monotonic()))
            except queue.Empty:
                now = clock.monotonic()
                late = [task for task in running.values() if task.began and now - task.began > self._longest]
                if late:
                    return late
                continue
            if id(finished) in running:  # else it came back after all
                return [finished]

    def _work(self, todo: queue.SimpleQueue[_Task[T, R] | None], done: queue.SimpleQueue[_Task[T, R]]) -> None:
        while (task := todo.get()) is not None:
            task.began = clock.monotonic()
            try:
                task.result = self._look(task.item)
            except Exception as error:  # it is raised where it is waited for
                task.error = error
            task.over = True
            late = clock.monotonic() - task.began > self._longest
            done.put(task)
            if late:
                return

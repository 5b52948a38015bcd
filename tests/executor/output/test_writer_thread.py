"""Files are written beside the loop: in order, completely, and never while a program is started."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from functools import partial

import pytest

from tony.executor.output.writer_thread import WriterThread, WriterThreadHandler


@pytest.fixture
def pens() -> Callable[[], int]:
    """How many threads write more than at the test's beginning."""

    def count() -> int:
        return sum(thread.name == "writer" for thread in threading.enumerate())

    before = count()
    return lambda: count() - before


def test_jobs_run_in_order_in_another_thread(pens: Callable[[], int]) -> None:
    """None is done in the loop's own thread."""
    done: list[tuple[int, bool]] = []

    def job(number: int) -> None:
        done.append((number, threading.current_thread() is threading.main_thread()))

    async def write() -> None:
        pen = WriterThread()
        for number in range(1000):
            pen.put(partial(job, number), 10)
        assert await pen.wait_written(60)
        assert pen.backlog == 0
        await pen.stop(60)

    asyncio.run(write())
    assert done == [(number, False) for number in range(1000)]
    assert pens() == 0


async def test_the_loop_continues_while_the_disk_blocks(pens: Callable[[], int]) -> None:
    """A callback comes when everything is written, and not before."""
    pen, disk, told = WriterThread(), threading.Event(), asyncio.Event()
    pen.put(partial(disk.wait, 60), 100)
    pen.put(lambda: None, 50)
    pen.call_when_written(told.set)
    assert not await pen.wait_written(0.05)
    assert (pen.backlog, told.is_set()) == (150, False)
    await pen.stop(0.05)
    assert pens() == 1  # it cannot rest
    disk.set()
    async with asyncio.timeout(60):
        await told.wait()
    assert await pen.wait_written(60)
    await pen.stop(60)
    assert pens() == 0


async def test_it_continues_after_a_rest(pens: Callable[[], int]) -> None:
    """A rest ends the thread, the next job begins another one."""
    pen, done = WriterThread(), list[int]()
    for number in range(3):
        pen.put(partial(done.append, number))
        await pen.stop(60)
        assert pens() == 0
    assert done == [0, 1, 2]


def test_without_a_thread_it_writes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the process table is full the loop has to wait for the disk, and nothing is lost."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    done: list[int] = []
    pen = WriterThread()
    pen.put(partial(done.append, 1))
    assert done == [1]
    asyncio.run(pen.stop(60))
    pen.close(60)


async def test_log_lines_take_the_same_way_while_there_is_one() -> None:
    """Before and after the thread's life they are written at once; their order is kept."""
    lines: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(f"{record.getMessage()} {threading.current_thread().name == 'writer'}")

    pen = WriterThread()
    log = logging.Logger("one")
    log.addHandler(WriterThreadHandler(pen, Kept()))
    log.warning("before")
    pen.put(lambda: None)
    for number in range(3):
        log.warning("line %d", number)
    await pen.stop(60)
    log.warning("after")
    assert lines == ["before False", "line 0 True", "line 1 True", "line 2 True", "after False"]

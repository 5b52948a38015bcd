"""Threads next to the event loop, with a bound for each user."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator

import pytest

from tests.support.waiting import wait_until
from tony.errors import OverloadedError
from tony.linux.thread_pools import Lane, Slots, act_for, get_current_user

#: Seconds after which something that must happen has not.
CEILING = 60.0


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What work waits for that hangs; open at the end of the test."""
    made = threading.Event()
    yield made
    made.set()


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(CEILING):
            await test()

    asyncio.run(main())


async def begin(lane: Lane, user: str | None, gate: threading.Event) -> asyncio.Task[bool]:
    """Have a user begin work that hangs; return when a thread does it."""
    begun = threading.Event()

    def hang() -> bool:
        begun.set()
        return gate.wait(CEILING)

    with act_for(user):
        task = asyncio.get_running_loop().create_task(lane.run(hang))
    await wait_until(begun.is_set)
    return task


async def test_hanging_work_of_one_user_delays_no_other(gate: threading.Event) -> None:
    lane = Lane("a page", CEILING)
    hanging = [await begin(lane, "ben", gate) for _ in range(2)]
    with act_for("ben"):
        waiting = [asyncio.get_running_loop().create_task(lane.run(threading.get_ident)) for _ in range(6)]
    with act_for("ann"):
        assert await lane.run(get_current_user) == "ann"
    assert await lane.run(get_current_user) is None
    assert not any(task.done() for task in waiting)
    gate.set()
    await asyncio.gather(*hanging, *waiting)


async def test_work_that_takes_too_long_is_left_behind_and_keeps_its_slot(gate: threading.Event) -> None:
    lane = Lane("a page", 0.01)
    with act_for("ben"):
        for _ in range(2):
            with pytest.raises(OverloadedError, match="a page could not be read within 0 s: its storage"):
                await lane.run(gate.wait, CEILING)
        with pytest.raises(OverloadedError, match="2 of your earlier requests are still waiting for a page"):
            await lane.run_for(CEILING, threading.get_ident)
    gate.set()
    with act_for("ben"):
        while True:
            try:
                assert await lane.run_for(CEILING, lambda: 7) == 7
                break
            except OverloadedError:
                await asyncio.sleep(0.001)


async def test_work_of_the_program_itself_has_no_deadline(gate: threading.Event) -> None:
    lane = Lane("a page", 0.0)
    task = await begin(lane, None, gate)
    gate.set()
    assert await task


async def test_a_timeout_of_the_work_itself_is_not_taken_for_ours() -> None:
    def fail() -> None:
        raise TimeoutError("of the work")

    with act_for("ben"), pytest.raises(TimeoutError, match="of the work"):
        await Lane("a page", CEILING).run(fail)


async def test_slots_are_free_again_after_requests_that_were_given_up(gate: threading.Event) -> None:
    slots = Slots(1, 3, 2)
    with act_for("ben"):
        held = [await slots.acquire() for _ in range(2)]
        waiting = asyncio.get_running_loop().create_task(slots.acquire())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    with act_for("ann"):
        other = await slots.acquire()
    with act_for("zoe"):
        last = asyncio.get_running_loop().create_task(slots.acquire())
        await asyncio.sleep(0)
        assert not last.done()
    for slot in (*held, other):
        slot.release()
    (await last).release()
    with act_for("ben"):
        for slot in [await slots.acquire() for _ in range(2)]:
            slot.release()


async def test_where_no_thread_can_be_started_work_runs_in_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    lane = Lane("a page", CEILING)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with act_for("ben"):
        assert [await lane.run(threading.get_ident) for _ in range(3)] == [threading.get_ident()] * 3

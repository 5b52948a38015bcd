from __future__ import annotations

import asyncio

import pytest

from tony.am.supervised_tasks import SupervisedTasks


def test_the_first_error_of_a_task_ends_all_others() -> None:
    asyncio.run(_fail_one_of_two())


async def _fail_one_of_two() -> None:
    tasks: SupervisedTasks[int] = SupervisedTasks()
    cancelled = asyncio.Event()

    async def wait_forever() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async def fail() -> None:
        raise ValueError("first")

    tasks.start(wait_forever())
    tasks.start(fail())
    with pytest.raises(ValueError, match="first"):
        await tasks.wait()
    tasks.fail(ValueError("second"))
    tasks.finish(1)
    assert (tasks.has_outcome, cancelled.is_set()) == (True, True)


def test_a_task_may_start_before_the_result_is_waited_for_and_after_it() -> None:
    asyncio.run(_start_early_and_late())


async def _start_early_and_late() -> None:
    tasks: SupervisedTasks[int] = SupervisedTasks()
    done: list[str] = []

    async def note(when: str) -> None:
        done.append(when)

    tasks.start(note("before"))
    await asyncio.sleep(0)
    tasks.finish(7)
    assert await tasks.wait() == 7
    tasks.start(note("after"))
    await asyncio.sleep(0)
    assert done == ["before", "after"]

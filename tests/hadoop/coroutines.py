"""Tests of connections are coroutines; each runs in a loop of its own."""

from __future__ import annotations

import asyncio
import inspect

import pytest

#: Seconds until a test that waits for something counts as hung.
PATIENCE = 60.0


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test that is a coroutine, and fails it for what its loop had to complain about."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    complaints: list[str] = []

    async def story() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(str(context.get("exception", context))))
        async with asyncio.timeout(PATIENCE):
            await pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})

    asyncio.run(story())
    assert complaints == []
    return True

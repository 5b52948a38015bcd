"""Run each test that is a coroutine in an event loop of its own: `tests/conftest.py` imports `pytest_pyfunc_call`."""

from __future__ import annotations

import asyncio
import inspect

import pytest

#: Seconds until a test that waits for something counts as hung.
TIMEOUT_SECONDS = 60.0


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run the test, and fail it for what its event loop reports, except where `loop_complains` expects that."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    complaints: list[str] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(str(context.get("exception", context))))
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})

    asyncio.run(run())
    expected = pyfuncitem.get_closest_marker("loop_complains")
    assert complaints == (list(expected.args) if expected else [])
    return True

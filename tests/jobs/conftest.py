"""Tests of looking at jobs are coroutines where they wait; each runs in an event loop of its own."""

from __future__ import annotations

import asyncio
import inspect
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tony.model.layout import Home

#: Seconds until a test that waits for something counts as hung.
PATIENCE = 60.0


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test that is a coroutine."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters

    async def story() -> None:
        async with asyncio.timeout(PATIENCE):
            await pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})

    asyncio.run(story())
    return True


@pytest.fixture
def home() -> Iterator[Home]:
    """An empty home with a short path, for socket files."""
    path = Path(tempfile.mkdtemp(prefix="tony-client-"))
    yield Home(path)
    shutil.rmtree(path)

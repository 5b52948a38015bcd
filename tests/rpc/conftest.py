"""Tests of sockets are coroutines; each runs in a loop of its own, over both transports where it asks for a `place`."""

from __future__ import annotations

import asyncio
import inspect
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rpc.recording_server import JOB, Place

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
    expected = pyfuncitem.get_closest_marker("loop_complains")
    assert complaints == (list(expected.args) if expected else [])
    return True


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker for tests in which a handler is to fail."""
    config.addinivalue_line("markers", "loop_complains(*texts): what the event loop has to complain about")


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder with a short path, for socket files."""
    path = Path(tempfile.mkdtemp(prefix="tony-rpc-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture(params=["unix", "tls"])
def place(request: pytest.FixtureRequest, folder: Path) -> Place:
    """Where a server can listen, and the credentials for it: once on a Unix socket, once with TLS."""
    address = "tls:127.0.0.1:0" if request.param == "tls" else f"unix:{folder}/am.sock"
    return Place(address=address, job=JOB, scheme=request.param)

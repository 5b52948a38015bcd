"""Tests of sockets run over both transports where they ask for a `place`."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rpc.recording_server import JOB, Place


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

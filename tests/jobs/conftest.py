"""Tests of looking at jobs are coroutines where they wait; each runs in an event loop of its own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.coroutines import pytest_pyfunc_call as pytest_pyfunc_call
from tony.model.layout import Home


@pytest.fixture
def home() -> Iterator[Home]:
    """An empty home with a short path, for socket files."""
    path = Path(tempfile.mkdtemp(prefix="tony-client-"))
    yield Home(path)
    shutil.rmtree(path)

"""A home for tests of looking at jobs."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tony.model.state_directory import Home


@pytest.fixture
def home() -> Iterator[Home]:
    """An empty home with a short path, for socket files."""
    path = Path(tempfile.mkdtemp(prefix="tony-client-"))
    yield Home(path)
    shutil.rmtree(path)

"""Tests of allocators and job stores are coroutines; those of archives have a cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.coroutines import pytest_pyfunc_call as pytest_pyfunc_call
from tony.storage.cache.object_cache import Cache


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    made = Cache(tmp_path / "cache")
    made.prepare()
    return made

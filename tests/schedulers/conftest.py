"""Tests of archives have a cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from tony.storage.cache.object_cache import Cache


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    made = Cache(tmp_path / "cache")
    made.prepare()
    return made

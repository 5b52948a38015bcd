"""The archives of tony's code, built once for all users of a test process."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from tony.model.state_directory import Home
from tony.schedulers.shipping.code_archives import store_modules, store_pages, store_runtime
from tony.storage.cache.object_cache import Cache


def give_archives(home: Home) -> None:
    """Put them into the cache of a user, whose first submission would build them."""
    shutil.copytree(_build(), home.cache, dirs_exist_ok=True)


@cache
def _build() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="tony-archives-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = Cache(folder / "cache")
    made.prepare()
    for store in (store_modules, store_runtime, store_pages):
        store(made)
    return folder / "cache"

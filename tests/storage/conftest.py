"""Places for the tests of staging."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tony.storage.cache.file_copy import remove_tree


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach and write; pytest's own cannot be."""
    folder = Path(tempfile.mkdtemp(prefix="tony-storage-"))
    folder.chmod(0o777)
    yield folder
    remove_tree(folder)

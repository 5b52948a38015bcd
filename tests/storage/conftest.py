"""Places for the tests of staging."""

from __future__ import annotations

import shutil
import subprocess
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


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if not mounted or mounted.returncode:
        pytest.skip("needs the right to mount a small file system")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)

"""A person learns which part of a folder is big."""

from __future__ import annotations

from pathlib import Path

from tests.storage.samples import write_tree
from tony.storage.staging.folder_scan import find_largest_entries, scan


def test_biggest(tmp_path: Path) -> None:
    """Biggest first, empty ones not at all; a folder that is mostly one thing is named by that thing."""
    tree = {"a/b/big": 900, "a/b/small": 50, "a/x": 100, "c/1": 100, "c/2": 100, "d": 150, "e": 0}
    write_tree(tmp_path, {path: (b"x" * size, 0o644) for path, size in tree.items()})
    assert find_largest_entries(scan(tmp_path, git=True)) == [("a/b/big", 900), ("c", 200), ("d", 150)]
    assert find_largest_entries(scan(tmp_path, git=True), count=1) == [("a/b/big", 900)]

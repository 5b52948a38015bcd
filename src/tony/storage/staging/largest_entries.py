"""Finds the largest entries of a folder."""

from __future__ import annotations

from collections.abc import Mapping

from tony.storage.staging.folder_scan import Scan


def largest_entries(scan: Scan, count: int = 5) -> list[tuple[str, int]]:
    """Return the largest entries at the folder's top; one with a dominant entry is replaced by that."""
    sizes: dict[str, int] = {}
    for found in scan.found:
        path = found.path
        while path:
            sizes[path] = sizes.get(path, 0) + found.size
            path = path.rpartition("/")[0]
    tops = sorted((path for path in sizes if "/" not in path), key=lambda path: -sizes[path])[:count]
    return [_descend_to_dominant(path, sizes) for path in tops if sizes[path]]


def _descend_to_dominant(path: str, sizes: Mapping[str, int]) -> tuple[str, int]:
    depth = path.count("/") + 1
    inside = [p for p in sizes if p.startswith(f"{path}/") and p.count("/") == depth]
    biggest = max(inside, key=lambda p: sizes[p], default=None)
    if biggest is None or sizes[biggest] * 2 <= sizes[path]:
        return path, sizes[path]
    return _descend_to_dominant(biggest, sizes)

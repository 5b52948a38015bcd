"""Where the bytes of a folder are."""

from __future__ import annotations

from collections.abc import Mapping

from tony.storage.folder_scan import Scan


def largest_entries(scan: Scan, count: int = 5) -> list[tuple[str, int]]:
    """The biggest things at the folder's top; one that is mostly one thing inside it is named by that."""
    sizes: dict[str, int] = {}
    for found in scan.found:
        path = found.path
        while path:
            sizes[path] = sizes.get(path, 0) + found.size
            path = path.rpartition("/")[0]
    tops = sorted((path for path in sizes if "/" not in path), key=lambda path: -sizes[path])[:count]
    return [_mostly(path, sizes) for path in tops if sizes[path]]


def _mostly(path: str, sizes: Mapping[str, int]) -> tuple[str, int]:
    depth = path.count("/") + 1
    inside = [p for p in sizes if p.startswith(f"{path}/") and p.count("/") == depth]
    biggest = max(inside, key=lambda p: sizes[p], default=None)
    if biggest is None or sizes[biggest] * 2 <= sizes[path]:
        return path, sizes[path]
    return _mostly(biggest, sizes)

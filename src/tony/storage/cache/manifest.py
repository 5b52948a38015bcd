"""The manifest of a folder: the list that is packed, unpacked and copied into a task's folder."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tony.model.codec import Json

#: Parts that no valid path contains.
_INVALID_PARTS = frozenset(("", ".", ".."))


class ManifestEntryKind(Enum):
    """Kind of an entry. Hard links are files, everything else is refused."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """One entry of a folder.

    Attributes:
        path: relative to the folder, parts joined by `/`, neither empty nor with `.` or `..`.
        mode: permission bits, at most 0o777; meaningless for a link.
        size: bytes of a file.
        mtime: seconds since 1970, of a file.
        target: a link's target.
    """

    path: str
    kind: ManifestEntryKind
    mode: int = 0o777
    size: int = 0
    mtime: int = 0
    target: str = ""


_KINDS = frozenset(kind.value for kind in ManifestEntryKind)


def save(path: Path, entries: Iterable[ManifestEntry]) -> None:
    """Write a manifest. Names that are not UTF-8 are escaped."""
    rows = [[e.kind.value, e.path, e.mode, e.size, e.mtime, e.target] for e in entries]
    path.write_text(json.dumps(rows, separators=(",", ":")), encoding="ascii")


def load(path: Path) -> tuple[ManifestEntry, ...]:
    """Read a manifest.

    Raises:
        OSError: it cannot be read.
        ValueError: it is invalid or incomplete.
    """
    try:
        rows: Json = json.loads(path.read_text(encoding="ascii"))
        return tuple(_entry(*row) for row in rows)
    except (TypeError, RecursionError) as error:
        raise ValueError(f"invalid manifest: {error}") from error


def _entry(kind: Json, path: Json, mode: Json, size: Json, mtime: Json, target: Json) -> ManifestEntry:
    """Check and return one row: it decides what is copied into tasks' folders."""
    texts, numbers = (kind, path, target), (mode, size, mtime)
    if any(type(text) is not str for text in texts) or any(type(number) is not int for number in numbers):
        raise ValueError("invalid manifest: wrong types in an entry")
    if kind not in _KINDS:
        raise ValueError(f"invalid manifest: unknown kind of entry: {kind[:80]!a}")
    if not _INVALID_PARTS.isdisjoint(path.split("/")) or "\0" in path + target or not 0 <= mode <= 0o777 or size < 0:
        raise ValueError(f"invalid manifest: invalid entry: {path[:80]!a}")
    return ManifestEntry(kind=ManifestEntryKind(kind), path=path, mode=mode, size=size, mtime=mtime, target=target)

"""The manifest of a folder: the list that is packed, unpacked and copied for a task; and where its links lead.

A link is resolved as the kernel would follow it, folder by folder and through other links, without touching a disk: its
text alone is misleading. `a/../../x` stays inside if `a` is a link to a deeper folder, and `to_top/../x` leaves the
folder if `to_top` is a link to its top.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tony.model.codec import Json

#: Parts that no valid path contains.
_INVALID_PARTS = frozenset(("", ".", ".."))
#: Links that the kernel follows in one path before it fails with ELOOP; further links cannot matter.
MAX_FOLLOWED = 40


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


def resolve_link(link: str, target: str, links: Mapping[str, str]) -> str | None:
    """Return the path that a link leads to, relative to the folder's top; empty for the top itself.

    Args:
        link: the link's own path, relative to the top; the folders above it are real ones.
        target: the link's target.
        links: path -> target of every link in the folder.

    Returns:
        None if the path leads out of the folder, even if it returns by the folder's own name, or begins with `/`.
    """
    reached = link.split("/")[:-1]
    ahead = deque([target])
    followed = 0
    while ahead:
        text = ahead.popleft()
        if text.startswith("/"):
            return None
        part, _, rest = text.partition("/")
        if rest:
            ahead.appendleft(rest.lstrip("/"))
        if part in ("", "."):
            continue
        if part == "..":
            if not reached:
                return None
            reached.pop()
            continue
        onward = links.get("/".join((*reached, part)))
        if onward is None or followed == MAX_FOLLOWED:
            reached.append(part)
        else:
            followed += 1
            ahead.appendleft(onward)
    return "/".join(reached)

"""What lies in a folder: the list that is packed, unpacked and laid into a task's folder."""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import Enum
from pathlib import Path

from tony.dataclass import dataclass
from tony.model.codec import Json


class Kind(Enum):
    """What an entry is. Hard links are files, everything else is refused."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing in a folder.

    Attributes:
        path: relative to the folder, parts joined by `/`, neither empty nor with `.` or `..`.
        mode: permission bits, at most 0o777; of no meaning for a link.
        size: bytes of a file.
        mtime: seconds since 1970, of a file.
        target: a link's text.
    """

    path: str
    kind: Kind
    mode: int = 0o777
    size: int = 0
    mtime: int = 0
    target: str = ""


def save(path: Path, entries: Iterable[Entry]) -> None:
    """Writes a manifest. Names that are not UTF-8 survive, escaped."""
    rows = [[e.kind.value, e.path, e.mode, e.size, e.mtime, e.target] for e in entries]
    path.write_text(json.dumps(rows, separators=(",", ":")), encoding="ascii")


def load(path: Path) -> tuple[Entry, ...]:
    """Reads a manifest.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not a whole manifest.
    """
    rows: Json = json.loads(path.read_text(encoding="ascii"))
    try:
        return tuple(
            Entry(kind=Kind(kind), path=name, mode=mode, size=size, mtime=mtime, target=target)
            for kind, name, mode, size, mtime, target in rows
        )
    except TypeError as error:
        raise ValueError(str(error)) from error

"""Stores the digests of files outside the cache, so that unchanged files need not be read again.

One small file per staged folder or file. A digest is valid while size, modification time, change time and inode are the
same as when the content was read. As in git, a file that changed moments before it was read is not stored: a second
change within the same tick of the file system's clock would leave all four unchanged. Losing an index, or two clients
writing one at once, only costs reading.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tony.linux.files import replace_file
from tony.model.codec import Json

#: Incremented when the packing of folders changes: their digests then differ from those of older versions.
_VERSION = 1
#: The coarsest clock of a file system in use, FAT's.
_TICK_SECONDS = 2.0


class Stamp(NamedTuple):
    """File attributes that reveal a change without reading the file."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def from_status(cls, status: os.stat_result) -> Stamp:
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)

    def settle_stamp(self, read_at: float) -> Stamp:
        """Return this stamp if a change after `read_at` (seconds since 1970) would alter it, else an unsettled one."""
        if max(self.mtime_ns, self.ctime_ns) < (read_at - _TICK_SECONDS) * 1e9:
            return self
        return self.to_unsettled()

    def to_unsettled(self) -> Stamp:
        """Return a stamp with the same size that matches no file: no file has inode 0."""
        return Stamp(self.size, 0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestIndex:
    """The stored digests of one folder (or file).

    Attributes:
        files: path inside the folder (empty for a single file) -> stamp and digest.
        tree: digest over the folder's names, modes and contents; empty for a single file.
        object_digest, object_size: the cache object made of it.
        checked: uses for which an archive was found valid: values of Placement.
    """

    files: Mapping[str, tuple[Stamp, str]] = field(default_factory=dict)
    tree: str = ""
    object_digest: str = ""
    object_size: int = 0
    checked: tuple[str, ...] = ()

    def find_digest(self, path: str, stamp: Stamp) -> str | None:
        """Return the digest of a file's content, if the file is unchanged."""
        known = self.files.get(path)
        return known[1] if known is not None and known[0] == stamp else None


def load(folder: Path, source: Path) -> DigestIndex:
    """Read the index of `source`; an empty one if it cannot be read."""
    try:
        return _from_plain(json.loads(_place(folder, source).read_text(encoding="ascii")))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return DigestIndex()


def save(folder: Path, source: Path, index: DigestIndex) -> None:
    """Replace the index of `source`.

    Raises:
        OSError: it cannot be written.
    """
    replace_file(_place(folder, source), json.dumps(_to_plain(index), separators=(",", ":")).encode("ascii"))


def read_clock() -> float:
    """Return the time to compare stamps with: the wall clock, as file systems use it."""
    return time.time()


def _place(folder: Path, source: Path) -> Path:
    return folder / f"{hashlib.sha256(os.fsencode(source)).hexdigest()[:32]}.json"


def _to_plain(index: DigestIndex) -> Json:
    return {
        "version": _VERSION,
        "tree": index.tree,
        "object": [index.object_digest, index.object_size],
        "checked": list(index.checked),
        "files": [[path, *stamp, digest] for path, (stamp, digest) in index.files.items()],
    }


def _from_plain(data: Json) -> DigestIndex:
    if data["version"] != _VERSION:
        return DigestIndex()
    made, size = data["object"]
    files = {path: (Stamp(*stamp), digest) for path, *stamp, digest in data["files"]}
    checked = tuple(data["checked"])
    texts = (made, data["tree"], *files, *(digest for _, digest in files.values()), *checked)
    if type(size) is not int or any(type(text) is not str for text in texts):
        raise ValueError("invalid index")
    return DigestIndex(files=files, tree=data["tree"], object_digest=made, object_size=size, checked=checked)

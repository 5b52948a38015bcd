"""Items of `files`, as they are written in a job file: `path::name#archive#optional`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import PurePosixPath

#: Suffixes of archives; only to distinguish `env.tar.gz` from `python3.12`: staging checks the content.
ARCHIVE_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".zip")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One parsed item of `files`.

    Attributes:
        path: of the file, folder or archive: a local path, or an address.
        new_name: its name in the task's working directory, if it has another one there; may contain folders.
        unpack: unpack the archive into a folder of that name.
        optional: it may be missing.
    """

    path: str
    new_name: str | None = None
    unpack: bool = False
    optional: bool = False

    @property
    def name(self) -> str:
        """Return the name in the task's working directory."""
        if self.new_name is None:
            return os.path.basename(self.path.rstrip("/"))
        return PurePosixPath(self.new_name).as_posix()


def parse_file_entry(text: str) -> FileEntry:
    """Parse `path::name#archive#optional`.

    Raises:
        ValueError: more than one `::`, or a name outside the working directory.
    """
    left, marks = text, set()
    while (mark := next((m for m in ("#archive", "#optional") if left.endswith(m)), None)) and mark not in marks:
        left = left.removesuffix(mark)
        marks.add(mark)
    path, colons, name = left.partition("::")
    if "::" in name:
        raise ValueError("it has more than one `::`. Write path::name.")
    if colons and not _stays_inside(name):
        raise ValueError(f"the new name {name!r} must be a relative path inside the working directory.")
    return FileEntry(
        path=path, new_name=name if colons else None, unpack="#archive" in marks, optional="#optional" in marks
    )


def _stays_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


def is_archive(text: str) -> bool:
    """Return True if the name is that of an archive."""
    return text.lower().endswith(ARCHIVE_SUFFIXES)
